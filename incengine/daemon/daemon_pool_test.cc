// A switch with a pool, as the control plane sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "incengine/daemon/control.h"
#include "incengine/daemon/shard.h"
#include "incengine/daemon/sharded_control.h"

namespace epic::daemon {
namespace {

constexpr size_t kArena = 1 << 20;
constexpr size_t kPool = 1 << 18;

class PoolControlTest : public ::testing::Test {
 protected:
  static std::vector<PortState> PortStates() {
    return {{.name = "p0", .interface = {.exists = true, .up = true, .mtu = 4200}},
            {.name = "p1", .interface = {.exists = true, .up = true, .mtu = 4200}}};
  }
  static engine::SwitchConfig Config(bool pool) {
    engine::SwitchConfig config{.address = Ipv4{0x0a00ff01}, .port_count = 2, .arena_bytes = kArena};
    if (pool)
      config.pool =
          engine::PoolConfig{.bytes = kPool, .policy = engine::PoolPolicy::kFcfs, .age = 5 * kMillisecond};
    return config;
  }
  static void SetEnd(uint32_t number, const char* port, proto::EndpointConfig* end) {
    end->set_local_qpn(0x100 + number);
    end->set_remote_ip(0x0a000001 + number);
    end->set_remote_qpn(0x200 + number);
    end->set_remote_mac(std::string("\x02\0\0\0\0\x01", 6));
    end->set_port(port);
    end->set_in_psn(1000 + number);
    end->set_out_psn(2000 + number);
  }
  static proto::InstallRequest Request() {
    proto::InstallRequest request;
    proto::GroupConfig& group = *request.mutable_group();
    group.set_group_id(7);
    group.set_generation(2);
    group.set_name("job");
    group.set_mode(proto::MODE_POOLED);
    group.set_world_size(2);
    group.set_path_mtu(1024);
    group.set_message_packets(8);
    group.set_window_messages(8);
    group.set_slots(128);
    group.set_accumulator_mtus(2);
    group.set_prompt_ns(20'000'000);
    for (uint32_t rank : {0u, 1u}) {
      SetEnd(rank, rank == 0 ? "p0" : "p1", group.add_children());
      group.mutable_children(static_cast<int>(rank))->set_is_host(true);
      group.mutable_children(static_cast<int>(rank))->add_ranks(rank);
    }
    SetEnd(2, "p1", group.mutable_server());
    request.set_takes_refusal(true);
    return request;
  }
  static uint64_t Value(const proto::GroupDump& dump, std::string_view name) {
    for (const proto::Counter& counter : dump.counters()) {
      if (counter.name() == name) return counter.value();
    }
    ADD_FAILURE() << name;
    return 0;
  }

