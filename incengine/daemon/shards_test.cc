// A switch whose groups are divided among shards.
#include <gmock/gmock.h>

#include "incengine/daemon/shards_testing.h"

namespace epic::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

uint64_t Value(const proto::DumpReply& dump, const std::string& name) {
  for (const auto& counter : dump.counters()) {
    if (counter.name() == name) return counter.value();
  }
  ADD_FAILURE() << "no counter " << name;
  return 0;
}

TEST_F(ShardsTest, AGroupIsOnTheShardOfItsQpns) {
  // Not in the order of the ids.
  for (const auto& [id, low_byte] : std::map<uint64_t, uint32_t>{{7, 0xff}, {8, 2}, {9, 1}, {10, 0x10}})
    ASSERT_TRUE(Install(Group(id, low_byte)).ok());
  EXPECT_THAT(GroupsOn(0), ElementsAre(7));
  EXPECT_THAT(GroupsOn(1), ElementsAre(9, 10));
  EXPECT_THAT(GroupsOn(2), ElementsAre(8));
  const auto dump = control_.Dump();
  ASSERT_TRUE(dump.ok());
  EXPECT_THAT(dump->info().group_ids(), ElementsAre(7, 8, 9, 10));
  std::vector<std::string> dumped;
  uint64_t bytes = 0;
  for (const auto& group : dump->groups()) {
    dumped.push_back(group.config().SerializeAsString());
    bytes += group.arena_bytes();
  }
  EXPECT_THAT(dumped, ElementsAre(Group(7, 0xff).SerializeAsString(), Group(8, 2).SerializeAsString(),
                                  Group(9, 1).SerializeAsString(), Group(10, 0x10).SerializeAsString()));
  EXPECT_EQ(dump->info().capability().arena_bytes(), kShards * kArena);
  EXPECT_EQ(dump->info().capability().arena_free_bytes(), kShards * kArena - bytes);
}

TEST_F(ShardsTest, ContextsOfAllShardsAreTold) {
  for (const uint32_t low : {0u, 1u, 2u}) EXPECT_TRUE(Install(Group(7 + low, low)).ok());
  proto::FailRequest fail;
  fail.set_group_id(8);
  fail.set_generation(1);
  ASSERT_TRUE(control_.Fail(fail).ok());
  const proto::EngineInfo info = *control_.Describe();
  std::map<uint64_t, bool> stopped;
  for (const proto::ContextInfo& context : info.contexts()) {
    EXPECT_EQ(context.generation(), 1u);
    stopped[context.group_id()] = context.stopped();
  }
  EXPECT_EQ(stopped, (std::map<uint64_t, bool>{{7, false}, {8, true}, {9, false}}));
}

TEST_F(ShardsTest, AGroupWhoseQpnsAreOfSeveralShardsIsRefused) {
  proto::GroupConfig group = Group(7, 4);
  group.mutable_children(1)->set_local_qpn(0x70105);
  Status status = Install(group);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("children[1].local_qpn: 0x70105 is of another core than "
                                                       "0x70004 of children[0]; with --cores 3"));
  group = Group(7, 4);
  group.mutable_parent()->set_local_qpn(0x70206);
  status = Install(group);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("parent.local_qpn: 0x70206"));
  for (size_t shard = 0; shard < kShards; ++shard) EXPECT_THAT(GroupsOn(shard), IsEmpty());
  // Another low byte of the same shard: it is whole.
  group.mutable_parent()->set_local_qpn(0x70207);
  EXPECT_TRUE(Install(group).ok());
  EXPECT_THAT(GroupsOn(1), ElementsAre(7));
  // What a shard refuses by itself.
  group = Group(8, 1);
  group.clear_children();
  EXPECT_EQ(Install(group).code(), StatusCode::kInvalidArgument);
}

TEST_F(ShardsTest, NoTwoGroupsHaveTheSameId) {
  ASSERT_TRUE(Install(Group(7, 1)).ok());
  for (const uint32_t low_byte : {0, 1, 2}) {
    const Status status = Install(Group(7, low_byte));
    EXPECT_EQ(status.code(), StatusCode::kAlreadyExists);
    EXPECT_EQ(std::string(status.message()), "group_id 7 is installed");
  }
  EXPECT_THAT(control_.Describe()->group_ids(), ElementsAre(7));
}

TEST_F(ShardsTest, AGroupIsStoppedAndRemovedWhereverItIs) {
  for (uint32_t shard = 0; shard < kShards; ++shard) ASSERT_TRUE(Install(Group(7 + shard, shard)).ok());
  proto::FailRequest fail;
  fail.set_group_id(8);
  fail.set_generation(1);
  ASSERT_TRUE(control_.Fail(fail).ok());
  const auto dump = control_.Dump();
  for (const auto& group : dump->groups()) EXPECT_EQ(group.failed(), group.config().group_id() == 8);
  EXPECT_TRUE(Remove(9, 2).ok()) << "of another life: left alone";
  EXPECT_TRUE(Remove(99).ok());
  EXPECT_EQ(control_.Describe()->group_ids_size(), 3);
  for (const uint64_t id : {8, 9, 9, 7}) EXPECT_TRUE(Remove(id).ok());
  const auto info = control_.Describe();
  EXPECT_EQ(info->group_ids_size(), 0);
  EXPECT_EQ(info->capability().arena_free_bytes(), info->capability().arena_bytes());
}

