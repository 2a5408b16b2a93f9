#include "incmanager/policies/blocks.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "incmanager/policies/place.h"
#include "incmanager/policies/place_testing.h"

namespace epic::manager {
namespace {

TimeShare Share(uint32_t percent, const std::string& job = "", const std::string& phase = "") {
  return {.duty = percent * (kWholeTime / 100), .job = job, .phase = phase};
}

uint64_t Percent(uint64_t duty) { return duty / (kWholeTime / 100); }

BlockLoad Block(uint64_t bytes, const std::vector<TimeShare>& owners) {
  BlockLoad block{.bytes = bytes};
  for (const TimeShare& share : owners) block.Add(share);
  return block;
}

TEST(BlockLoad, PhasesOfAJobCountAsTheFullestAndAllElseAddsUp) {
  BlockLoad block = Block(1000, {Share(10), Share(30, "a", "up"), Share(20, "a", "down")});
  EXPECT_EQ(Percent(block.Taken()), 40U);
  block.Add(Share(20, "a", "down"));
  EXPECT_EQ(Percent(block.Taken()), 50U);
  // Another job contends, and so does one of the job that declares no phase.
  block.Add(Share(10, "b", "down"));
  block.Add(Share(5, "a"));
  EXPECT_EQ(Percent(block.Taken()), 65U);
  EXPECT_EQ(Percent(block.LeftFor(Share(1))), 35U);
  EXPECT_EQ(Percent(block.LeftFor(Share(1, "a", "up"))), 45U);
  EXPECT_EQ(Percent(block.LeftFor(Share(1, "a", "down"))), 35U);
  EXPECT_EQ(Percent(block.LeftFor(Share(1, "a", "rest"))), 75U);
  EXPECT_EQ(Percent(block.LeftFor(Share(1, "c", "down"))), 35U);
  EXPECT_EQ(block.Usable(block.LeftFor(Share(1, "a", "up"))), 450U);
}

TEST(BlockLoad, WhatIsRemovedWasNeverThere) {
  const BlockLoad before = Block(1000, {Share(10), Share(30, "a", "up")});
  BlockLoad block = before;
  for (const TimeShare& share : {Share(20, "a", "down"), Share(5), Share(7, "a", "up")}) block.Add(share);
  for (const TimeShare& share : {Share(7, "a", "up"), Share(20, "a", "down"), Share(5)}) block.Remove(share);
  EXPECT_TRUE(block == before);
  EXPECT_DEATH(block.Remove(Share(1, "b", "up")), "");
}

class Choice : public ::testing::Test {
 protected:
  BlockWish Wish(uint64_t bytes, const TimeShare& share, uint64_t room) const {
    return {.bytes = bytes, .share = share, .tenant = "", .room = room, .sustains = [this](uint64_t usable) {
              return usable >= least_usable;
            }};
  }
  // The number, and whether it joins; or why not.
  std::string Of(const BlockWish& wish) const {
    const auto choice = ChooseBlock(blocks, wish);
    if (const auto* none = std::get_if<NoBlock>(&choice)) {
      return none->why == NoBlock::Why::kMemory ? "memory"
             : none->why == NoBlock::Why::kDuty ? "duty"
                                                : fmt::format("sustain {}", none->usable_bytes);
    }
    const auto& block = std::get<BlockChoice>(choice);
    return fmt::format("{} {} of {}, usable {}", block.joins ? "joins" : "makes", block.number, block.bytes,
                       block.usable_bytes);
  }

