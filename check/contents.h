// What is under way on channels: lists of packets, each kept once and known by a number. 0 is the empty one.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <vector>

#include "check/packets.h"

namespace epic::check {

class Contents {
 public:
  // Without order a list is sorted, so that it tells what is under way and not which was sent first.
  Contents(const Packets& packets, bool ordered) : packets_(packets), ordered_(ordered) {}

  uint32_t Add(uint32_t content, PacketId packet);
  uint32_t Without(uint32_t content, uint32_t place);
  // The packet in front of all others; without order, at its place.
  uint32_t Prepend(PacketId packet, uint32_t content) {
    return ordered_ ? Prepended(packet, content) : Add(content, packet);
  }
  // The packet at a place, twice.
  uint32_t Doubled(uint32_t content, uint32_t place);
  // The first two have changed places; there must be so many.
  uint32_t Swapped(uint32_t content);

  PacketId At(uint32_t content, uint32_t place) const {
    for (; place > 0; --place) content = lists_[content].rest;
    return lists_[content].head;
  }
  uint32_t Rest(uint32_t content) const { return lists_[content].rest; }
  uint32_t Length(uint32_t content) const { return lists_[content].length; }
  size_t size() const { return lists_.size(); }

 private:
  struct List {
    PacketId head = 0;
    uint32_t rest = 0;  // the list behind it
    uint32_t length = 0;
  };

  static uint64_t Key(uint32_t a, uint32_t b) { return uint64_t{a} << 32 | b; }
  uint32_t Prepended(PacketId head, uint32_t rest);

  const Packets& packets_;
  const bool ordered_;
  std::vector<List> lists_{1};
  absl::flat_hash_map<uint64_t, uint32_t> prepended_;  // by head and rest
  absl::flat_hash_map<uint64_t, uint32_t> added_;      // by content and packet
};

}  // namespace epic::check