TEST_F(ShardsTest, WhatDoesNotFitIntoItsShardIsRefused) {
  // Three of them fill a shard.
  for (uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(Install(Group(id, 1)).ok());
  const Status status = Install(Group(4, 1));
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("arena"));
  EXPECT_TRUE(Install(Group(4, 2)).ok());
}

TEST_F(ShardsTest, CountersAreSumsAndAPortIsUpIfAllHaveIt) {
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    for (uint32_t i = 0; i <= shard; ++i) Receive(shard, 1, Qpn{0x500 + shard});
    On(shard, [shard](OneShard& at) {
      at.ports[0].counters.rx_dropped = 10 + shard;
      at.ports[0].interface.up = shard != 2;
      at.ports[1].super_frames = true;
    });
  }
  const auto dump = control_.Dump();
  ASSERT_TRUE(dump.ok());
  EXPECT_EQ(Value(*dump, "roce_packets"), 6u);
  EXPECT_EQ(Value(*dump, "drop_unknown_qpn"), 6u);
  EXPECT_EQ(Value(*dump, "port.p1.rx_frames"), 6u);
  EXPECT_EQ(Value(*dump, "port.p0.rx_frames"), 0u);
  EXPECT_EQ(Value(*dump, "port.p0.rx_dropped"), 33u);
  ASSERT_EQ(dump->info().ports_size(), 2);
  EXPECT_FALSE(dump->info().ports(0).up());
  EXPECT_FALSE(dump->info().ports(0).super_frames());
  EXPECT_TRUE(dump->info().ports(1).up());
  EXPECT_TRUE(dump->info().ports(1).super_frames());
  EXPECT_EQ(dump->info().ports(1).rx_frames(), 6u);
  EXPECT_EQ(dump->info().ports(1).mtu(), 4200u);
  EXPECT_EQ(dump->info().boot_id(), 77u);
}

TEST_F(ShardsTest, ForwardingAndProbesAreThoseOfShard0) {
  proto::SetForwardingRequest forwarding;
  forwarding.mutable_table()->add_flood_ports("p0");
  ASSERT_TRUE(control_.SetForwarding(forwarding).ok());
  EXPECT_EQ(control_.Dump()->forwarding().SerializeAsString(), forwarding.table().SerializeAsString());
  proto::ProbeRequest probe;
  probe.set_ip(0x0a000001);
  probe.set_mac(std::string("\x02\0\0\0\0\1", 6));
  probe.set_port("p1");
  ASSERT_TRUE(control_.Probe(probe).ok());
  for (size_t shard = 0; shard < kShards; ++shard) {
    On(shard, [shard](OneShard& at) {
      EXPECT_EQ(at.sw.forwarding().table().flood_ports.size(), shard == 0 ? 1u : 0u);
      EXPECT_EQ(at.probed.size(), shard == 0 ? 1u : 0u);
    });
  }
  probe.set_port("p9");
  EXPECT_EQ(control_.Probe(probe).status().code(), StatusCode::kInvalidArgument);
}

// For ThreadSanitizer: calls from two threads, while packets come to every shard.
TEST_F(ShardsTest, CallsOfSeveralThreadsAndPacketsDoNotMeet) {
  constexpr uint64_t kRounds = 50;
  const auto operate = [this](uint64_t id) {
    for (uint64_t round = 0; round < kRounds; ++round) {
      EXPECT_TRUE(Install(Group(id, static_cast<uint32_t>(round % 256))).ok());
      const auto dump = control_.Dump();
      EXPECT_TRUE(dump.ok() && dump->groups_size() >= 1);
      EXPECT_TRUE(Remove(id).ok());
    }
  };
  std::thread first(operate, 1), second(operate, 2);
  for (uint32_t packet = 0; packet < kRounds * kShards; ++packet)
    Receive(packet % kShards, static_cast<PortId>(packet % 2), Qpn{0x10000 | packet % 256});
  first.join();
  second.join();
  const auto dump = control_.Dump();
  EXPECT_EQ(Value(*dump, "roce_packets"), kRounds * kShards);
  EXPECT_EQ(dump->groups_size(), 0);
}

TEST(OptionsOfShardTest, EachHasItsPartAndOnlyTheFirstLearns) {
  Options options;
  options.cores = 4;
  options.config.arena_bytes = 1 << 20;
  options.config.forwarding = engine::ForwardingMode::kLearning;
  options.trace_path = "/tmp/a.b/leaf1.ndjson";
  const Options first = OptionsOfShard(options, 0);
  EXPECT_EQ(first.config.arena_bytes, size_t{1} << 18);
  EXPECT_EQ(first.config.forwarding, engine::ForwardingMode::kLearning);
  EXPECT_EQ(first.trace_path, options.trace_path);
  EXPECT_EQ(first.ports.shard, 0u);
  EXPECT_EQ(first.ports.shards, 4u);
  const Options last = OptionsOfShard(options, 3);
  EXPECT_EQ(last.config.arena_bytes, size_t{1} << 18);
  EXPECT_EQ(last.config.forwarding, engine::ForwardingMode::kStatic);
  EXPECT_EQ(last.trace_path, "/tmp/a.b/leaf1.3.ndjson");
  EXPECT_EQ(last.ports.shard, 3u);
  options.trace_path = "trace";
  EXPECT_EQ(OptionsOfShard(options, 1).trace_path, "trace.1");
  options.trace_path.clear();
  EXPECT_EQ(OptionsOfShard(options, 1).trace_path, "");
}

}  // namespace
}  // namespace epic::daemon
