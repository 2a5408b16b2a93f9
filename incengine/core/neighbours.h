// Who is at the other end of each port: switches by their hellos, hosts by their LLDP and their ARP
// (docs/PROTOCOL-CONTROL.md, section 12). Says hello, and keeps what is heard for as long as its sender says.
//
// What is heard is not judged here: anybody may say anything of himself, and the manager, which knows what
// others have heard, decides what is true. What cannot be is refused, and counted at its port.
//
// Values only: a copy is a snapshot.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/silence.h"
#include "base/types.h"
#include "roce/arp.h"
#include "roce/lldp.h"

namespace epic::engine {

enum class NeighbourKind : uint8_t { kSwitch = 1, kHost, kBridge };
enum class HeardBy : uint8_t { kLldp = 1, kSecondAddress, kArp };

struct Neighbour {
  NeighbourKind kind{};
  std::string name;  // printable ASCII, as are port and version; empty if not told
  std::string port;
  std::optional<Ipv4> ip;
  roce::MacAddress mac{};
  std::string version;  // of a switch
  HeardBy heard_by{};

  friend bool operator==(const Neighbour&, const Neighbour&) = default;
};

// What is refused or odd of what is heard at a port. A counter each.
enum class HelloCount : uint8_t {
  kMalformed,     // ParseLldp refuses it
  kFromItself,    // it is this switch's: two of its ports are joined, or another switch has its MAC address
  kOtherSource,   // a switch's hello whose sender is not the switch that it names
  kBeyondBound,   // there are too many neighbours already
  kBeyondRate,    // too many in a short time
  kSecondSwitch,  // of a switch while another one is heard at the port: taken
  kArpBeyondRate,
  kCount,
};

// The counter's name, for example "from_itself".
const char* Name(HelloCount what);

// What a switch says of itself. Without ports' names it says nothing.
struct HelloIdentity {
  std::string name;
  std::string version;
  std::vector<std::string> port_names;
};

class Neighbours {
 public:
  static constexpr Nanos kHelloInterval = kSecond;
  static constexpr uint16_t kHoldSeconds = 3;
  // Of a port, by LLDP; and hosts by ARP, of which the one that was silent for longest goes.
  static constexpr size_t kMaxByLldp = 16;
  static constexpr size_t kMaxByArp = 64;
  static constexpr Nanos kArpAgeing = 300 * kSecond;
  // A port that has come up: before this a switch there may not have said hello yet, whose hosts are not the
  // port's.
  static constexpr Nanos kArpWait = 2 * kSecond;

  Neighbours(HelloIdentity identity, const roce::MacAddress& mac, Ipv4 address, size_t port_count);

  // Of these, true if what At says has changed.
  //
  // A port has come up or gone down; before the first time it is down. Of one that is down nothing is known.
  bool OnPort(Nanos now, PortId port, bool up);
  // A frame to one of LLDP's addresses. *answer: a neighbour that was not known is to hear a hello at once.
  bool OnHello(Nanos now, PortId port, std::span<const uint8_t> frame, bool* answer);
  // A frame of this switch's own has come in again.
  void OnOwnHello(PortId port) { Count(port, HelloCount::kFromItself); }
  // ARP of any kind, that is believed.
  bool OnArp(Nanos now, PortId port, const roce::Arp& arp);
  // Forgets who has not been heard of for too long. At least once per hello: what is late by another one's
  // time forgets nobody, as what was said meanwhile may wait to be heard, nor does the next within it.
  bool OnTime(Nanos now);

  // Whether hellos are said by the port.
  bool Speaks(PortId port) const { return ports_[port].up && !identity_.port_names.empty(); }
  // A hello to kLldpMac or kHelloMac. Returns its bytes; out has at least roce::kMaxLldpFrameBytes.
  size_t WriteHello(PortId port, const roce::MacAddress& dst, std::span<uint8_t> out) const;

  // Whether a switch is heard there that something that bridges is in front of.
  bool BridgedSwitch(PortId port) const { return ports_[port].bridged_switch; }
  // Whether it is the address of a neighbour that is heard there by LLDP.
  bool Hears(PortId port, const roce::MacAddress& mac) const;

  // Whether an address may be asked for now; and if so, whether by this port.
  bool MayLocate(Nanos now);
  bool Locates(PortId port) const { return ports_[port].up && !ports_[port].has_switch; }

  // First those by LLDP; in an order that depends on who they are only.
  std::vector<Neighbour> At(PortId port) const;
  const std::array<uint64_t, static_cast<size_t>(HelloCount::kCount)>& counts(PortId port) const {
    return ports_[port].counts;
  }

 private:
  // So many at once, and so many per second in the long run.
  struct Bucket {
    bool Take(Nanos now, Nanos interval, uint32_t most);
    Nanos full_at = 0;
  };
  struct Heard {
    Neighbour neighbour;
    Nanos by_lldp_until = 0;
    Nanos by_second_until = 0;
  };
  struct Host {
    roce::MacAddress mac{};
    Nanos seen = 0;
  };
  struct Port {
    bool up = false;
    Nanos up_since = 0;
    bool has_switch = false;
    bool bridged_switch = false;
    std::map<std::string, Heard> heard;  // by names of chassis and port
    std::map<Ipv4, Host> hosts;          // none while has_switch
    Bucket hellos, arps;
    std::array<uint64_t, static_cast<size_t>(HelloCount::kCount)> counts{};
  };

  void Count(PortId port, HelloCount what) { ++ports_[port].counts[static_cast<size_t>(what)]; }
  static void NoteSwitches(Port* port);

  HelloIdentity identity_;
  roce::MacAddress mac_;
  Ipv4 address_;
  std::vector<Port> ports_;
  Bucket locates_;
  Standstill standstill_{/*late=*/2 * kHelloInterval, /*hears_in=*/kHelloInterval};
  Nanos looked_at_ = 0;  // by OnTime
};

}  // namespace epic::engine
