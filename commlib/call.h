// A call of a communicator, from being posted until its request is dropped.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "commlib/core/group_calls.h"
#include "commlib/timeouts.h"
#include "commlib/verbs/device.h"
#include "epic/epic.h"
#include "protocol/control.h"

namespace epic::internal {

// Guarded by its communicator's mutex.
struct Call {
  ControlHeader header;
  const uint8_t* send = nullptr;
  uint8_t* recv = nullptr;
  // Where the NIC reads and writes, if not in the bounce buffers.
  std::shared_ptr<verbs::Memory> send_memory;
  std::shared_ptr<verbs::Memory> recv_memory;
  // Of a quantised call that goes between the hosts, or may: what travels. Of a scaled one `send` and `recv`
  // point into it, and `result` is where the result goes when it has come, or null.
  std::unique_ptr<uint8_t[]> quantised;
  uint8_t* result = nullptr;
  uint64_t saturated_inputs = 0;
  // As long as `ask_before` is not 0: when to ask whom the group waits for, so long before the deadline.
  Clock::time_point deadline;
  std::chrono::milliseconds ask_before{0};
  Clock::time_point made_at;
  CallNumber number = 0;  // of its communicator's calls
  bool done = false;
  Error error;  // once done
};

}  // namespace epic::internal
