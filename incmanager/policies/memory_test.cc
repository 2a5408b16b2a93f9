#include "incmanager/policies/memory.h"

#include <gtest/gtest.h>

namespace epic::manager {
namespace {

// Of every mode and of all that the bytes depend on: what an engine would take.
TEST(MemoryWords, AreInTheLargestUnitThatTellsWhyItIsTooLittle) {
  EXPECT_EQ(MemoryWords("leaf3", 524288, 209715, 1048576), "leaf3 has 0.2 of 1.0 MiB free, 0.5 needed");
  EXPECT_EQ(MemoryWords("leaf3", 139264, 65536, 65536), "leaf3 has 64.0 of 64.0 KiB free, 136.0 needed");
  EXPECT_EQ(MemoryWords("leaf3", 600, 500, 1000), "leaf3 has 500 of 1000 bytes free, 600 needed");
  EXPECT_EQ(BytesWords(1572864), "1.5 MiB");
  EXPECT_EQ(BytesWords(12288), "12.0 KiB");
  EXPECT_EQ(BytesWords(640), "640 bytes");
}

}  // namespace
}  // namespace epic::manager
