#include "mpi/binding/kept.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "mpi/binding/group_testing.h"

namespace epic::mpi {
namespace {

using std::chrono::milliseconds;

constexpr KeptGroups::Time kStart{};

std::unique_ptr<Group> Put(KeptGroups* kept, const std::string& name, uint64_t members,
                           KeptGroups::Time until, bool is_whole = true) {
  return kept->Put(
      {.name = name, .members = members, .rank = 1, .ranks = 4, .group = std::make_unique<NoGroup>(is_whole)},
      until);
}

TEST(KeptGroupsTest, TheNewestOfTheseMembersIsOffered) {
  KeptGroups kept;
  EXPECT_EQ(kept.Offer(7), "");
  Put(&kept, "a", 7, kStart);
  Put(&kept, "b", 7, kStart);
  EXPECT_EQ(kept.Offer(7), "b");
  EXPECT_EQ(kept.Offer(8), "");
}

TEST(KeptGroupsTest, OnlyWhoHasThatPlaceInItTakesIt) {
  KeptGroups kept;
  Put(&kept, "a", 7, kStart);
  EXPECT_EQ(kept.Take("b", 1, 4), nullptr);
  EXPECT_EQ(kept.Take("a", 2, 4), nullptr);
  EXPECT_EQ(kept.Take("a", 1, 3), nullptr);
  EXPECT_NE(kept.Take("a", 1, 4), nullptr);
  EXPECT_EQ(kept.Take("a", 1, 4), nullptr);
}

TEST(KeptGroupsTest, OneThatHasEndedIsNobodys) {
  KeptGroups kept;
  Put(&kept, "a", 7, kStart, false);
  EXPECT_EQ(kept.Offer(7), "");
  EXPECT_EQ(kept.Take("a", 1, 4), nullptr);
  EXPECT_NE(kept.TakeOldest(), nullptr);
}

TEST(KeptGroupsTest, TheyAreFewAndTheOldestGoes) {
  KeptGroups kept;
  for (size_t i = 0; i < KeptGroups::kMost; ++i) EXPECT_EQ(Put(&kept, std::to_string(i), i, kStart), nullptr);
  EXPECT_NE(Put(&kept, "last", 99, kStart), nullptr);
  EXPECT_EQ(kept.Offer(0), "");
  EXPECT_EQ(kept.Offer(99), "last");
}

TEST(KeptGroupsTest, TheyAreNotKeptForLong) {
  KeptGroups kept;
  EXPECT_EQ(kept.NextExpiry(), std::nullopt);
  Put(&kept, "a", 7, kStart);
  Put(&kept, "b", 7, kStart + milliseconds(5));
  ASSERT_EQ(kept.NextExpiry(), kStart);
  EXPECT_EQ(kept.TakeExpired(kStart - milliseconds(1)), nullptr);
  EXPECT_NE(kept.TakeExpired(kStart), nullptr);
  EXPECT_EQ(kept.TakeExpired(kStart), nullptr);
  EXPECT_EQ(kept.Offer(7), "b");
}

}  // namespace
}  // namespace epic::mpi
