// What a fallback server's node has of its group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fallback/sums.h"
#include "roce/transport/queue_pair.h"

namespace epic::check {

struct Server {
  static constexpr size_t kSlots = 8;
  static constexpr uint32_t kSlotBytes = 512;

  roce::QueuePair qp;
  fallback::Sums sums;
  size_t sent = 0;  // sums
  // What is being received, and behind it sums that have been sent, by turns.
  std::vector<uint8_t> memory = std::vector<uint8_t>(kSlots * kSlotBytes);
};

}  // namespace epic::check
