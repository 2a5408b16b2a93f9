#include "base/imports.h"

#include <gtest/gtest.h>
#include <unistd.h>

extern "C" int EpicAskAccess(const char* path);  // imports_testing.cc, in a library of its own

namespace epic {
namespace {

int AlwaysSeven(const char* /*path*/, int /*mode*/) { return 7; }

const Import kSeven[] = {{"access", reinterpret_cast<void*>(&AlwaysSeven)},
                         {"nosuch", reinterpret_cast<void*>(&AlwaysSeven)}};

TEST(ImportsTest, OneLibraryCallsAnotherFunctionAndNobodyElseDoes) {
  EXPECT_EQ(ReplaceImports("libnosuch", kSeven), 0u);
  EXPECT_EQ(EpicAskAccess("/"), 0);
  for (int i = 0; i < 2; ++i) {  // the second time it has been
    EXPECT_EQ(ReplaceImports("libepic_imports_testing.so", kSeven), 1u);
    EXPECT_EQ(EpicAskAccess("/"), 7);
    EXPECT_EQ(access("/", F_OK), 0);
  }
}

TEST(ImportsTest, AFilesName) {
  EXPECT_EQ(FileNameOf("/usr/lib/libucs.so.0"), "libucs.so.0");
  EXPECT_EQ(FileNameOf("libucs.so.0"), "libucs.so.0");
  EXPECT_EQ(FileNameOf("/usr/"), "");
}

}  // namespace
}  // namespace epic
