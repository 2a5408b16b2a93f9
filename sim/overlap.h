// ReduceScatter of one group and AllGather of another over the same hosts and links in virtual time: how much
// they overlap (EPIC paper, Figure 14).
#pragma once

#include <cstdint>

#include "sim/world.h"

namespace epic::sim {

// By which way a call goes.
enum class OverlapWay : uint8_t {
  kNetwork,
  kRing,       // of the hosts
  kMulticast,  // between the hosts; an AllGather alone
};

struct OverlapConfig {
  Mode mode = kDefaultMode;
  OverlapWay reduce_scatter = OverlapWay::kNetwork;
  OverlapWay all_gather = OverlapWay::kNetwork;
  TreeSpec tree = Star(8);
  uint64_t bytes = 8 << 20;  // of all parts together, FP32; of each call
  int calls = 1;             // of each group, one behind the other without a pause
  uint32_t path_mtu = 4096;
  uint32_t message_packets = 8;  // of the network's groups: M
  uint32_t window_messages = 8;  // of these: W
  int32_t most_outstanding = 0;  // packets that a NIC sends ahead of acknowledgements; 0: rdma_rxe's 128
  int64_t bits_per_second = 100'000'000'000;
  uint32_t staging_chunks = 512;  // of kMulticast
};

// The bytes of both groups on the links of the hosts, headers included: mean over the hosts.
struct HostLoad {
  int64_t up = 0;
  int64_t down = 0;
};

struct Overlap {
  bool right = false;  // every result of every run
  Nanos reduce_scatter = 0;
  Nanos all_gather = 0;
  Nanos both = 0;  // at once
  HostLoad reduce_scatter_load;
  HostLoad all_gather_load;
};

// Runs each alone and then both at once, each time in a new world without losses.
Overlap MeasureOverlap(const OverlapConfig& config);

}  // namespace epic::sim
