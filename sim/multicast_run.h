// Calls of one group by multicast, around the ring of hosts, down a tree of them or by the network, in
// virtual time: how long they take, what passes the links, and what became of datagrams. With losses, and
// with a rank that is slow.
#pragma once

#include <cstdint>
#include <optional>

#include "base/status.h"
#include "commlib/core/host_path.h"
#include "sim/clock.h"
#include "sim/tree_broadcast.h"
#include "sim/world.h"

namespace epic::sim {

struct MulticastRunConfig {
  // On one switch; or, with more leaves than one, the first ones with one more if need be, all below each of
  // the spines.
  int hosts = 4;
  int leaves = 1;
  int spines = 1;
  Collective collective = Collective::kAllGather;  // or kBroadcast, of rank 0
  Algorithm algorithm = Algorithm::kMulticast;     // between the hosts
  std::optional<Mode> mode;                        // by the network in its place
  std::optional<HostTree> tree;                    // down it in its place: one Broadcast
  uint64_t segment_bytes = 1 << 30;                // of that
  uint64_t bytes = 64 << 10;                       // of each part
  int calls = 1;                                   // measured, one behind the other without a pause
  uint32_t path_mtu = 4096;
  uint32_t staging_chunks = HostPathConfig{}.staging_chunks;
  uint32_t tokens = HostPathConfig{}.tokens;
  uint32_t addresses = 1;           // a block of each part to each, over the tree of a spine of its own
  bool agrees_by_switches = false;  // else the hosts agree by messages to each other
  Nanos link_delay_ns = 500;
  int64_t bits_per_second = 56'000'000'000;
  uint8_t timeout = 8;  // of reliable connections: 4.096 us * 2^8 is a millisecond
  // If more: what a datagram takes of the process of the rank in the middle.
  Nanos slow_ns = 0;
  // Of 10^9 packets on a link so many are lost while the measured calls run, always `burst` in a row.
  int64_t loss_ppb = 0;
  int burst = 1;
  bool loses_all = false;  // packets of connections, too, and not only datagrams
  uint64_t seed = 1;       // of losses
};

struct MulticastRun {
  bool right = false;  // every result, of every rank
  Picos time = 0;      // from the first measured call to the last result
  // Of the last call: until its first datagram leaves, and from when the last one has come. Without datagrams
  // 0.
  Picos before = 0;
  Picos behind = 0;
  int64_t links = 0;       // bytes on all links with headers and acknowledgements
  int64_t host_links = 0;  // of these, on links of hosts
  int64_t lost = 0;        // packets, each on one link
  int64_t unposted = 0;    // datagrams for which no receive was posted
  int64_t expected = 0;    // chunks, of all ranks together
  int64_t came = 0;
  int64_t read = 0;
};

// OK, or INVALID_ARGUMENT with words that name the option of epic-multicast: what there is no such run of.
Status Validate(const MulticastRunConfig& config);

// Of a valid configuration. A short call goes before those that are measured, and makes the hosts'
// connections; those down a tree are there.
MulticastRun RunMulticast(const MulticastRunConfig& config);

}  // namespace epic::sim