  engine::Switch with_{Config(true)};
  engine::Switch without_{Config(false)};
  SwitchControl control_{{"s1", "1", 77}, {"p0", "p1"}, with_, PortStates};
  SwitchControl none_{{"s2", "1", 78}, {"p0", "p1"}, without_, PortStates};
};

TEST_F(PoolControlTest, TheModeIsOfferedWithAPoolAndThePoolIsDescribed) {
  const proto::Capability can = control_.Describe().capability();
  EXPECT_THAT(can.modes(), ::testing::Contains(proto::MODE_POOLED));
  const proto::Pool& pool = can.pool();
  EXPECT_EQ(pool.bytes(), kPool);
  EXPECT_EQ(pool.buffer_bytes(), 8192u);
  EXPECT_EQ(pool.buffers(), 32u);
  EXPECT_EQ(pool.spare_buffers(), 32u);
  EXPECT_EQ(pool.places(), 28u);
  EXPECT_EQ(pool.places_in_use(), 0u);
  EXPECT_EQ(pool.addressing(), "any");
  EXPECT_EQ(pool.policy(), "fcfs");
  EXPECT_EQ(pool.age_ns(), 5'000'000u);
  EXPECT_EQ(can.arena_free_bytes(), kArena - kPool);

  const proto::Capability no = none_.Describe().capability();
  EXPECT_THAT(no.modes(), ::testing::Not(::testing::Contains(proto::MODE_POOLED)));
  EXPECT_FALSE(no.has_pool());
}

TEST_F(PoolControlTest, AGroupWithAServerIsInstalledDumpedAndRemoved) {
  const auto installed = control_.Install(Request());
  ASSERT_TRUE(installed.ok());
  ASSERT_FALSE(installed->has_refusal()) << installed->refusal().message();
  // 128 slots of 24 bytes both ways, and one packet.
  EXPECT_EQ(installed->arena_bytes(), 2u * 128 * 24 + 1024);
  const proto::DumpReply dump = control_.Dump();
  ASSERT_EQ(dump.groups_size(), 1);
  EXPECT_EQ(dump.groups(0).config().SerializeAsString(), Request().group().SerializeAsString());
  for (const char* name :
       {"claims", "evictions", "downgrades", "passes", "splits", "server_bytes_sent", "server_bytes_back"})
    EXPECT_EQ(Value(dump.groups(0), name), 0u);
  EXPECT_EQ(dump.groups(0).server().config().remote_ip(), 0x0a000003u);
  EXPECT_FALSE(dump.info().contexts(0).has_leg());
  EXPECT_TRUE(control_
                  .Fail([] {
                    proto::FailRequest fail;
                    fail.set_group_id(7);
                    fail.set_generation(2);
                    return fail;
                  }())
                  .ok());
  EXPECT_EQ(control_.Dump().groups(0).server().config().local_qpn(), 0x102u) << "also of a group that stands";
}

TEST_F(PoolControlTest, WhatIsWrongWithTheServerIsNamed) {
  const auto refused = [](SwitchControl& control, const auto& change) {
    proto::InstallRequest request = Request();
    change(request.mutable_group());
    const auto reply = control.Install(request);
    EXPECT_TRUE(reply.ok());
    EXPECT_EQ(reply->refusal().kind(), proto::REFUSAL_CONFIG);
    return reply->refusal().message();
  };
  EXPECT_EQ(refused(none_, [](proto::GroupConfig*) {}), "server: this switch has no pool");
  EXPECT_EQ(refused(control_, [](proto::GroupConfig* group) { group->clear_server(); }),
            "server: a group in mode V needs one");
  EXPECT_EQ(refused(control_, [](proto::GroupConfig* group) { group->mutable_server()->set_port("p9"); }),
            "server.port: this switch has no port \"p9\" (it has p0, p1)");
  EXPECT_EQ(refused(control_, [](proto::GroupConfig* group) { group->set_mode(proto::MODE_TRANSLATED); }),
            "server: not in mode II, whose memory is its own");
  EXPECT_EQ(
      refused(control_, [](proto::GroupConfig* group) { group->mutable_server()->set_in_psn(1 << 24); }),
      "server.in_psn: 0x1000000 has more than 24 bits");
}

// A message of the server that nobody has asked for.
TEST_F(PoolControlTest, ALegThatHasEndedIsToldWithWhoAndWhy) {
  ASSERT_TRUE(control_.Install(Request()).ok());
  class NoFrames final : public engine::Effects {
    void Send(PortId, const engine::OutPacket&) override {}
    void SetTimer(engine::TimerId, Nanos) override {}
    void Drop(PortId, engine::DropReason) override {}
  } nothing;
  roce::Packet packet;
  packet.src_ip = Ipv4{0x0a000003};
  packet.dst_ip = Ipv4{0x0a00ff01};
  packet.bth.opcode = roce::Opcode::kRcSendOnlyImm;
  packet.bth.dest_qp = Qpn{0x102};
  packet.bth.psn = Psn(1002);
  packet.bth.pkey = 0xffff;
  packet.bth.ack_req = true;
  with_.engine().OnPacket(0, 1, packet, nothing);
  const proto::EngineInfo info = control_.Describe();
  ASSERT_EQ(info.contexts_size(), 1);
  EXPECT_EQ(info.contexts(0).leg().why(), proto::LEG_END_MESSAGE);
  EXPECT_THAT(info.contexts(0).leg().message(),
              ::testing::StartsWith("server: the leg to 10.0.0.3 has ended: it sent a message"));
}

// Of several cores each has its part.
TEST(PoolShardsTest, ThePoolIsDividedAsTheArenaIs) {
  Options options;
  options.cores = 4;
  options.config.arena_bytes = kArena;
  options.config.pool = engine::PoolConfig{.bytes = kPool};
  const Options of = OptionsOfShard(options, 1);
  EXPECT_EQ(of.config.arena_bytes, kArena / 4);
  EXPECT_EQ(of.config.pool->bytes, kPool / 4);
}

}  // namespace
}  // namespace epic::daemon
