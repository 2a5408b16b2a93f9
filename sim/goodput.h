// AllReduces of groups over the same hosts of one switch, side by side, in virtual time: how long they take
// and what passes the hosts' links.
#pragma once

#include <cstdint>

#include "sim/clock.h"
#include "sim/world.h"

namespace epic::sim {

struct GoodputConfig {
  int hosts = 4;
  int groups = 1;            // with a rank on every host each; they make one call each, at the same time
  uint64_t bytes = 1 << 20;  // FP32, of all groups together; each has an equal share
  bool by_hosts = false;     // around the ring of hosts, not by the switch; then there is one group
  Mode mode = kDefaultMode;
  uint32_t path_mtu = 1024;
  uint32_t message_packets = 16;
  uint32_t window_messages = 8;
  int32_t host_most_outstanding = 512;  // packets, of a NIC
  Nanos link_delay_ns = 1 * kMicrosecond;
  int64_t bits_per_second = 100'000'000'000;
};

struct Goodput {
  bool right = false;  // every result, of every rank
  Picos time = 0;      // from the first call to the last result
  int64_t up = 0;      // bytes on a host's link with headers and acknowledgements; mean over the hosts
  int64_t down = 0;
};

// The second call of two, the first of which has made the hosts' connections. Without losses.
Goodput MeasureGoodput(const GoodputConfig& config);

}  // namespace epic::sim
