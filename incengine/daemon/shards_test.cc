// A switch in several shards, as the control plane sees it: real loops on threads of their own, no interfaces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "incengine/daemon/shard.h"
#include "incengine/daemon/sharded_control.h"
#include "roce/frame.h"
#include "roce/frame_testing.h"

namespace epic::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kShards = 3;
constexpr size_t kArena = 65536;  // of each
constexpr Ipv4 kAddress{0x0a00ff01};
constexpr roce::MacAddress kMac = {2, 0, 0, 0, 0, 9};
const PortNames kPorts = {"p0", "p1"};

class NoFrames final : public engine::FrameSink {
 public:
  void Send(PortId, std::span<const uint8_t>) override {}
  void SetTimer(engine::TimerId, Nanos) override {}
};

// What is one shard's own, and touched on its thread only.
struct OneShard {
  OneShard()
      : control({"s1", "1.2.3", 77}, kPorts, sw, [this] { return ports; }, nullptr,
                [this](const engine::ProbeTarget& target) {
                  return engine::ProbeAnswer{.asked = probed.insert(target.port).second};
                }) {
    for (const std::string& name : kPorts)
      ports.push_back({.name = name, .interface = {.exists = true, .up = true, .mtu = 4200}});
    thread = std::thread([this] { loop.Run(); });
  }
  ~OneShard() {
    loop.Post([this] { loop.Stop(); });
    thread.join();
  }

  io::EventLoop loop{0};
  engine::Switch sw{{.address = kAddress, .mac = kMac, .port_count = 2, .arena_bytes = kArena}};
  std::vector<PortState> ports;
  std::set<PortId> probed;
  SwitchControl control;
  std::thread thread;
};

class ShardsTest : public ::testing::Test {
 protected:
  // Does something on the shard's thread, and waits for it.
  template <typename Do>
  void On(size_t shard, const Do& what) {
    const auto done = std::make_shared<std::promise<void>>();
    shards_[shard].loop.Post([this, shard, &what, done] {
      what(shards_[shard]);
      done->set_value();
    });
    done->get_future().wait();
  }
  std::vector<uint64_t> GroupsOn(size_t shard) {
    std::vector<uint64_t> ids;
    On(shard, [&ids](OneShard& at) {
      for (const auto& [id, group] : at.sw.engine().groups()) ids.push_back(id);
    });
    return ids;
  }
  // A frame that has come to the shard by the port.
  void Receive(size_t shard, PortId port, Qpn qpn) {
    roce::Packet packet;
    packet.src_ip = Ipv4{0x0a000001};
    packet.dst_ip = kAddress;
    packet.bth.opcode = roce::Opcode::kRcSendOnly;
    packet.bth.dest_qp = qpn;
    std::vector<uint8_t> frame(roce::FrameBytes(packet));
    roce::WriteFrame({.dst = kMac, .src = {2, 0, 0, 0, 0, 1}, .ip_id = 0, .vlan = {}}, packet, frame);
    On(shard, [&](OneShard& at) {
      NoFrames sink;
      at.sw.OnFrame(kSecond, port, frame, sink);
    });
  }
  Status Install(const proto::GroupConfig& group) {
    proto::InstallRequest request;
    *request.mutable_group() = group;
    return control_.Install(request).status();
  }
  Status Remove(uint64_t id, uint32_t generation = 1) {
    proto::RemoveRequest request;
    request.set_group_id(id);
    request.set_generation(generation);
    return control_.Remove(request).status();
  }

  std::array<OneShard, kShards> shards_;
  ShardedControl control_{[this] {
    std::vector<ShardedControl::Shard> all;
    for (OneShard& shard : shards_) all.push_back({&shard.loop, &shard.control});
    return all;
  }()};
};

proto::Fence Manager(const std::string& cluster, uint64_t epoch) {
  proto::Fence manager;
  manager.set_cluster(cluster);
  manager.set_epoch(epoch);
  manager.set_keeps(true);
  return manager;
}

