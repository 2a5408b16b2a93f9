// The server's end of a group's leg, without I/O: what the NIC works with lies in one piece of memory,
// receives are posted for what may come, and sums go out as fast as earlier ones have been acknowledged
// (docs/PROTOCOL-MODE-V.md, section 5).
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <vector>

#include "fallback/sums.h"
#include "protocol/fallback.h"

namespace epic::fallback {

// The queue pair of the leg. Its functions must not call back.
class LegPort {
 public:
  virtual ~LegPort() = default;
  // The next message is to come into these bytes, and is told by that number. False: it cannot be posted.
  virtual bool PostReceive(uint32_t number, std::span<uint8_t> room) = 0;
  // Sends with immediate; the bytes stay as they are until OnSent of the number. False as above.
  virtual bool PostSend(uint32_t number, uint32_t immediate, std::span<const uint8_t> bytes) = 0;
};

// Not thread-safe. Each function but Start returns empty, or what is wrong, as "kind": then the leg is to
// end, and nothing more is called.
class Leg {
 public:
  // memory: LegMemoryBytes of the group, which outlive this, as port does.
  Leg(const Group& group, std::span<uint8_t> memory, LegPort* port);

  // Posts all receives: once, before the switch may send. False: it cannot.
  bool Start();
  // The message of a receive has come: so many bytes.
  std::string_view OnReceived(uint32_t number, uint32_t immediate, size_t bytes);
  // What was sent by this number has been acknowledged.
  std::string_view OnSent(uint32_t number);

  // Nothing is summed, sent, or waits to be sent.
  bool idle() const { return sums_.size() == 0 && waiting_.empty() && free_.size() == kLegSums; }

 private:
  bool PostReceive(uint32_t number);
  std::string_view SendWaiting();

  const uint32_t path_mtu_;
  const size_t message_bytes_;
  const std::span<uint8_t> memory_;
  LegPort* const port_;
  Sums sums_;
  std::deque<Sums::Fetched> waiting_;  // no number is free for them
  std::vector<uint32_t> free_;         // numbers by which nothing is being sent
};

}  // namespace epic::fallback