  BlockLoads blocks{{1, Block(1000, {Share(50)})},
                    {3, Block(1000, {Share(30)})},
                    {4, Block(500, {Share(10)})},
                    {7, Block(1000, {Share(30)})}};
  uint64_t least_usable = 0;
};

TEST_F(Choice, IsANewBlockWithTheLowestNumberWhereItFits) {
  EXPECT_EQ(Of(Wish(400, Share(20), 400)), "makes 2 of 400, usable 400");
  blocks.erase(1);
  EXPECT_EQ(Of(Wish(400, Share(20), 400)), "makes 1 of 400, usable 400");
}

TEST_F(Choice, IsElseTheBlockWithMostTimeLeftThenTheFirst) {
  EXPECT_EQ(Of(Wish(400, Share(20), 399)), "joins 4 of 500, usable 450");
  EXPECT_EQ(Of(Wish(501, Share(20), 399)), "joins 3 of 1000, usable 700");
  EXPECT_EQ(Of(Wish(501, Share(70), 399)), "joins 3 of 1000, usable 700");
  blocks.at(3).tenant = "red";
  EXPECT_EQ(Of(Wish(501, Share(20), 399)), "joins 7 of 1000, usable 700");
}

// Whoever is not free to choose its QPNs has the blocks of their low byte.
TEST_F(Choice, HasTheLowByteThatIsAskedFor) {
  blocks.at(3).low_byte = 5;
  BlockWish wish = Wish(501, Share(20), 399);
  EXPECT_EQ(Of(wish), "joins 3 of 1000, usable 700");
  wish.low_byte = 0;
  EXPECT_EQ(Of(wish), "joins 7 of 1000, usable 700");
  wish.low_byte = 5;
  EXPECT_EQ(Of(wish), "joins 3 of 1000, usable 700");
  wish.low_byte = 9;
  EXPECT_EQ(Of(wish), "memory");
  EXPECT_EQ(MostUsable(blocks, wish), 399U);
  EXPECT_EQ(NoBlockWords(blocks, wish), "");
}

TEST_F(Choice, ThereIsNoneWithWords) {
  EXPECT_EQ(Of(Wish(1001, Share(20), 399)), "memory");
  EXPECT_EQ(NoBlockWords(blocks, Wish(1001, Share(20), 399)), ", and its 4 blocks are smaller");
  EXPECT_EQ(Of(Wish(501, Share(71), 399)), "duty");
  EXPECT_EQ(NoBlockWords(blocks, Wish(501, Share(71), 399)),
            ", and none of its 3 blocks of that size has 0.71 of its time left");
  blocks.erase(4);
  EXPECT_EQ(NoBlockWords(blocks, Wish(501, Share(71), 399)),
            ", and none of its 3 blocks has 0.71 of its time left");
  blocks = {{1, Block(1000, {Share(50)})}};
  EXPECT_EQ(NoBlockWords(blocks, Wish(501, Share(71), 399)),
            ", and its block has less than 0.71 of its time left");
  EXPECT_EQ(NoBlockWords(blocks, Wish(1001, Share(71), 399)), ", and its block is smaller");
  EXPECT_EQ(NoBlockWords({}, Wish(1001, Share(71), 399)), "");
}

TEST_F(Choice, SustainsTheRate) {
  least_usable = 460;
  EXPECT_EQ(Of(Wish(400, Share(20), 450)), "joins 3 of 1000, usable 700");
  least_usable = 701;
  EXPECT_EQ(Of(Wish(400, Share(20), 450)), "sustain 700");
  EXPECT_EQ(MostUsable(blocks, Wish(0, Share(20), 450)), 700U);
  EXPECT_EQ(MostUsable(blocks, Wish(0, Share(20), 900)), 900U);
  EXPECT_EQ(MostUsable(blocks, Wish(0, Share(90), 40)), 450U);
}

// On a network: each edge switch has 1 MiB.
class Temporal : public ::testing::Test {
 protected:
  std::string Put(uint64_t bytes, const TimeShare& share,
                  const std::vector<std::string>& hosts = {"h0", "h1"}) {
    std::vector<NodeId> ids;
    for (const std::string& host : hosts) ids.push_back(*topology.FindNode(host));
    PlaceRequest request = testing::Request(std::move(ids), Policy::kTemporal, bytes);
    request.share = share;
    request.tenant = tenant;
    auto outcome = Place(topology, load, offers, request, &choices);
    const auto* placed = std::get_if<Placed>(&outcome);
    if (placed == nullptr) {
      EXPECT_EQ(std::get<Refusal>(outcome).failure.code, ErrorCode::kNoResource);
      return std::get<Refusal>(outcome).failure.brief;
    }
    load.Apply(testing::AllocationOf(*placed, request));
    testing::Fill(load, &offers);
    width_kbps = placed->width_kbps;
    return fmt::format("{} {}", topology.nodes[placed->tree.inner[0].node].name, placed->blocks[0].number);
  }

