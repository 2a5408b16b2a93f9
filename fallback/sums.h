// A group at its fallback server: sums to which a switch sends parts, and which it fetches when they are
// whole (docs/PROTOCOL-MODE-V.md, section 5). Messages in, sums out; no I/O. State is values.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "base/snapshot.h"
#include "base/types.h"
#include "protocol/control.h"
#include "protocol/fallback.h"
#include "protocol/flow.h"

namespace epic::fallback {

// What of a group the server has to know; the names are those of GroupConfig in proto/switch.proto.
struct Group {
  uint32_t world_size = 0;
  uint32_t path_mtu = 0;         // bytes
  uint32_t message_packets = 0;  // M
  uint32_t slots = 0;            // N: no more indices can be summed at one time
  uint32_t accumulator_mtus = kMostAccumulatorFactor;  // calls of types that take more are refused
};

class Sums {
 public:
  explicit Sums(const Group& group) : group_(group) {}

  // A message of the switch, with its immediate. Empty, or what of it is wrong, as "kind" or "length": then
  // the leg is to end. The leg brings each message once and in order.
  std::string_view Take(uint32_t immediate, std::span<const uint8_t> bytes);

  // A sum that has been fetched, to be sent as kSum.
  struct Fetched {
    uint32_t immediate = 0;
    std::vector<uint8_t> bytes;
  };
  // In the order of asking. False if there is none.
  bool NextFetched(Fetched* out);

  // Indices of which there is something here.
  size_t size() const { return sums_.size(); }

 private:
  friend struct epic::Snapshot;
  struct LegCall {
    LegOpen open;
    DataLayout layout;
  };
  struct Sum {
    bool whole = false;
    std::vector<uint8_t> bytes;  // an accumulator; the sum in wire form when it is whole
  };

  std::string_view Open(std::span<const uint8_t> bytes);
  // The open call that the lower bits of an index belong to, and the whole index; null if there is none.
  const LegCall* CallOf(uint32_t low, Index* index) const;
  std::string_view Add(const LegCall& call, Index index, bool last, std::span<const uint8_t> bytes);

  Group group_;
  std::deque<LegCall> calls_;  // oldest first
  std::map<Index, Sum> sums_;
  std::deque<Fetched> fetched_;
};

}  // namespace epic::fallback
