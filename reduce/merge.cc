#include <cstring>

#include "base/check.h"
#include "reduce/reduce.h"

namespace epic {

void Merge(std::span<uint8_t> acc, std::span<const uint8_t> in) {
  EPIC_CHECK(acc.size() == in.size());
  size_t at = 0;
  for (uint64_t a, b; at + sizeof a <= in.size(); at += sizeof a) {
    std::memcpy(&a, acc.data() + at, sizeof a);
    std::memcpy(&b, in.data() + at, sizeof b);
    a |= b;
    std::memcpy(acc.data() + at, &a, sizeof a);
  }
  for (; at < in.size(); ++at) acc[at] |= in[at];
}

}  // namespace epic
