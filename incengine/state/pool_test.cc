// Who has which place of the pool, and who has to give way (docs/PROTOCOL-MODE-V.md, sections 1 and 2).
#include "incengine/state/pool.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace epic::engine {
namespace {

using Kind = Pool::Meeting::Kind;
using Use = Pool::Use;

constexpr uint64_t kA = 1, kB = 2;
constexpr Ipv4 kServerOfA{0x0a00fe01}, kServerOfB{0x0a00fe02};

PoolConfig Config(uint32_t places, uint32_t spares, PoolPolicy policy = PoolPolicy::kPriority,
                  PoolAddressing addressing = PoolAddressing::kAny) {
  return {.bytes = size_t{512} * (places + spares),
          .buffer_bytes = 512,
          .addressing = addressing,
          .policy = policy,
          .most_places = places};
}

Pool WithGroups(const PoolConfig& config) {
  Pool pool(config, 0);
  pool.Join(kA, kServerOfA);
  pool.Join(kB, kServerOfB);
  return pool;
}

struct Met {
  Kind kind{};
  Pool::Taken taken;
};

// Meets and takes.
Met Add(Pool& pool, uint64_t group, Index index, Priority priority = 4, Nanos now = 0, bool passes = false) {
  const Pool::Meeting meeting = pool.Meet(group, index, priority, now, passes);
  pool.CheckInvariants();
  if (meeting.kind == Kind::kWait) return {.kind = Kind::kWait, .taken = {}};
  const Met met{.kind = meeting.kind, .taken = pool.Take(meeting, group, index, priority, now)};
  pool.CheckInvariants();
  return met;
}

TEST(PoolTest, SizesThatNoPoolHasAreRefusedWithTheBytesNeeded) {
  EXPECT_TRUE(Validate({.bytes = 8 * 512, .buffer_bytes = 512}, 8 * 512).ok());
  const Status few = Validate({.bytes = 8 * 512 - 1, .buffer_bytes = 512}, 1 << 20);
  EXPECT_EQ(few.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(few.message().find("which need 4096"), std::string::npos) << few;
  const Status many = Validate({.bytes = 8 * 512 + 1, .buffer_bytes = 512}, 8 * 512);
  EXPECT_EQ(many.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(many.message().find("more than the 4096"), std::string::npos) << many;
}

TEST(PoolTest, WhatAGroupHasIsFreeWhenItGoes) {
  Pool pool = WithGroups(Config(4, 8));
  EXPECT_EQ(Add(pool, kA, 1).kind, Kind::kClaim);
  EXPECT_TRUE(pool.TakeForResult(kA));
  pool.CheckInvariants();
  pool.Leave(kA);
  pool.CheckInvariants();
  EXPECT_EQ(pool.spare(), pool.buffers());
}

TEST(PoolTest, ASixteenthOfThePlacesIsSpareAndFourAtLeast) {
  const Pool large({.bytes = 170 * 512, .buffer_bytes = 512}, 0);
  EXPECT_EQ(large.places(), 160u);
  EXPECT_EQ(large.buffers(), 170u);
  const Pool least({.bytes = 8 * 512, .buffer_bytes = 512}, 0);
  EXPECT_EQ(least.places(), 4u);
}

TEST(PoolTest, AFreePlaceIsClaimed) {
  Pool pool = WithGroups(Config(2, 6));
  const Met first = Add(pool, kA, 1), second = Add(pool, kB, 1);
  EXPECT_EQ(first.kind, Kind::kClaim);
  EXPECT_EQ(second.kind, Kind::kClaim);
  EXPECT_NE(first.taken.buffer, second.taken.buffer);
  EXPECT_EQ(pool.in_use(), 2u);
  EXPECT_EQ(pool.spare(), 6u);
  EXPECT_EQ(pool.counters(kA).claims, 1u);
  pool.Free(first.taken.buffer);
  EXPECT_EQ(pool.in_use(), 1u);
  EXPECT_EQ(Add(pool, kB, 2).kind, Kind::kClaim);
}

TEST(PoolTest, MorePriorityTakesThePlaceAndTheOldSumLeaves) {
  Pool pool = WithGroups(Config(1, 7));
  const Met old = Add(pool, kA, 5, 4);
  const Met met = Add(pool, kB, 9, 5);
  ASSERT_EQ(met.kind, Kind::kEvict);
  ASSERT_TRUE(met.taken.evicted.has_value());
  EXPECT_EQ(met.taken.evicted->group, kA);
  EXPECT_EQ(met.taken.evicted->index, 5);
  EXPECT_EQ(met.taken.evicted->buffer, old.taken.buffer);
  EXPECT_EQ(pool.UseOf(old.taken.buffer), Use::kLeaving);
  EXPECT_EQ(pool.UseOf(met.taken.buffer), Use::kSumming);
  EXPECT_EQ(pool.counters(kA).evictions, 1u);
  EXPECT_EQ(pool.in_use(), 1u);
  pool.Acknowledged(old.taken.buffer);
  EXPECT_EQ(pool.UseOf(old.taken.buffer), Use::kSpare);
}

TEST(PoolTest, EqualPrioritiesStayAndTheLoserHalvesThePlaces) {
  Pool pool = WithGroups(Config(1, 12));
  Add(pool, kA, 1, 4);
  EXPECT_EQ(Add(pool, kB, 1, 4).kind, Kind::kPass);
  EXPECT_EQ(pool.counters(kA).downgrades, 1u);
  EXPECT_EQ(pool.counters(kB).passes, 1u);
  EXPECT_EQ(Add(pool, kB, 2, 2).kind, Kind::kPass) << "2 against 2, which is halved to 1";
  EXPECT_EQ(Add(pool, kB, 3, 2).kind, Kind::kEvict) << "2 against 1";
}

TEST(PoolTest, APlaceHasItsFullPriorityAgainWhenItIsClaimedAnew) {
  Pool pool = WithGroups(Config(1, 12));
  const Met first = Add(pool, kA, 1, 4);
  Add(pool, kB, 1, 1);
  pool.Free(first.taken.buffer);
  Add(pool, kA, 2, 4);
  EXPECT_EQ(Add(pool, kB, 2, 3).kind, Kind::kPass);
}

TEST(PoolTest, MeetingChangesNothing) {
  Pool pool = WithGroups(Config(1, 12));
  Add(pool, kA, 1, 4);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(pool.Meet(kB, 1, 4, 0, false).kind, Kind::kPass);
  EXPECT_EQ(pool.counters(kA).downgrades, 0u);
  EXPECT_EQ(pool.spare(), 12u);
}

TEST(PoolTest, OfTheSameGroupNothingIsTakenAndNothingHalved) {
  Pool pool = WithGroups(Config(1, 12));
  Add(pool, kA, 1, 4);
  EXPECT_EQ(Add(pool, kA, 2, 100).kind, Kind::kPass);
  EXPECT_EQ(pool.counters(kA).downgrades, 0u);
}

TEST(PoolTest, WhatIsWholeIsNotTaken) {
  Pool pool = WithGroups(Config(1, 12, PoolPolicy::kAlways));
  pool.MarkWhole(Add(pool, kA, 1, 4).taken.buffer);
  EXPECT_EQ(Add(pool, kB, 1, 100).kind, Kind::kPass);
}

TEST(PoolTest, WhoMaySendNoPartLosesNoPlace) {
  Pool pool = WithGroups(Config(1, 7, PoolPolicy::kAlways));  // one buffer of a group may be leaving
  Add(pool, kA, 1);
  const Met part = Add(pool, kA, 2);
  ASSERT_EQ(part.kind, Kind::kPass);
  EXPECT_FALSE(pool.MayLeave(kA));
  EXPECT_EQ(pool.Meet(kB, 1, 9, 0, false).kind, Kind::kPass);
  pool.Acknowledged(part.taken.buffer);
  EXPECT_EQ(pool.Meet(kB, 1, 9, 0, false).kind, Kind::kEvict);
}

TEST(PoolTest, WhoNeitherFindsAPlaceNorMaySendAPartWaits) {
  Pool pool = WithGroups(Config(1, 7));
  Add(pool, kA, 1);
  const Met part = Add(pool, kA, 2);
  EXPECT_EQ(Add(pool, kA, 3).kind, Kind::kWait);
  EXPECT_EQ(Add(pool, kB, 1).kind, Kind::kPass) << "its server is another";
  pool.Acknowledged(part.taken.buffer);
  EXPECT_EQ(Add(pool, kA, 3).kind, Kind::kPass);
}

TEST(PoolTest, GroupsOfOneServerHaveAQuarterBetweenThem) {
  Pool pool = WithGroups(Config(1, 16));
  pool.Join(3, kServerOfA);
  std::vector<uint32_t> parts;
  for (const uint64_t group : {kA, kA, uint64_t{3}, uint64_t{3}})
    parts.push_back(Add(pool, group, 1, 1, 0, true).taken.buffer);
  EXPECT_FALSE(pool.MayLeave(kA)) << "four are a quarter of sixteen";
  EXPECT_FALSE(pool.MayLeave(3));
  EXPECT_TRUE(pool.MayLeave(kB)) << "its server is another";
  pool.Acknowledged(parts[3]);
  EXPECT_TRUE(pool.MayLeave(kA));
  Add(pool, kA, 2, 1, 0, true);
  EXPECT_FALSE(pool.MayLeave(3));
  pool.Leave(kA);
  EXPECT_TRUE(pool.MayLeave(3)) << "what goes leaves room to the others";
  for (Index index = 3; index < 6; ++index) Add(pool, 3, index, 1, 0, true);
  EXPECT_FALSE(pool.MayLeave(3));
}

TEST(PoolTest, WhatCouldBeTakenAwayIsSummingAndMayLeave) {
  Pool pool = WithGroups(Config(3, 5));
  const Met first = Add(pool, kA, 5), second = Add(pool, kB, 6);
  pool.MarkWhole(Add(pool, kB, 7).taken.buffer);
  const auto found = pool.Summing();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].buffer, first.taken.buffer);
  EXPECT_EQ(found[1].buffer, second.taken.buffer);
  EXPECT_EQ(found[1].group, kB);
  EXPECT_EQ(found[1].index, 6);
  pool.LeavePlace(first.taken.buffer);
  Add(pool, kA, 8);
  ASSERT_EQ(pool.Summing().size(), 1u) << "no more of its server's may leave";
  EXPECT_EQ(pool.Summing()[0].group, kB);
}

TEST(PoolTest, WhatWaitsLeavesInTurn) {
  Pool pool = WithGroups(Config(4, 4));
  pool.Join(3, kServerOfA);
  EXPECT_EQ(pool.NextToLeave(kA), std::nullopt) << "nobody waits";
  const uint32_t part = Add(pool, kA, 1, 1, 0, true).taken.buffer;
  for (const uint64_t group : {uint64_t{3}, kA, uint64_t{3}}) pool.Await(group);
  EXPECT_EQ(pool.NextToLeave(kA), std::nullopt) << "nothing may leave";
  EXPECT_EQ(pool.NextToLeave(kB), std::nullopt);
  pool.Acknowledged(part);
  EXPECT_EQ(pool.NextToLeave(kB), std::nullopt) << "its server is another";
  EXPECT_EQ(pool.NextToLeave(kA), std::optional<uint64_t>(3));
  pool.StopWaiting(3);
  EXPECT_EQ(pool.NextToLeave(3), std::optional(kA));
  EXPECT_EQ(pool.NextToLeave(3), std::nullopt);
  pool.Await(3);
  pool.Leave(3);
  EXPECT_EQ(pool.NextToLeave(kA), std::nullopt);
}

TEST(PoolTest, WithoutASpareBufferAllWait) {
  Pool pool(Config(4, 4, PoolPolicy::kAlways), 0);
  for (uint64_t group = 1; group <= 6; ++group) pool.Join(group, Ipv4{static_cast<uint32_t>(group)});
  for (uint64_t group = 1; group <= 4; ++group) {
    EXPECT_EQ(Add(pool, group, 1, 1, 0, true).kind, Kind::kPass);
    EXPECT_EQ(Add(pool, 5, static_cast<Index>(group)).kind, Kind::kClaim);
  }
  EXPECT_EQ(pool.spare(), 0u);
  EXPECT_EQ(pool.Meet(6, 1, 9, 0, false).kind, Kind::kWait) << "evicting needs one as well";
  EXPECT_EQ(pool.Meet(6, 1, 9, 0, true).kind, Kind::kWait);
}

TEST(PoolTest, WhatPassesAsksForNoPlace) {
  Pool pool = WithGroups(Config(2, 12));
  EXPECT_EQ(Add(pool, kA, 1, 4, 0, true).kind, Kind::kPass);
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST(PoolTest, FcfsAlwaysAndCoin) {
  Pool fcfs = WithGroups(Config(1, 12, PoolPolicy::kFcfs));
  Add(fcfs, kA, 1, 1);
  EXPECT_EQ(Add(fcfs, kB, 1, 100).kind, Kind::kPass);
  EXPECT_EQ(fcfs.counters(kA).downgrades, 0u) << "there are no priorities";
  Pool always = WithGroups(Config(1, 12, PoolPolicy::kAlways));
  Add(always, kA, 1, 100);
  EXPECT_EQ(Add(always, kB, 1, 1).kind, Kind::kEvict);
  Pool coin = WithGroups(Config(1, 700, PoolPolicy::kCoin));
  int won = 0;
  uint64_t has = kA;
  Add(coin, has, 0);
  for (Index index = 1; index <= 1000; ++index) {
    const Met met = Add(coin, has == kA ? kB : kA, index);
    ASSERT_NE(met.kind, Kind::kWait);
    if (met.kind == Kind::kEvict) {
      ++won;
      has = has == kA ? kB : kA;
      coin.Acknowledged(met.taken.evicted->buffer);
    } else {
      coin.Acknowledged(met.taken.buffer);
    }
  }
  EXPECT_GT(won, 400);
  EXPECT_LT(won, 600);
}

TEST(PoolTest, APlaceThatIsOlderThanTheAgeLoses) {
  PoolConfig config = Config(1, 12);
  config.age = 100;
  Pool pool = WithGroups(config);
  Add(pool, kA, 1, 100, 1000);
  EXPECT_EQ(pool.Meet(kB, 1, 1, 1100, false).kind, Kind::kPass);
  EXPECT_EQ(pool.Meet(kB, 1, 1, 1101, false).kind, Kind::kEvict);
  EXPECT_EQ(WithGroups(Config(1, 12)).Meet(kB, 1, 1, kSecond, false).kind, Kind::kClaim);
}

TEST(PoolTest, WithoutAnAgeNoPlaceIsTooOld) {
  Pool pool = WithGroups(Config(1, 12));
  Add(pool, kA, 1, 100, 0);
  EXPECT_EQ(pool.Meet(kB, 1, 1, 3600 * kSecond, false).kind, Kind::kPass);
}

TEST(PoolTest, TheHandGoesRoundThePlacesThatMayBeTaken) {
  Pool pool = WithGroups(Config(3, 40, PoolPolicy::kAlways));
  for (const Index index : {10, 11, 12}) Add(pool, kA, index);
  std::vector<Index> lost;
  for (const Index index : {1, 2, 3}) lost.push_back(Add(pool, kB, index).taken.evicted->index);
  EXPECT_EQ(lost, (std::vector<Index>{10, 11, 12}));
  EXPECT_EQ(Add(pool, kB, 4).kind, Kind::kPass) << "all are its own now";
  EXPECT_EQ(Add(pool, kA, 13).taken.evicted->index, 1);
}

TEST(PoolTest, NoMoreThanSomePlacesAreLookedAt) {
  Pool pool = WithGroups(Config(Pool::kMostLooked + 1, 40, PoolPolicy::kAlways));
  for (Index index = 0; index < Pool::kMostLooked; ++index) Add(pool, kB, index);
  Add(pool, kA, 0);
  EXPECT_EQ(Add(pool, kB, 100).kind, Kind::kPass) << "the one to take is the last";
  EXPECT_EQ(Add(pool, kB, 101).kind, Kind::kEvict) << "where the hand is now";
}

TEST(PoolTest, AHashNamesThePlace) {
  Pool pool = WithGroups(Config(8, 60, PoolPolicy::kFcfs, PoolAddressing::kHash));
  std::set<uint32_t> used;
  size_t claims = 0, passes = 0;
  for (Index index = 0; index < 16; ++index) {
    const Pool::Meeting meeting = pool.Meet(kA, index, 1, 0, false);
    const Pool::Meeting again = pool.Meet(kA, index, 1, 0, false);
    EXPECT_EQ(meeting.kind, again.kind);
    if (meeting.kind == Kind::kClaim) {
      EXPECT_TRUE(used.insert(meeting.place).second);
      ++claims;
    } else {
      ++passes;
    }
    pool.Take(meeting, kA, index, 1, 0);
  }
  EXPECT_GT(claims, 3u);
  EXPECT_GT(passes, 3u) << "places are free, and it meets its own";
  EXPECT_LT(pool.in_use(), 16u);
}

TEST(PoolTest, AHashMeetsOtherGroupsByThePolicy) {
  Pool pool = WithGroups(Config(1, 12, PoolPolicy::kPriority, PoolAddressing::kHash));
  Add(pool, kA, 1, 4);
  EXPECT_EQ(Add(pool, kB, 1, 4).kind, Kind::kPass);
  EXPECT_EQ(Add(pool, kB, 2, 4).kind, Kind::kEvict) << "it was halved";
}

TEST(PoolTest, TheRestOfASumLeavesItsPlace) {
  Pool pool = WithGroups(Config(1, 7));
  const uint32_t buffer = Add(pool, kA, 1).taken.buffer;
  pool.LeavePlace(buffer);
  EXPECT_EQ(pool.UseOf(buffer), Use::kLeaving);
  EXPECT_EQ(pool.in_use(), 0u);
  EXPECT_FALSE(pool.MayLeave(kA));
  EXPECT_EQ(Add(pool, kB, 1).kind, Kind::kClaim);
}

TEST(PoolTest, ResultsHaveAQuarterForEachGroupAndHalfForAll) {
  Pool pool = WithGroups(Config(8, 8));
  pool.Join(3, kServerOfA);
  std::vector<uint32_t> taken;
  for (const uint64_t group : {kA, kA, kB}) {
    const auto buffer = pool.TakeForResult(group);
    ASSERT_TRUE(buffer.has_value());
    taken.push_back(*buffer);
  }
  EXPECT_FALSE(pool.TakeForResult(kA).has_value()) << "two are a quarter of eight";
  EXPECT_TRUE(pool.TakeForResult(3).has_value());
  EXPECT_FALSE(pool.TakeForResult(kB).has_value()) << "four are half";
  pool.Free(taken[0]);
  EXPECT_TRUE(pool.TakeForResult(kB).has_value());
}

TEST(PoolTest, WhoGoesLeavesEverything) {
  Pool pool = WithGroups(Config(2, 8));
  Add(pool, kA, 1);
  pool.MarkWhole(Add(pool, kA, 2).taken.buffer);
  Add(pool, kA, 3);
  ASSERT_TRUE(pool.TakeForResult(kA).has_value());
  pool.Leave(kA);
  EXPECT_EQ(pool.spare(), pool.buffers());
  EXPECT_EQ(pool.in_use(), 0u);
  EXPECT_EQ(Add(pool, kB, 1).kind, Kind::kClaim);
  ASSERT_TRUE(pool.TakeForResult(kB).has_value());
  ASSERT_TRUE(pool.TakeForResult(kB).has_value());
  pool.Leave(kA);
  EXPECT_EQ(pool.in_use(), 1u);
}

}  // namespace
}  // namespace epic::engine
