// Hosts whose daemon (inchost) is not heard any more, and whether they live without it: their switches ask them by ARP
// (docs/PROTOCOL-CONTROL.md, section 7.2). Sans-IO: time and answers come in, what is to be asked goes out. No time is
// measured: a switch's answer that the host has given none counts, so that whoever is late proves nothing.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/types.h"
#include "incmanager/hosts/host_table.h"

namespace epic::manager {

class HostDoubts {
 public:
  static constexpr Nanos kAskEvery = 300 * kMillisecond;
  // So many switch's answers that there is none of the host, 2 s, and it is lost; or so many if there had been one: 6 s.
  static constexpr uint32_t kMissed = 7;
  static constexpr uint32_t kMissedAfterAnswer = 20;

  struct Doubt {
    HostId host = 0;  // whose daemon is silent; 0: its stream has ended, by which something on the host lived then
    std::string name;
    std::set<Ipv4> addresses;
    Nanos until = 0;
    bool lives = false;  // it has answered
    bool lost = false;   // it does not
  };

  // Its fields are given but for the last two. Goes on with a doubt of one of the addresses, if there is one.
  void Begin(Doubt doubt);
  // The daemon of a host with one of these addresses is heard again. Returns all addresses of which there was doubt.
  std::set<Ipv4> End(const std::set<Ipv4>& addresses);
  // This silent daemon is.
  void EndOf(HostId host);

  // Whose switch is to be asked now. Each is answered by one of the following.
  std::vector<Ipv4> Due(Nanos now);
  // As in ProbeReply of proto/switch.proto.
  void OnAnswer(Ipv4 host, bool asked, uint32_t answered);
  // Its switch cannot be asked at present.
  void OnNoAnswer(Ipv4 host);
  // No switch is known at which the host is. If its daemon is silent the host is missed.
  void OnNoSwitch(Ipv4 host);

  // Doubts that are over: of hosts that are lost, and those whose time is.
  std::vector<Doubt> TakeOver(Nanos now);
  // Those that there are.
  std::vector<Doubt> All() const;

 private:
  struct Asked {
    Nanos at = kNever;  // the last time
    bool open = false;
    uint32_t count = 0;
    uint32_t answered = 0;  // the newest ask that the host has answered, counted from 1; 0: none
    uint32_t missed = 0;    // answers of the switch that there is no newer one
  };
  struct State {
    Doubt doubt;
    std::map<Ipv4, Asked> asked;
  };
  Asked* Find(Ipv4 host, State** of = nullptr);

  std::vector<State> states_;
};

}  // namespace epic::manager
