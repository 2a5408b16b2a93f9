// The calls of the control service: what they do, and what they refuse.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <vector>

#include "incengine/daemon/daemon_testing.h"

namespace epic::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

proto::EndpointConfig Child(uint32_t n) {
  proto::EndpointConfig child;
  child.set_local_qpn(0x100 + n);
  child.set_remote_ip(kHost0 + n);
  child.set_remote_qpn(0x11);
  child.set_remote_mac(std::string("\x02\0\0\0\0\1", 6));
  child.set_port(kPorts[n]);
  child.set_in_psn(0xfffff0 + n);
  child.set_out_psn(5);
  child.set_is_host(true);
  child.add_ranks(n);
  return child;
}

proto::GroupConfig Group() {
  proto::GroupConfig group;
  group.set_group_id(7);
  group.set_generation(2);
  group.set_name("job");
  group.set_mode(proto::MODE_TRANSLATED);
  group.set_world_size(2);
  group.set_path_mtu(1024);
  group.set_message_packets(2);
  group.set_window_messages(4);
  group.set_slots(16);
  group.set_accumulator_mtus(2);
  *group.add_children() = Child(0);
  *group.add_children() = Child(1);
  group.mutable_children(1)->set_ingress_port(kPorts[0]);
  group.set_prompt_ns(30'000'000);
  return group;
}

uint64_t Value(const google::protobuf::RepeatedPtrField<proto::Counter>& counters, const std::string& name) {
  for (const auto& counter : counters) {
    if (counter.name() == name) return counter.value();
  }
  ADD_FAILURE() << "no counter " << name;
  return 0;
}

TEST_F(DaemonTest, DescribesItself) {
  const proto::EngineInfo info = Describe();
  EXPECT_EQ(info.name(), "s1");
  EXPECT_EQ(info.address(), 0x0a00ff01u);
  EXPECT_EQ(info.mac(), std::string("\x02\0\0\0\0\x09", 6));
  EXPECT_EQ(info.boot_id(), 77u);
  EXPECT_EQ(info.version(), "1.2.3");
  std::vector<int> modes;
  for (const Mode mode : ModesOfOwnMemory()) modes.push_back(NumberOf(mode));
  EXPECT_THAT(info.capability().modes(), ElementsAreArray(modes));
  EXPECT_THAT(info.capability().types(),
              ElementsAre("float32", "int32", "float16", "bfloat16", "byte", "float64", "int64", "uint64",
                          "uint32", "int8", "uint8", "int16", "uint16", "block8"));
  EXPECT_THAT(info.capability().operations(), ElementsAre("sum", "min", "max", "product", "band", "bor",
                                                          "bxor", "land", "lor", "saturating_sum"));
  EXPECT_TRUE(info.capability().turns());
  EXPECT_TRUE(info.capability().priorities());
  EXPECT_EQ(info.capability().max_path_mtu(), 4096u);
  EXPECT_EQ(info.capability().arena_bytes(), 65536u);
  EXPECT_EQ(info.capability().arena_free_bytes(), 65536u);
  EXPECT_EQ(info.capability().max_children(), 64u);
  ASSERT_EQ(info.ports_size(), 2);
  EXPECT_TRUE(info.ports(0).up());
  EXPECT_EQ(info.ports(0).mtu(), 4200u);
  EXPECT_FALSE(info.ports(1).up());
}

