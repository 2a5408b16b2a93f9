// A group's fallback server in virtual time: the end of its leg at a host, on the RC transport, and the sums
// of fallback/ (docs/PROTOCOL-MODE-V.md, section 5).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fallback/sums.h"
#include "incengine/state/config.h"
#include "roce/transport/queue_pair.h"

namespace epic::sim {

class FallbackServer final : public roce::Memory {
 public:
  // group: as it is installed on its switch, which has that address.
  FallbackServer(const engine::GroupConfig& group, Ipv4 switch_ip);

  void OnPacket(Nanos now, const roce::Packet& packet) { qp_.OnPacket(now, packet, *this); }
  // Takes what has come, and sends what is due.
  void Poll(Nanos now, roce::PacketSink& sink);
  Nanos next_deadline() const { return qp_.next_deadline(); }

  // Nothing is summed here.
  bool empty() const { return sums_.size() == 0; }
  // The first thing that the switch sent and the protocol does not have; empty: nothing. The leg has ended.
  const std::string& wrong() const { return wrong_; }
  // Parts that have come, those that were the last of their index among them.
  int64_t parts() const { return parts_; }

  std::optional<std::span<uint8_t>> Map(roce::Access access, uint32_t key, uint64_t address,
                                        uint32_t length) override;

 private:
  void Take(const roce::Completion& done);
  void PostReceive(uint32_t number);

  size_t bytes_;  // of a message at most: 4U
  roce::QueuePair qp_;
  fallback::Sums sums_;
  std::vector<uint8_t> memory_;  // messages that come, then those that go
  size_t sent_ = 0;
  int64_t parts_ = 0;
  std::string wrong_;
};

}  // namespace epic::sim
