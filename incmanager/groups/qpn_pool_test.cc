#include "incmanager/groups/qpn_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "incmanager/groups/group_life_testing.h"
#include "incmanager/groups/plan.h"

namespace epic::manager {
namespace {

using ::testing::ElementsAre;

// Of so many QPNs for a group, which have it in common; -1 if they cannot be had.
int LowByteOf(QpnPool* pool, size_t count, Nanos now) {
  const auto qpns = pool->Take(0, count, now);
  if (!qpns) return -1;
  EXPECT_EQ(std::set<uint32_t>(qpns->begin(), qpns->end()).size(), count);
  for (const uint32_t qpn : *qpns) {
    EXPECT_EQ(qpn % 256, qpns->front() % 256);
    EXPECT_GE(qpn, QpnPool::kFirstQpn);
    EXPECT_LT(qpn, QpnPool::kFirstQpn + QpnPool::kQpnsPerSwitch);
  }
  return static_cast<int>(qpns->front() % 256);
}

TEST(QpnPoolTest, ATagWithoutRoomForAllIsPassedOver) {
  QpnPool pool(2);
  // 65 is the largest context: 64 children and a parent. Each tag has room for three.
  for (int turn = 0; turn < 3; ++turn) {
    for (int tag = 0; tag < 256; ++tag) ASSERT_EQ(LowByteOf(&pool, 65, 0), (tag + 1) % 256);
  }
  EXPECT_EQ(LowByteOf(&pool, 65, 0), -1);
  EXPECT_EQ(LowByteOf(&pool, 61, 0), 1) << "what is left of a tag";
  EXPECT_EQ(LowByteOf(&pool, 61, 0), 2);
  EXPECT_TRUE(pool.Take(1, 65, 0).has_value()) << "another switch";
  // Of tag 9 enough comes back, and must have rested.
  for (uint32_t n = 0; n < 4; ++n) pool.GiveBack(0, QpnPool::kFirstQpn + n * 256 + 9, kSecond);
  EXPECT_EQ(LowByteOf(&pool, 65, kSecond + QpnPool::kQuarantine - 1), -1);
  pool.CheckInvariants();
  EXPECT_EQ(LowByteOf(&pool, 65, kSecond + QpnPool::kQuarantine), 9);
  pool.CheckInvariants();
  EXPECT_EQ(LowByteOf(&pool, 65, kSecond + QpnPool::kQuarantine), -1);
}

TEST(QpnPoolTest, OfATagThatComesAgainOtherQpnsAreUsedFirst) {
  QpnPool pool(1);
  std::set<uint32_t> seen;
  Nanos now = 0;
  // A group at a time, each gone before the next is made: four lives of each tag.
  for (int group = 0; group < 4 * 256; ++group, now += QpnPool::kQuarantine) {
    const auto qpns = pool.Take(0, 64, now);
    ASSERT_TRUE(qpns.has_value());
    for (const uint32_t qpn : *qpns) {
      EXPECT_TRUE(seen.insert(qpn).second);
      pool.GiveBack(0, qpn, now);
    }
  }
  EXPECT_EQ(seen.size(), QpnPool::kQpnsPerSwitch);
}

// A packet that passes a switch on its way to another is not taken for that one's, since it is for the same host.
TEST(QpnPoolTest, NoTwoSwitchesHaveABorneQpnForOneHost) {
  QpnPool pool(3);
  const Ipv4 a{1}, b{2}, none{};
  const auto first = pool.TakeBorne(0, {a, b, none}, 0);
  EXPECT_THAT(*first, ElementsAre(0xf00000, 0xf00100, 0xf00200));
  // 0xf00000 is a's and 0xf00100 is b's elsewhere; for the other one each will do.
  EXPECT_THAT(*pool.TakeBorne(1, {a, b}, 0), ElementsAre(0xf00100, 0xf00000));
  EXPECT_THAT(*pool.TakeBorne(2, {none, a}, 0), ElementsAre(0xf00000, 0xf00200));
  EXPECT_EQ(pool.InUse(0), 3u);
  for (const uint32_t qpn : *first) pool.GiveBack(0, qpn, 0);
  EXPECT_EQ(pool.InUse(0), 0u);
  pool.CheckInvariants();
  EXPECT_THAT(*pool.TakeBorne(0, {a}, QpnPool::kQuarantine - 1), ElementsAre(0xf00300));
  EXPECT_THAT(*pool.TakeBorne(0, {none}, QpnPool::kQuarantine), ElementsAre(0xf00400));
  pool.CheckInvariants();
}

TEST(QpnPoolTest, BorneQpnsRestAndComeAgainAndHaveAnEnd) {
  QpnPool pool(2);
  const std::vector<Ipv4> many(QpnPool::kBorneQpnsPerSwitch - 1, Ipv4{});
  const auto taken = pool.TakeBorne(0, many, 0);
  ASSERT_TRUE(taken.has_value());
  EXPECT_FALSE(pool.TakeBorne(0, {Ipv4{}, Ipv4{}}, 0).has_value());
  EXPECT_THAT(*pool.TakeBorne(0, {Ipv4{}}, 0), ElementsAre(0xffff00)) << "what could not be had took none";
  EXPECT_FALSE(pool.TakeBorne(0, {Ipv4{}}, 0).has_value());
  EXPECT_TRUE(pool.Take(0, 65, 0).has_value()) << "the other range";
  EXPECT_TRUE(pool.TakeBorne(1, many, 0).has_value()) << "another switch";
  pool.GiveBack(0, 0xf00700, 0);
  EXPECT_FALSE(pool.TakeBorne(0, {Ipv4{}}, QpnPool::kQuarantine - 1).has_value());
  EXPECT_THAT(*pool.TakeBorne(0, {Ipv4{}}, QpnPool::kQuarantine), ElementsAre(0xf00700));
  pool.CheckInvariants();
}

TEST(QpnPoolTest, WhatAPlanThatCannotBeHasTakenIsGivenBack) {
  const Topology topology = testing::Tree32().Build();
  const NodeId root = *topology.FindNode("root"), leaf = *topology.FindNode("leaf1");
  Tree tree;
  tree.inner.resize(2);
  tree.inner[0].node = root;
  tree.inner[0].children.push_back({.inner = 1});
  tree.inner[1].node = leaf;
  tree.inner[1].parent = 0;
  tree.inner[1].children.push_back({.is_host = true});
  QpnPool pool(topology.switches.size());
  while (pool.Take(leaf, 1, 0)) {
  }
  std::mt19937_64 random(1);
  const auto plan =
      MakePlan(topology, tree, {}, {}, std::vector<JoinRequest>(1), {}, {}, {}, std::nullopt, 0, &random, &pool);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.failure().code, ErrorCode::kNoResource);
  EXPECT_EQ(plan.failure().message, "leaf1 has no QPN left");
  size_t left = 0;
  while (pool.Take(root, 1, 0)) ++left;
  EXPECT_EQ(left, QpnPool::kQpnsPerSwitch - 1) << "the root's rests";
  EXPECT_TRUE(pool.Take(root, 1, QpnPool::kQuarantine).has_value());
}

TEST(QpnPoolTest, AGroupHasOneLowByteAtEachSwitchAndGroupsTakeTurns) {
  testing::GroupWorldFixture w(testing::Tree32());
  SessionId session = 100;
  for (const std::string group : {"a", "b", "c", "d"}) {
    for (uint32_t rank = 0; rank < 4; ++rank)
      w.groups()->OnJoin(w.now, session++, w.Request("h" + std::to_string(rank), rank, 4, group));
    w.AnswerInstalls();
    EXPECT_EQ(w.Phase(group), "running");
  }
  std::map<NodeId, std::vector<uint32_t>> low_bytes;
  for (const ContextPlan& context : w.installed) {
    const uint32_t low_byte = context.children[0].local_qpn % 256;
    low_bytes[context.node].push_back(low_byte);
    for (const EndpointPlan& child : context.children) EXPECT_EQ(child.local_qpn % 256, low_byte);
    if (context.parent) {
      EXPECT_EQ(context.parent->local_qpn % 256, low_byte);
    }
  }
  ASSERT_EQ(low_bytes.size(), 3u);
  // On two cores two groups each, on four one.
  for (const auto& [node, bytes] : low_bytes) EXPECT_THAT(bytes, ElementsAre(1, 2, 3, 4));
}

}  // namespace
}  // namespace epic::manager
