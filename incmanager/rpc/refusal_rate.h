// How often each peer is refused: the first so many of a second are told one by one, and the others are counted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "base/types.h"

namespace epic::manager {

class RefusalRate {
 public:
  // So many peers are known at once; of more, who was refused last stays.
  static constexpr size_t kPeers = 1024;

  explicit RefusalRate(uint32_t most) : most_(most) {}

  // Whether this one is told by itself.
  bool IsTold(Nanos now, const std::string& peer) {
    if (peers_.size() >= kPeers && !peers_.contains(peer))
      peers_.erase(std::ranges::min_element(peers_, {}, [](const auto& one) { return one.second.since; }));
    Second& second = peers_[peer];
    if (second.count == 0 || now - second.since >= kSecond) second = {.since = now};
    return ++second.count <= most_;
  }

 private:
  struct Second {
    Nanos since = 0;
    uint32_t count = 0;
  };
  const uint32_t most_;
  std::map<std::string, Second> peers_;
};

}  // namespace epic::manager