proto::EndpointConfig Endpoint(uint32_t qpn, uint32_t port) {
  proto::EndpointConfig endpoint;
  endpoint.set_local_qpn(qpn);
  endpoint.set_remote_ip(0x0a000001 + port);
  endpoint.set_remote_qpn(0x11);
  endpoint.set_remote_mac(std::string("\x02\0\0\0\0\1", 6));
  endpoint.set_port(kPorts[port]);
  return endpoint;
}

// Two hosts, whose QPNs have this low byte, under a root elsewhere. About 17 KB of an arena.
proto::GroupConfig Group(uint64_t id, uint32_t low_byte) {
  proto::GroupConfig group;
  group.set_group_id(id);
  group.set_generation(1);
  group.set_name("job");
  group.set_mode(proto::MODE_TRANSLATED);
  group.set_world_size(4);
  group.set_path_mtu(512);
  group.set_message_packets(2);
  group.set_window_messages(4);
  group.set_slots(16);
  group.set_accumulator_mtus(2);
  group.set_prompt_ns(20'000'000);
  const uint32_t first = static_cast<uint32_t>(id) << 16 | low_byte;
  for (uint32_t i = 0; i < 2; ++i) {
    *group.add_children() = Endpoint(first + (i << 8), i);
    group.mutable_children(static_cast<int>(i))->set_is_host(true);
    group.mutable_children(static_cast<int>(i))->add_ranks(i);
  }
  *group.mutable_parent() = Endpoint(first + 0x200, 1);
  return group;
}

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

// On whichever shard its contexts are.
TEST_F(ShardsTest, WhatAnotherManagerAsksOfASwitchWithContextsIsRefused) {
  proto::InstallRequest install;
  *install.mutable_group() = Group(7, 2);
  *install.mutable_fence() = Manager("first", 3);
  ASSERT_TRUE(control_.Install(install).ok());
  proto::EngineInfo info = *control_.Describe();
  EXPECT_EQ(info.fence().SerializeAsString(), Manager("first", 3).SerializeAsString());
  EXPECT_TRUE(info.fenced());
  const auto refuses = [this](const proto::Fence& manager) {
    proto::InstallRequest another;
    *another.mutable_group() = Group(8, 1);
    another.set_takes_refusal(true);
    *another.mutable_fence() = manager;
    proto::RemoveRequest remove;
    remove.set_group_id(7);
    remove.set_generation(1);
    *remove.mutable_fence() = manager;
    proto::FailRequest fail;
    fail.set_group_id(7);
    fail.set_generation(1);
    *fail.mutable_fence() = manager;
    proto::SetForwardingRequest forwarding;
    *forwarding.mutable_fence() = manager;
    proto::HoldRequest hold;
    *hold.mutable_fence() = manager;
    for (const Status& status :
         {control_.Install(another).status(), control_.Remove(remove).status(), control_.Fail(fail).status(),
          control_.SetForwarding(forwarding).status(), control_.Hold(hold).status()}) {
      EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("fenced: "));
    }
    EXPECT_THAT(GroupsOn(2), ElementsAre(7));
  };
  refuses(Manager("second", 9));
  refuses(Manager("first", 2));
  proto::HoldRequest takes_over;
  *takes_over.mutable_fence() = Manager("second", 1);
  takes_over.set_takes_over(true);
  EXPECT_TRUE(control_.Hold(takes_over).ok());
  refuses(Manager("first", 3));
  proto::RemoveRequest remove;
  remove.set_group_id(7);
  remove.set_generation(1);
  *remove.mutable_fence() = Manager("second", 1);
  EXPECT_TRUE(control_.Remove(remove).ok());
  info = *control_.Describe();
  EXPECT_FALSE(info.fenced()) << "there is nothing left to be taken from";
  install.mutable_fence()->set_epoch(4);
  EXPECT_TRUE(control_.Install(install).ok());
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
