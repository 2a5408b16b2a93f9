// Addresses that somebody has listed: "10.0.0.7,10.1.0.0/16".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace epic::softnic {

class PeerList {
 public:
  // IPv4 addresses and prefixes with commas between; empty entries count for nothing. What is none is left
  // out and appended to `wrong`.
  static PeerList Parse(std::string_view text, std::vector<std::string>* wrong);

  bool Contains(Ipv4 ip) const;

 private:
  struct Prefix {
    uint32_t bits = 0;
    uint32_t mask = 0;
  };
  std::vector<Prefix> prefixes_;
};

}  // namespace epic::softnic
