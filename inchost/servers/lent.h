// The memory that this host lends to groups of mode V: who has some, and who gets some
// (docs/PROTOCOL-CONTROL.md, section 7.5). No I/O. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>

#include "base/types.h"
#include "proto/manager.pb.h"

namespace epic::host {

class Lent {
 public:
  // bytes: of all groups together. max_path_mtu: of the port by which they are served.
  Lent(uint64_t bytes, uint32_t max_path_mtu) : bytes_(bytes), max_path_mtu_(max_path_mtu) {}

  // The group gets what it needs, or the answer says why not. With `needed_bytes` and `left_bytes` always.
  proto::ServerMade Take(const proto::MakeServer& request);
  // It has nothing any more; also if it had nothing. False then, or if what it has is of another life of it.
  bool Give(const proto::ServedGroup& group);

  // Without the groups that are served.
  proto::FallbackOffer Offer(Ipv4 ip) const;
  uint64_t left() const { return bytes_ - taken_; }

 private:
  struct Share {
    uint32_t generation = 0;
    uint64_t bytes = 0;
  };

  const uint64_t bytes_;
  const uint32_t max_path_mtu_;
  uint64_t taken_ = 0;
  std::map<uint64_t, Share> shares_;  // by group id
};

}  // namespace epic::host