TEST_F(DaemonTest, InstallsDumpsAndRemovesAGroup) {
  ASSERT_TRUE(Install(Group()).ok());
  EXPECT_GT(installed_bytes_, 16u * 1024);
  EXPECT_THAT(Describe().group_ids(), ElementsAre(7));
  EXPECT_EQ(Describe().capability().arena_free_bytes(), 65536 - installed_bytes_);
  const proto::DumpReply dump = Dump();
  ASSERT_EQ(dump.groups_size(), 1);
  EXPECT_EQ(dump.groups(0).config().SerializeAsString(), Group().SerializeAsString());
  EXPECT_EQ(dump.groups(0).arena_bytes(), installed_bytes_);
  EXPECT_FALSE(dump.groups(0).failed());
  EXPECT_EQ(dump.groups(0).invocations(), 0);
  EXPECT_EQ(Value(dump.groups(0).counters(), "aggregated_packets"), 0u);
  EXPECT_EQ(dump.groups(0).children(1).last_down_acked(), -1);

  proto::RemoveRequest remove;
  proto::RemoveReply reply;
  remove.set_group_id(7);
  remove.set_generation(1);  // of another life: left alone
  EXPECT_TRUE(Call(&Stub::Remove, remove, &reply).ok());
  EXPECT_EQ(Describe().group_ids_size(), 1);
  remove.set_generation(2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(Call(&Stub::Remove, remove, &reply).ok());
    EXPECT_EQ(Describe().group_ids_size(), 0);
  }
  EXPECT_EQ(Describe().capability().arena_free_bytes(), 65536u);
}

// Of a switch that takes no longer payloads (--max-payload).
TEST_F(DaemonTest, RefusesAGroupWithLongerPayloadsThanItHas) {
  engine::Switch small({.port_count = 2, .arena_bytes = 65536, .max_payload = 256});
  SwitchControl control({"s1", "1.2.3", 77}, kPorts, small, OneShard::PortStates, nullptr, nullptr);
  EXPECT_EQ(control.Describe().capability().max_path_mtu(), 256u);
  proto::InstallRequest request;
  *request.mutable_group() = Group();
  request.mutable_group()->set_path_mtu(512);
  EXPECT_THAT(std::string(control.Install(request).status().message()),
              ::testing::HasSubstr("path_mtu: 512 is more than the 256 of --max-payload"));
  request.mutable_group()->set_path_mtu(256);
  EXPECT_TRUE(control.Install(request).ok());
}

TEST_F(DaemonTest, InstallsEveryModeThatItOffers) {
  const proto::Capability capability = Describe().capability();
  std::map<int, uint64_t> plain;
  for (const bool reproducible : {false, true}) {
    for (const int mode : capability.modes()) {
      proto::GroupConfig group = Group();
      group.set_path_mtu(256);
      group.set_mode(static_cast<proto::Mode>(mode));
      group.set_reproducible(reproducible);
      const grpc::Status status = Install(group);
      ASSERT_TRUE(status.ok()) << mode << ": " << status.error_message();
      EXPECT_EQ(Dump().groups(0).config().SerializeAsString(), group.SerializeAsString());
      if (!reproducible) plain[mode] = installed_bytes_;
      // Mode I is reproducible always.
      if (reproducible && mode != proto::MODE_TERMINATED) {
        EXPECT_GT(installed_bytes_, plain[mode]) << mode;
      }
      proto::RemoveRequest remove;
      proto::RemoveReply reply;
      remove.set_group_id(group.group_id());
      remove.set_generation(group.generation());
      ASSERT_TRUE(Call(&Stub::Remove, remove, &reply).ok());
    }
  }
}

