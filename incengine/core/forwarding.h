// Ordinary traffic: which ports a frame leaves by. Entries come from the manager (static) or, in learning
// mode, also from the source addresses seen (IEEE 802.1D, 7.8 and 7.9). A frame never leaves by the port that
// it came in by.
//
//   mode      known unicast   unknown unicast            broadcast, multicast
//   static    its port        dropped                    flood ports, if it came in by one of them
//   learning  its port        as broadcast               as static; all ports until a table is set
//
// A multicast address for which the table states ports is not flooded: it leaves by these alone, if it came
// in by one of them or by a flood port, in both modes.
//
// A port at which a host is guarded takes in static mode only frames with that host's addresses. In learning
// mode a host may move, and no port is guarded.
//
// Values only: a copy is a snapshot.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "roce/packet.h"

namespace epic::engine {

enum class ForwardingMode : uint8_t { kStatic, kLearning };

struct ForwardingEntry {
  roce::MacAddress mac{};
  std::optional<Ipv4> ip;  // with it the switch answers ARP for the address
  PortId port = kNoPort;
  // It is a host at the other end of this port, and in static mode all that comes in by the port must bear
  // its addresses (core/source_guard.h).
  bool source_guard = false;
};

// The ports of a multicast group.
struct GroupPorts {
  roce::MacAddress mac{};
  std::vector<PortId> ports;  // each once
};

struct ForwardingTable {
  std::vector<ForwardingEntry> entries;
  std::vector<PortId> flood_ports;  // free of loops in the whole network
  std::vector<GroupPorts> groups = {};
};

// Why a frame of ordinary traffic leaves by no port. A counter each.
enum class ForwardDrop : uint8_t {
  kUnknownUnicast,  // static mode, or an unknown address on a port that may not flood
  kNoFloodPort,     // broadcast or multicast, and its ingress (or no other port) is a flood port, or one of
                    // its group's ports
  kBackToIngress,   // its destination is where it came from
  kReservedGroup,   // 01:80:c2:00:00:00 to :0f, which bridges never forward (IEEE 802.1D, 7.12.6), and
                    // roce::kHelloMac
  kBadSource,       // a group address as source
  kForgedSource,    // not the addresses of the host that is guarded at the port
  kCount,
};

// The reason's name as counters show it, for example "unknown_unicast".
const char* Name(ForwardDrop reason);

class Forwarding {
 public:
  static constexpr size_t kMaxLearned = 4096;
  static constexpr Nanos kAgeing = 300 * kSecond;

  Forwarding(ForwardingMode mode, size_t port_count);

  // Replaces all entries, flood ports and groups. INVALID_ARGUMENT (names the field): a port that the switch
  // does not have or at which two hosts are guarded, a host with a group address, a group with none that can
  // be one's (a host's, a reserved one, broadcast), a MAC or IP address or a group's port stated twice;
  // nothing changes on error.
  Status SetTable(const ForwardingTable& table);

  // The ports that a frame leaves by, or none and *drop. Valid until the next call. In learning mode notes
  // where src is.
  std::span<const PortId> Route(Nanos now, PortId ingress, const roce::MacAddress& src,
                                const roce::MacAddress& dst, ForwardDrop* drop);

  // The port of the table's entry for this address, or kNoPort.
  PortId TablePort(const roce::MacAddress& mac) const;

  // The entry that answers ARP for this address.
  const ForwardingEntry* FindIp(Ipv4 ip) const;

  // The host that is guarded at the port; none in learning mode.
  const ForwardingEntry* GuardedHost(PortId port) const {
    return guarded_[port] == kNone ? nullptr : &table_.entries[guarded_[port]];
  }

  ForwardingMode mode() const { return mode_; }
  // As set, for dumps.
  const ForwardingTable& table() const { return table_; }
  size_t learned_count() const { return learned_.size(); }
  // Addresses that were not learned because the table was full.
  uint64_t learn_failures() const { return learn_failures_; }

 private:
  static constexpr size_t kNone = SIZE_MAX;

  struct Learned {
    PortId port;
    Nanos seen;
  };

  void Learn(Nanos now, PortId port, const roce::MacAddress& mac);
  PortId Find(Nanos now, const roce::MacAddress& mac) const;
  std::span<const PortId> Flood(PortId ingress, ForwardDrop reason, ForwardDrop* drop);
  std::span<const PortId> ToGroup(PortId ingress, const std::vector<PortId>& ports, ForwardDrop* drop);

  ForwardingMode mode_;
  size_t port_count_;
  ForwardingTable table_;
  std::vector<bool> floods_;  // by port
  std::map<roce::MacAddress, PortId> static_;
  std::map<Ipv4, size_t> by_ip_;               // index into table_.entries
  std::vector<size_t> guarded_;                // the same, by port; kNone where no host is guarded
  std::map<roce::MacAddress, size_t> groups_;  // index into table_.groups
  std::map<roce::MacAddress, Learned> learned_;
  Nanos swept_at_;
  uint64_t learn_failures_ = 0;
  std::vector<PortId> out_;
};

}  // namespace epic::engine
