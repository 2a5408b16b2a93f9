#include "incengine/state/arena.h"

#include <gtest/gtest.h>

namespace epic::engine {
namespace {

TEST(ArenaTest, FillsGapsFirst) {
  Arena arena(4 * Arena::kAlignment);
  const auto a = arena.Allocate(1);
  const auto b = arena.Allocate(Arena::kAlignment);
  const auto c = arena.Allocate(2 * Arena::kAlignment);
  ASSERT_TRUE(a && b && c);
  EXPECT_EQ(arena.free_bytes(), 0u);
  EXPECT_FALSE(arena.Allocate(1));
  arena.Free(*b);
  EXPECT_FALSE(arena.Allocate(Arena::kAlignment + 1));
  arena.CheckInvariants();
  EXPECT_EQ(arena.Allocate(Arena::kAlignment), b);
  arena.CheckInvariants();
  arena.Free(*a);
  arena.Compact([](size_t, size_t) {});
  arena.CheckInvariants();
  EXPECT_EQ(arena.Allocate(1), 3 * Arena::kAlignment);
  arena.CheckInvariants();
}

TEST(ArenaTest, RefusesMoreThanThereIs) {
  Arena arena(1000);
  EXPECT_FALSE(arena.Allocate(1001));
  EXPECT_FALSE(arena.Allocate(SIZE_MAX - 100));
}

}  // namespace
}  // namespace epic::engine
