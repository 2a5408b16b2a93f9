#include "incagent/leftovers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <utility>

namespace epic::agent {
namespace {

proto::EngineInfo EngineWith(std::initializer_list<uint64_t> groups) {
  proto::EngineInfo info;
  for (const uint64_t id : groups) info.add_group_ids(id);
  return info;
}

proto::RegisterReply Keep(std::initializer_list<uint64_t> groups) {
  proto::RegisterReply reply;
  for (const uint64_t id : groups) reply.add_keep_group_ids(id);
  return reply;
}

proto::DumpReply DumpOf(std::initializer_list<std::pair<uint64_t, uint32_t>> groups) {
  proto::DumpReply dump;
  for (const auto& [id, generation] : groups) {
    dump.add_groups()->mutable_config()->set_group_id(id);
    dump.mutable_groups()->rbegin()->mutable_config()->set_generation(generation);
  }
  return dump;
}

std::vector<std::pair<uint64_t, uint32_t>> Removed(const proto::EngineInfo& engine,
                                                   const proto::RegisterReply& reply,
                                                   const proto::DumpReply& dump) {
  std::vector<std::pair<uint64_t, uint32_t>> removed;
  for (const proto::GroupConfig* group : Leftovers(engine, reply, dump))
    removed.emplace_back(group->group_id(), group->generation());
  return removed;
}

TEST(Leftovers, AreWhatTheManagerDoesNotKeep) {
  EXPECT_FALSE(HasLeftovers(EngineWith({}), Keep({})));
  EXPECT_FALSE(HasLeftovers(EngineWith({1, 2}), Keep({2, 1, 3})));
  EXPECT_TRUE(HasLeftovers(EngineWith({1, 2}), Keep({2})));
}

TEST(Leftovers, AreRemovedInTheGenerationThatTheEngineHas) {
  EXPECT_THAT(Removed(EngineWith({1, 2, 3}), Keep({2}), DumpOf({{1, 7}, {2, 8}, {3, 9}})),
              testing::ElementsAre(std::pair(1u, 7u), std::pair(3u, 9u)));
}

TEST(Leftovers, DoNotIncludeWhatCameAfterTheAnswer) {
  EXPECT_THAT(Removed(EngineWith({1}), Keep({}), DumpOf({{1, 7}, {4, 1}})),
              testing::ElementsAre(std::pair(1u, 7u)));
}

TEST(Leftovers, ThatAreGoneMeanwhileNeedNoRemoval) {
  EXPECT_THAT(Removed(EngineWith({1, 2}), Keep({2}), DumpOf({{2, 1}})), testing::IsEmpty());
}

TEST(HeartbeatInterval, IsBoundedWhateverTheManagerSays) {
  proto::RegisterReply reply;
  EXPECT_EQ(HeartbeatInterval(reply), kMinHeartbeat);
  reply.set_heartbeat_ms(500);
  EXPECT_EQ(HeartbeatInterval(reply), std::chrono::milliseconds(500));
  reply.set_heartbeat_ms(0xffffffff);
  EXPECT_EQ(HeartbeatInterval(reply), kMaxHeartbeat);
}

}  // namespace
}  // namespace epic::agent
