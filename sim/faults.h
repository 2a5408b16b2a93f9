// What goes wrong on the links of a world, at random.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "sim/choices.h"
#include "sim/world.h"

namespace epic::sim {

// Of a million packets on a link, each alone or several in a super-frame.
struct FaultRates {
  uint64_t loss_ppm = 0;
  uint64_t cut_ppm = 0;  // of super-frames
  uint64_t duplicate_ppm = 0;
  uint64_t delay_ppm = 0;
  uint64_t corrupt_ppm = 0;
  uint64_t burst_ppm = 0;  // that begin a burst, in which the link loses everything
  Nanos burst_ns = 0;      // the longest
  uint64_t linger_ppm = 0;
};

// The next one's, of faults that strike them one by one. packets: that are in it.
Fate RandomFate(const FaultRates& rates, int packets, Choices& choices);

// A switch's engine that loses its groups, or a host that goes with all its ranks.
struct Crash {
  Nanos at = 0;
  Nanos until = 0;
  bool is_host = false;
  int number = 0;  // of the switch or host
};

// One before the faults end, of so many hosts or switches.
Crash RandomCrash(Nanos faults_end, bool is_host, size_t nodes, Choices& choices);

// Bursts too: each direction of a link has its own.
class RandomFaults {
 public:
  explicit RandomFaults(const FaultRates& rates) : rates_(rates) {}
  Fate Next(const LinkPacket& packet, Nanos now, Choices& choices);

 private:
  FaultRates rates_;
  std::map<std::pair<int, int>, Nanos> burst_until_;  // by the link's nodes
};

}  // namespace epic::sim
