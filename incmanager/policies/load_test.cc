#include "incmanager/policies/load.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace epic::manager {
namespace {

Allocation RandomAllocation(std::mt19937* random) {
  const auto roll = [random](uint32_t sides) { return static_cast<uint32_t>((*random)() % sides); };
  Allocation out;
  std::set<LinkEnd> links;
  for (uint32_t i = 0; i <= roll(5); ++i) links.insert({roll(9), roll(4)});
  out.links.assign(links.begin(), links.end());
  std::map<NodeId, uint64_t> switches;
  for (uint32_t i = 0; i <= roll(4); ++i) switches[roll(7)] = roll(3) * 64;
  const bool blocks = roll(2) == 0;
  // Owners of a block agree on its bytes, its low byte and its tenant.
  for (const auto& [node, bytes] : switches) {
    const uint32_t block = blocks ? 1 + 2 * roll(3) : 0;
    out.switches.push_back({node, blocks ? 640 * block : bytes, block, static_cast<uint8_t>(block)});
  }
  if (roll(2) == 0) out.reserved_kbps = 1 + roll(1000);
  out.exclusive = roll(3) == 0;
  if (roll(2) == 0 || blocks) out.tenant = roll(2) == 0 || blocks ? "red" : "blue";
  out.share.duty = 1 + roll(kWholeTime);
  if (roll(2) == 0) out.share.job = roll(2) == 0 ? "a" : "b";
  if (!out.share.job.empty() && roll(3) != 0) out.share.phase = roll(2) == 0 ? "up" : "down";
  return out;
}

TEST(Load, UndoIsTheExactInverseOfApplyInAnyOrder) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    Load load;
    for (int i = 0; i < 5; ++i) load.Apply(RandomAllocation(&random));
    const Load before = load;
    std::vector<Allocation> taken;
    for (int i = 0; i < 10; ++i) {
      taken.push_back(RandomAllocation(&random));
      load.Apply(taken.back());
      load.CheckInvariants();
      EXPECT_FALSE(load == before);
    }
    std::shuffle(taken.begin(), taken.end(), random);
    for (const Allocation& allocation : taken) {
      load.Undo(allocation);
      load.CheckInvariants();
    }
    EXPECT_TRUE(load == before);
  }
}

TEST(Load, CountsWhatGroupsHave) {
  Load load;
  const Allocation sharing{.links = {{0, 1}, {2, 0}}, .switches = {{0, 640}, {2, 64}}, .tenant = "red"};
  Allocation reserving = sharing;
  reserving.reserved_kbps = 500;
  reserving.exclusive = true;
  load.Apply(sharing);
  load.Apply(reserving);
  EXPECT_EQ(load.link({0, 1}), (LinkLoad{.reserved_kbps = 500, .sharing = 1, .exclusive = 1}));
  EXPECT_EQ(load.link({0, 7}), LinkLoad{});
  EXPECT_EQ(load.at(2), (SwitchLoad{.bytes = 128, .groups = 2, .blocks = {}}));
  EXPECT_EQ(load.of("red").groups, 2U);
  EXPECT_EQ(load.of("red").reserved_kbps, 500U);
  EXPECT_EQ(load.of("red").bytes.at(0), 1280U);
  EXPECT_EQ(load.of("blue"), TenantLoad{});
}

TEST(Load, ABlockIsThereOnceAndGoesWithItsLastOwner) {
  Load load;
  Allocation one{.links = {}, .switches = {{0, 640, 3, 7}}, .tenant = "red", .share = {.duty = 300'000}};
  Allocation other = one;
  other.share = {.duty = 500'000, .job = "train", .phase = "forward"};
  load.Apply(one);
  load.Apply(other);
  EXPECT_EQ(load.at(0).bytes, 640U);
  EXPECT_EQ(load.at(0).groups, 2U);
  EXPECT_EQ(load.of("red").bytes.at(0), 640U);
  const BlockLoad& block = load.at(0).blocks.at(3);
  EXPECT_EQ(block.owners, 2U);
  EXPECT_EQ(block.low_byte, 7U);
  EXPECT_EQ(block.Taken(), 800'000U);
  // Who made it goes: it stays as large as it was.
  load.Undo(one);
  EXPECT_EQ(load.at(0).bytes, 640U);
  EXPECT_EQ(load.of("red").bytes.at(0), 640U);
  EXPECT_EQ(load.at(0).blocks.at(3).Taken(), 500'000U);
  load.Undo(other);
  EXPECT_TRUE(load == Load{});
}

TEST(LoadDeathTest, OwnersAgreeOnTheirBlock) {
  Load load;
  const Allocation one{.links = {}, .switches = {{0, 640, 3, 7}}, .tenant = "red"};
  load.Apply(one);
  Allocation other = one;
  other.switches[0].low_byte = 8;
  EXPECT_DEATH(load.Apply(other), "");
  other = one;
  other.switches[0].bytes = 704;
  EXPECT_DEATH(load.Apply(other), "");
  other = one;
  other.tenant = "blue";
  EXPECT_DEATH(load.Apply(other), "");
}

TEST(LoadDeathTest, WhatWasNotTakenIsNotGivenBack) {
  Load load;
  const Allocation one{.links = {{0, 1}}, .switches = {{0, 640}}};
  load.Apply(one);
  load.Undo(one);
  EXPECT_DEATH(load.Undo(one), "");
}

}  // namespace
}  // namespace epic::manager
