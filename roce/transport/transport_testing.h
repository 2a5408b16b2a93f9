// For tests of the transport: memory with keys, a sink that keeps packets, a connected queue pair.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "roce/transport/queue_pair.h"

namespace epic::roce::testing {

// Regions of memory at their own addresses. A region's key serves as lkey and rkey.
class FlatMemory final : public Memory {
 public:
  struct Region {
    uint32_t key = 0;
    uint64_t address = 0;
    bool remote_read = false;
    bool remote_write = false;
    bool remote_atomic = false;
    bool local_write = true;
    std::vector<uint8_t> bytes;
  };
  std::optional<std::span<uint8_t>> Map(Access access, uint32_t key, uint64_t address,
                                        uint32_t length) override;
  // Windows are known by their keys alone, and bound to nothing that could be used.
  bool Bind(const WindowBind& bind) override;
  bool Invalidate(uint32_t rkey) override;
  void AddWindow(uint32_t rkey) { windows_[rkey] = false; }
  Region& Add(uint32_t key, uint64_t address, size_t bytes, bool remote = false);
  Region& region(uint32_t key);
  void Remove(uint32_t key);

 private:
  std::deque<Region> regions_;
  std::map<uint32_t, bool> windows_;  // whether they are bound
};

// A packet that owns its payload.
struct OwnedPacket {
  Packet head;
  std::vector<uint8_t> payload;
  Packet packet() const {
    Packet p = head;
    p.payload = payload;
    return p;
  }
};

class KeepingSink final : public PacketSink {
 public:
  void Send(const Packet& packet) override {
    sent.push_back({packet, {packet.payload.begin(), packet.payload.end()}});
    sent.back().head.payload = {};
  }
  std::deque<OwnedPacket> sent;
};

inline constexpr Ipv4 kLocalIp{0x0a000001};
inline constexpr Ipv4 kRemoteIp{0x0a000002};
inline constexpr Qpn kLocalQpn{0x11};
inline constexpr Qpn kRemoteQpn{0x12};

struct Wiring {
  Policy policy;
  uint32_t path_mtu = 256;
  uint32_t sq_psn = 100;
  uint32_t rq_psn = 500;
  uint8_t timeout = 14;  // 67 ms
  uint8_t retry_cnt = 3;
  uint8_t rnr_retry = 7;
  uint8_t min_rnr_timer = 12;  // 640 us
  uint8_t rd_atomic = 4;
  bool remote_atomic = true;
  bool mirrored = false;  // the other end: addresses, QPNs and PSNs swapped
};
// A queue pair in RTS with everything allowed, but for what `wiring` takes away.
QueuePair Connected(const Wiring& wiring);

// One piece of memory.
SgeList OneSge(uint64_t address, uint32_t length, uint32_t lkey);

// "SEND_ONLY", "ACK", ...
const char* OpcodeName(Opcode opcode);

}  // namespace epic::roce::testing