  Topology topology = testing::FatTree4().Build();
  std::vector<SwitchOffer> offers = testing::AllAlike(topology);
  Load load;
  std::vector<RootChoice> choices;
  std::string tenant;
  uint64_t width_kbps = 0;
};

TEST_F(Temporal, GroupsShareWhatIsFull) {
  constexpr uint64_t kMiB = 1 << 20;
  EXPECT_EQ(Put(kMiB / 2, Share(40)), "edge1 1");
  EXPECT_EQ(Put(kMiB / 2, Share(50)), "edge1 2");
  EXPECT_EQ(Put(kMiB / 2, Share(50)), "edge1 1");
  EXPECT_EQ(Put(kMiB / 2, Share(50)), "edge1 2");
  EXPECT_EQ(choices[*topology.FindNode("edge1")].switches[0].block, 2U);
  EXPECT_EQ(Put(kMiB / 2, Share(20)),
            "edge1 has 0.0 of 1.0 MiB free, 0.5 needed, and none of its 2 blocks has 0.2 of its time left");
  EXPECT_EQ(Put(kMiB, Share(10)), "edge1 has 0.0 of 1.0 MiB free, 1.0 needed, and its 2 blocks are smaller");
  EXPECT_EQ(Put(kMiB / 4, Share(10)), "edge1 1");
  tenant = "red";
  EXPECT_EQ(Put(kMiB / 4, Share(10)), "edge1 has 0.0 of 1.0 MiB free, 0.2 needed");
}

TEST_F(Temporal, AJoinedBlockIsAsWideAsTheTimeThatIsLeft) {
  // III holds 4BL, of 20 us: 100,000 bytes for 10 Gbit/s, of which three groups have a third each.
  for (SwitchOffer& offer : offers) offer.arena_bytes = offer.room = 100'000;
  EXPECT_EQ(Put(100'000, Share(80)), "edge1 1");
  EXPECT_EQ(width_kbps, 10'000'000U);
  EXPECT_EQ(Put(100'000, Share(10)), "edge1 1");
  EXPECT_EQ(width_kbps, 2'000'000U);
  EXPECT_EQ(Put(100'000, Share(5)), "edge1 1");
  EXPECT_EQ(width_kbps, 1'000'000U);
}

TEST_F(Temporal, ASwitchThatGivesLessThanItMightIsGoneRoundIfThatIsWider) {
  const NodeId agg1 = *topology.FindNode("agg1");
  const NodeId agg2 = *topology.FindNode("agg2");
  offers[agg1].arena_bytes = 190'000;
  offers[agg2].arena_bytes = 110'000;
  load.Apply({.switches = {{agg1, 100'000, 1}}, .share = Share(40)});
  load.Apply({.switches = {{agg2, 100'000, 1}}, .share = Share(20)});
  testing::Fill(load, &offers);
  // The 90,000 bytes of agg1 would do for 9 Gbit/s, but they are too few.
  EXPECT_EQ(Put(95'000, Share(10), {"h0", "h2"}), "agg2 1");
  EXPECT_EQ(width_kbps, 8'000'000U);
  EXPECT_EQ(choices[agg1].why, "narrower: 6 Gbit/s, agg2 has 8");
}

// Below one root, too: the way that looked widest is not the only one.
TEST_F(Temporal, ATreeThatTurnsOutNarrowerIsNotTheLastThatIsLookedAt) {
  testing::TopologyBuilder builder;
  for (const char* name : {"root", "left", "right", "other", "leaf1", "leaf2"}) builder.Switch(name);
  builder.Host("h0").Host("h1").Link("leaf1", "h0").Link("leaf2", "h1");
  builder.Link("root", "left").Link("root", "right").Link("root", "other");
  builder.Link("left", "leaf1").Link("right", "leaf1").Link("other", "leaf2");
  topology = builder.Build();
  offers = testing::AllAlike(topology);
  const NodeId left = *topology.FindNode("left");
  const NodeId right = *topology.FindNode("right");
  offers[left].arena_bytes = 184'000;
  offers[right].arena_bytes = 110'000;
  load.Apply({.switches = {{left, 100'000, 1}}, .share = Share(40)});
  load.Apply({.switches = {{right, 100'000, 1}}, .share = Share(20)});
  testing::Fill(load, &offers);
  // 84,000 bytes of left are more than the 80,000 of right's block, but too few; and 60,000 of its block.
  EXPECT_EQ(Put(85'000, Share(10)), "root 1");
  EXPECT_EQ(width_kbps, 8'000'000U);
  EXPECT_EQ(load.at(right).blocks.at(1).owners, 2U);
}

}  // namespace
}  // namespace epic::manager