TEST_F(DaemonTest, RefusalsHaveACodeAndNameTheField) {
  ASSERT_TRUE(Install(Group()).ok());
  EXPECT_EQ(Install(Group()).error_code(), grpc::StatusCode::ALREADY_EXISTS);

  using Mutation = std::function<void(proto::GroupConfig&)>;
  const std::tuple<Mutation, grpc::StatusCode, const char*> cases[] = {
      {[](auto& g) { g.mutable_children(1)->set_port("p9"); }, grpc::StatusCode::INVALID_ARGUMENT,
       "children[1].port: this switch has no port \"p9\" (it has p0, p1)"},
      {[](auto& g) { g.mutable_children(1)->set_ingress_port("p9"); }, grpc::StatusCode::INVALID_ARGUMENT,
       "children[1].ingress_port: this switch has no port \"p9\""},
      {[](auto& g) { g.mutable_children(0)->set_remote_mac("xyz"); }, grpc::StatusCode::INVALID_ARGUMENT,
       "children[0].remote_mac"},
      {[](auto& g) { g.mutable_children(0)->set_in_psn(1 << 24); }, grpc::StatusCode::INVALID_ARGUMENT,
       "children[0].in_psn"},
      {[](auto& g) { *g.mutable_parent() = Child(0), g.mutable_parent()->set_local_qpn(1 << 24); },
       grpc::StatusCode::INVALID_ARGUMENT, "parent.local_qpn"},
      {[](auto& g) { g.set_mode(proto::MODE_UNSPECIFIED); }, grpc::StatusCode::INVALID_ARGUMENT, "mode"},
      {[](auto& g) { g.set_mode(static_cast<proto::Mode>(99)); }, grpc::StatusCode::INVALID_ARGUMENT, "mode"},
      {[](auto& g) { g.set_prompt_ns(~0ull); }, grpc::StatusCode::INVALID_ARGUMENT, "prompt_ns"},
      {[](auto& g) { g.set_slots(15); }, grpc::StatusCode::INVALID_ARGUMENT, "slots"},
      {[](auto& g) { g.set_slots(1024); }, grpc::StatusCode::RESOURCE_EXHAUSTED, "arena"},
  };
  for (const auto& [mutate, code, text] : cases) {
    proto::GroupConfig group = Group();
    group.set_group_id(8);
    for (auto& child : *group.mutable_children()) child.set_local_qpn(child.local_qpn() + 0x100);
    mutate(group);
    const grpc::Status status = Install(group);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(text));
  }
  EXPECT_THAT(Describe().group_ids(), ElementsAre(7));
}

// Whoever does not say that it takes one gets a status, as above.
TEST_F(DaemonTest, ARefusalIsAReplyToWhoTakesIt) {
  const auto refusal = [this](const std::function<void(proto::GroupConfig&)>& change) {
    proto::InstallRequest request;
    *request.mutable_group() = Group();
    change(*request.mutable_group());
    request.set_takes_refusal(true);
    proto::InstallReply reply;
    EXPECT_TRUE(Call(&Stub::Install, request, &reply).ok());
    EXPECT_EQ(reply.has_refusal(), reply.arena_bytes() == 0);
    return reply.refusal();
  };
  EXPECT_EQ(refusal([](auto&) {}).message(), "") << "it is installed";
  EXPECT_EQ(refusal([](auto&) {}).kind(), proto::REFUSAL_IN_USE);
  const auto bad_field = refusal([](auto& g) { g.set_group_id(8), g.set_slots(15); });
  EXPECT_EQ(bad_field.kind(), proto::REFUSAL_CONFIG);
  EXPECT_THAT(bad_field.message(), HasSubstr("slots"));

  const auto no_room = refusal([](auto& g) {
    g.set_group_id(8);
    for (auto& child : *g.mutable_children()) child.set_local_qpn(child.local_qpn() + 0x100);
    g.set_slots(1024);
  });
  EXPECT_EQ(no_room.kind(), proto::REFUSAL_MEMORY);
  EXPECT_GT(no_room.needed_bytes(), 65536u);
  EXPECT_EQ(no_room.left_bytes(), Describe().capability().arena_free_bytes());
  EXPECT_EQ(no_room.all_bytes(), 65536u);
  EXPECT_EQ(no_room.message(), "arena: " + std::to_string(no_room.needed_bytes()) + " bytes needed, " +
                                   std::to_string(no_room.left_bytes()) + " of 65536 bytes left");
  EXPECT_THAT(Describe().group_ids(), ElementsAre(7));
}

class TwoShardsTest : public DaemonTest {
 protected:
  TwoShardsTest() : DaemonTest(2) {}

  // Of groups 7 and 8.
  void ExpectPages() {
    const proto::DumpReply first = Dump(0, 1);
    ASSERT_EQ(first.groups_size(), 1);
    EXPECT_EQ(first.groups(0).config().group_id(), 7u);
    EXPECT_TRUE(first.more());
    EXPECT_EQ(first.counters_size(), Dump().counters_size());
    const proto::DumpReply second = Dump(7, 1);
    ASSERT_EQ(second.groups_size(), 1);
    EXPECT_EQ(second.groups(0).config().group_id(), 8u);
    EXPECT_FALSE(second.more());
    EXPECT_EQ(second.info().ports_size() + second.counters_size(), 0) << "has come with the first page";
    EXPECT_EQ(Dump(8, 1).groups_size(), 0);
    EXPECT_EQ(Dump(0, 2).groups_size(), 2);
    EXPECT_FALSE(Dump(0, 2).more());
  }
};

