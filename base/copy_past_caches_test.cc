#include "base/copy_past_caches.h"

#include <gtest/gtest.h>

#include <vector>

namespace epic {
namespace {

TEST(CopyPastCachesTest, CopiesEveryByteAndNoOther) {
  std::vector<uint8_t> from(400);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint8_t>(i * 7 + 1);
  for (size_t begin = 0; begin < 20; ++begin) {
    for (size_t bytes = 0; bytes < 300; ++bytes) {
      std::vector<uint8_t> to(400), want(400);
      CopyPastCaches(&to[begin], &from[3], bytes);
      for (size_t i = 0; i < bytes; ++i) want[begin + i] = from[3 + i];
      ASSERT_EQ(to, want) << bytes << " bytes to " << begin;
    }
  }
}

}  // namespace
}  // namespace epic
