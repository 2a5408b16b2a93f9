// Asks neighbours whether they answer: a UDP echo request (RFC 862) to the address of another switch, on the
// path that a group's packets take; an ARP request to a host at a port. The manager has it asked for when
// that switch's agent, or the host's daemon, is silent. There is no timer: what became of the last requests
// is said when the next one to that address is asked for.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/types.h"
#include "protocol/echo_history.h"
#include "roce/arp.h"
#include "roce/packet.h"

namespace epic::engine {

struct ProbeTarget {
  Ipv4 ip{};
  roce::MacAddress mac{};  // next hop
  PortId port{};
  bool by_arp = false;  // a host at the port
};

// What became of the requests before this one to the same address.
struct ProbeAnswer {
  bool asked = false;     // there was one
  uint32_t answered = 0;  // the newest whose answer has come, as EchoHistory counts
};

// Values only: a copy is a snapshot.
class Prober {
 public:
  // Makes *frame the next request, from this MAC and address.
  ProbeAnswer Ask(const ProbeTarget& target, Ipv4 own_ip, const roce::MacAddress& own_mac,
                  std::vector<uint8_t>* frame);
  // Takes the answer to one of the last requests, which comes by the port of the target: others could forge
  // it. False if the frame is none.
  bool OnFrame(PortId port, std::span<const uint8_t> frame, Ipv4 own_ip);
  // The same of an ARP answer, which says of no request that it is its own: it counts as that to the last.
  void OnArp(PortId port, const roce::Arp& arp);

 private:
  // More neighbours than a switch has ports; beyond it the one that was asked first is forgotten.
  static constexpr size_t kMaxTargets = 256;

  struct Asked {
    EchoHistory requests;
    PortId port{};
    std::optional<roce::MacAddress> by_arp;  // from where its answers come, if it is asked so
  };
  std::map<Ipv4, Asked> asked_;  // by target
  uint32_t next_number_ = 1;
};

}  // namespace epic::engine