TEST_F(TwoShardsTest, GroupsOfBothAreInstalledDumpedAndRemoved) {
  EXPECT_EQ(Describe().capability().arena_bytes(), 65536u);
  proto::GroupConfig group = Group();
  EXPECT_EQ(Install(group).error_code(), grpc::StatusCode::INVALID_ARGUMENT) << "QPNs of both shards";
  for (uint32_t id = 7; id <= 8; ++id) {
    group.set_group_id(id);
    for (uint32_t i = 0; i < 2; ++i)
      group.mutable_children(static_cast<int>(i))->set_local_qpn(0x1000 * id + 0x100 * i + id);
    group.set_path_mtu(512);
    const grpc::Status status = Install(group);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  EXPECT_THAT(Describe().group_ids(), ElementsAre(7, 8));
  EXPECT_EQ(Dump().groups(1).config().SerializeAsString(), group.SerializeAsString());
  ExpectPages();
  for (const auto& shard : shards_) {
    const auto groups = std::make_shared<std::promise<size_t>>();
    shard->loop.Post([&shard, groups] { groups->set_value(shard->sw.engine().groups().size()); });
    EXPECT_EQ(groups->get_future().get(), 1u);
  }
  for (uint32_t id = 7; id <= 8; ++id) {
    proto::RemoveRequest remove;
    proto::RemoveReply reply;
    remove.set_group_id(id);
    remove.set_generation(2);
    EXPECT_TRUE(Call(&Stub::Remove, remove, &reply).ok());
  }
  EXPECT_EQ(Describe().capability().arena_free_bytes(), 65536u);
}

TEST_F(DaemonTest, FailStopsAGroup) {
  ASSERT_TRUE(Install(Group()).ok());
  proto::FailRequest request;
  proto::FailReply reply;
  request.set_group_id(7);
  request.set_generation(2);
  EXPECT_TRUE(Call(&Stub::Fail, request, &reply).ok());
  EXPECT_TRUE(Dump().groups(0).failed());
}

TEST_F(DaemonTest, SetsAndDumpsForwarding) {
  proto::SetForwardingRequest request;
  proto::SetForwardingReply reply;
  proto::ForwardingEntry& entry = *request.mutable_table()->add_entries();
  entry.set_mac(std::string("\x02\0\0\0\0\1", 6));
  entry.set_ip(kHost0);
  entry.set_port("p1");
  entry.set_source_guard(true);
  request.mutable_table()->add_flood_ports("p0");
  proto::GroupPorts& group = *request.mutable_table()->add_groups();
  group.set_mac(std::string("\1\0\x5e\x40\0\1", 6));
  group.add_ports("p0");
  group.add_ports("p1");
  ASSERT_TRUE(Call(&Stub::SetForwarding, request, &reply).ok());
  EXPECT_EQ(Dump().forwarding().SerializeAsString(), request.table().SerializeAsString());

  EXPECT_TRUE(Dump().info().capability().group_ports());

  const auto refusal = [&](const std::function<void(proto::ForwardingTable*)>& spoil) {
    proto::SetForwardingRequest bad = request;
    spoil(bad.mutable_table());
    const grpc::Status status = Call(&Stub::SetForwarding, bad, &reply);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    return status.error_message();
  };
  EXPECT_THAT(refusal([](auto* table) { table->add_flood_ports("p7"); }), HasSubstr("flood_ports[1]"));
  EXPECT_THAT(refusal([](auto* table) { table->mutable_groups(0)->add_ports("p7"); }),
              HasSubstr("groups[0].ports[2]: this switch has no port \"p7\""));
  EXPECT_THAT(refusal([](auto* table) { table->mutable_groups(0)->add_ports("p1"); }),
              HasSubstr("groups[0].ports[2]: is there twice"));
  EXPECT_THAT(refusal([](auto* table) { table->add_groups(); }), HasSubstr("groups[1].mac: has 0 bytes"));
  EXPECT_EQ(Dump().forwarding().flood_ports_size(), 1);  // as before
}

TEST_F(DaemonTest, TellsAHashOfItsForwardingAndKeepsWhatHasIt) {
  const auto hash_of = [](const proto::ForwardingTable& table) {
    return StableHash(table.SerializeAsString());
  };
  EXPECT_EQ(Describe().forwarding_hash(), hash_of({})) << "it has none yet";
  proto::SetForwardingRequest request;
  proto::SetForwardingReply reply;
  request.mutable_table()->add_flood_ports("p0");
  ASSERT_TRUE(Call(&Stub::SetForwarding, request, &reply).ok());
  const uint64_t hash = Describe().forwarding_hash();
  EXPECT_EQ(hash, hash_of(request.table()));
  proto::SetForwardingRequest keeps;
  keeps.set_keeps(hash);
  EXPECT_TRUE(Call(&Stub::SetForwarding, keeps, &reply).ok());
  keeps.set_keeps(hash + 1);
  EXPECT_EQ(Call(&Stub::SetForwarding, keeps, &reply).error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_EQ(Describe().forwarding_hash(), hash) << "nothing has changed";
  EXPECT_EQ(Dump().forwarding().flood_ports_size(), 1);
  request.mutable_table()->add_flood_ports("p7");
  EXPECT_FALSE(Call(&Stub::SetForwarding, request, &reply).ok());
  EXPECT_EQ(Describe().forwarding_hash(), hash);
}

TEST_F(DaemonTest, EveryReasonIsACounter) {
  const proto::DumpReply dump = Dump();
  for (const char* name :
       {"roce_packets", "bad_roce_bad_icrc", "drop_unknown_qpn", "drop_wrong_port", "drop_group_failed",
        "forward_drop_forged_source", "forward_drop_unknown_unicast", "frame_drop_own_source",
        "port.p0.rx_frames", "port.p1.tx_no_buffer", "aggregated_packets"}) {
    EXPECT_EQ(Value(dump.counters(), name), 0u);
  }
}

TEST_F(DaemonTest, TheSocketIsForItsUserAndGroup) {
  const auto permissions = std::filesystem::status(socket()).permissions();
  EXPECT_EQ(permissions & std::filesystem::perms::others_all, std::filesystem::perms::none);
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(socket()));
}

TEST_F(DaemonTest, ProbesGoToTheNamedPort) {
  proto::ProbeRequest request;
  request.set_ip(kHost0);
  request.set_mac(std::string("\x02\0\0\0\0\1", 6));
  request.set_port("p1");
  proto::ProbeReply reply;
  ASSERT_TRUE(Call(&Stub::Probe, request, &reply).ok());
  EXPECT_FALSE(reply.asked());
  ASSERT_TRUE(Call(&Stub::Probe, request, &reply).ok());
  EXPECT_TRUE(reply.asked());
  EXPECT_EQ(reply.answered(), 3u);
  EXPECT_EQ(probed_[1].port, 1);
  EXPECT_EQ(probed_[1].ip, Ipv4{kHost0});

  const auto message = [&](const std::function<void(proto::ProbeRequest*)>& spoil) {
    proto::ProbeRequest bad = request;
    spoil(&bad);
    const grpc::Status status = Call(&Stub::Probe, bad, &reply);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
    return status.error_message();
  };
  EXPECT_THAT(message([](auto* r) { r->clear_ip(); }), HasSubstr("ip:"));
  EXPECT_THAT(message([](auto* r) { r->set_mac("x"); }), HasSubstr("mac:"));
  EXPECT_THAT(message([](auto* r) { r->set_port("p2"); }), HasSubstr("port:"));
  EXPECT_EQ(probed_.size(), 2u);
}

}  // namespace
}  // namespace epic::daemon
