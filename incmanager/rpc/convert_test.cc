#include "incmanager/rpc/convert.h"

#include <gtest/gtest.h>

#include <map>

#include "incmanager/topology_testing.h"
#include "protocol/modes.h"

namespace epic::manager {
namespace {

// The numbers are compared when the product is compiled.
TEST(Convert, ModesHaveTheirNames) {
  for (const ModeInfo& row : kModes) {
    std::string name = "MODE_";
    for (const char c : row.name) name += static_cast<char>(c - 'a' + 'A');
    EXPECT_EQ(proto::Mode_Name(NumberOf(row.mode)), name);
  }
}

TEST(Convert, WhatIsNoModeStaysNone) {
  for (const int number : {99, -1, 256 + 1, 1 << 20}) {
    proto::Join join;
    join.set_mode(static_cast<proto::Mode>(number));
    EXPECT_FALSE(IsMode(FromProto(join).mode)) << number;
  }
}

TEST(Convert, ASwitchsRefusalHasItsKindAndNumbersWhateverItsWords) {
  proto::InstallReply reply;
  reply.set_arena_bytes(64);
  EXPECT_TRUE(FromProto(reply).status.ok());
  EXPECT_EQ(FromProto(reply).arena_bytes, 64U);

  reply.clear_arena_bytes();
  proto::Refusal& refusal = *reply.mutable_refusal();
  refusal.set_kind(proto::REFUSAL_MEMORY);
  refusal.set_message("arena: 7 bytes needed, 8 of 9 bytes left");
  EXPECT_EQ(FromProto(reply).status.code(), StatusCode::kResourceExhausted);
  EXPECT_FALSE(FromProto(reply).shortage) << "its words have numbers, and its fields none";
  refusal.set_message("no room");
  refusal.set_needed_bytes(600);
  refusal.set_left_bytes(500);
  refusal.set_all_bytes(900);
  const InstallAnswer answer = FromProto(reply);
  EXPECT_EQ(answer.status.message(), "no room");
  ASSERT_TRUE(answer.shortage);
  EXPECT_EQ(answer.shortage->needed, 600U);
  EXPECT_EQ(answer.shortage->left, 500U);
  EXPECT_EQ(answer.shortage->all, 900U);

  for (const auto& [kind, code] :
       std::map<int, StatusCode>{{proto::REFUSAL_CONFIG, StatusCode::kInvalidArgument},
                                 {proto::REFUSAL_IN_USE, StatusCode::kAlreadyExists},
                                 {proto::REFUSAL_MODE, StatusCode::kUnimplemented},
                                 {99, StatusCode::kUnknown}}) {
    refusal.set_kind(static_cast<proto::RefusalKind>(kind));
    EXPECT_EQ(FromProto(reply).status.code(), code) << kind;
    EXPECT_FALSE(FromProto(reply).shortage) << kind;
  }
}

TEST(Convert, ARanksTypesAreThoseOfAGroup) {
  proto::Join join;
  join.set_max_bytes(4096);
  join.set_quantise(0.5f);
  join.add_types("int32,float32");
  EXPECT_EQ(NamesOf(FromProto(join).needs), "types float32 and int32");
  EXPECT_EQ(FromProto(join).max_bytes, 4096U);
  EXPECT_EQ(FromProto(join).scale, 0.5f);
  EXPECT_FALSE(FromProto(join).int8);
  join.set_quantise_int8(true);
  EXPECT_TRUE(FromProto(join).int8);
  EXPECT_EQ(FromProto(join).wrong, "");
  join.add_types("int33");
  EXPECT_NE(FromProto(join).wrong.find("types: 'int33' is not a type"), std::string::npos);
}

// A switch that states no operations is of a version that had these.
TEST(Convert, AnEarlierVersionHasTheFirstTypesAndOperations) {
  proto::EngineInfo info;
  for (const char* type : {"float32", "int32", "float16", "bfloat16", "byte"})
    info.mutable_capability()->add_types(type);
  info.set_version("0.0.9");
  EXPECT_EQ(FromProto(info).abilities, Abilities::First());
  EXPECT_EQ(FromProto(info).version, "0.0.9");
  EXPECT_EQ(FromProto(proto::EngineInfo()).abilities, Abilities::First());
}

TEST(Convert, ARankLeavesWithWhatASwitchRefusedItsCallWith) {
  proto::Leave leave;
  EXPECT_TRUE(RefusedOf(leave).ok());
  leave.mutable_refused()->set_code(proto::ERROR_MISMATCH);
  leave.mutable_refused()->set_message("count differs");
  EXPECT_EQ(RefusedOf(leave).code, ErrorCode::kMismatch);
  EXPECT_EQ(RefusedOf(leave).message, "count differs");
  for (const int code : {0, static_cast<int>(proto::ERROR_RANK_LOST), 256 + 11, -1}) {
    leave.mutable_refused()->set_code(static_cast<proto::ErrorCode>(code));
    EXPECT_EQ(RefusedOf(leave).code, ErrorCode::kInternal) << code;
  }
}

TEST(Convert, ASwitchHasWhatItStates) {
  proto::EngineInfo info;
  info.mutable_capability()->add_types("float64");
  info.mutable_capability()->add_types("complex128");  // of a later version
  info.mutable_capability()->add_operations("product");
  info.mutable_capability()->add_operations("median");
  const Abilities has = FromProto(info).abilities;
  EXPECT_EQ(NamesOf(has), "type float64, operation product");
  EXPECT_FALSE(has.turns);
  info.mutable_capability()->set_turns(true);
  EXPECT_TRUE(FromProto(info).abilities.turns);
  EXPECT_FALSE(has.priorities);
  info.mutable_capability()->set_priorities(true);
  EXPECT_TRUE(FromProto(info).abilities.priorities);
  EXPECT_FALSE(FromProto(info).blocks);
  info.mutable_capability()->set_blocks(true);
  EXPECT_TRUE(FromProto(info).blocks);
}

// Another manager's nodes and ports may have another order.
TEST(Convert, ATableHasOneFormAndOneHash) {
  const Topology topology = testing::Tree32().Build();
  const NodeId root = *topology.FindSwitch("root");
  Forwarding table;
  table.hop_to.assign(topology.nodes.size(), 0);
  table.flood_ports = {"swp1", "swp2"};
  table.group_ports[Mac{1}] = {"swp1", "swp2"};
  const proto::ForwardingTable one = ToProto(topology, root, table);
  for (int i = 1; i < one.entries_size(); ++i) EXPECT_LT(one.entries(i - 1).mac(), one.entries(i).mac());
  table.flood_ports = table.group_ports[Mac{1}] = {"swp2", "swp1"};
  EXPECT_EQ(ToProto(topology, root, table).SerializeAsString(), one.SerializeAsString());
}

TEST(Convert, APortHasItsNeighbours) {
  proto::EngineInfo info;
  proto::PortInfo& port = *info.add_ports();
  port.set_name("swp1");
  port.set_mtu(4200);
  port.set_up(true);
  port.set_rate_mbps(10000);
  proto::Neighbour& leaf = *port.add_neighbours();
  leaf.set_kind(proto::NEIGHBOUR_SWITCH);
  leaf.set_name("leaf1");
  leaf.set_port("swp3");
  leaf.set_ip(0x0a000001);
  leaf.set_mac("\x02\x01\x01\x01\x01\x01");
  leaf.set_version("0.2.0");
  leaf.set_heard_by(proto::HEARD_BY_SECOND_ADDRESS);
  proto::Neighbour& later = *port.add_neighbours();
  later.set_kind(static_cast<proto::NeighbourKind>(9));  // of a later version
  later.set_heard_by(static_cast<proto::HeardBy>(9));
  later.set_mac("short");
  const EngineReport report = FromProto(info);
  ASSERT_EQ(report.ports.size(), 1U);
  EXPECT_EQ(report.ports[0].rate_mbps, 10000U);
  ASSERT_EQ(report.ports[0].neighbours.size(), 2U);
  EXPECT_EQ(report.ports[0].neighbours[0], (Neighbour{.kind = NeighbourKind::kSwitch,
                                                      .name = "leaf1",
                                                      .port = "swp3",
                                                      .ip = Ipv4{0x0a000001},
                                                      .mac = {2, 1, 1, 1, 1, 1},
                                                      .version = "0.2.0",
                                                      .heard_by = HeardBy::kSecondAddress}));
  EXPECT_EQ(report.ports[0].neighbours[1], Neighbour{});
}

TEST(Convert, RanksAreToldWhatAllSwitchesHaveAndWhoLacksTheRest) {
  JoinedReply reply;
  reply.abilities = Abilities::First();
  reply.lacks = {{"operation product", "leaf1 (version 0.1.0)"}};
  const proto::Joined joined = ToProto(SessionEvent(reply)).joined();
  EXPECT_EQ(joined.types_size(), 5);
  ASSERT_EQ(joined.operations_size(), 3);
  EXPECT_EQ(joined.operations(2), "max");
  ASSERT_EQ(joined.lacks_size(), 1);
  EXPECT_EQ(joined.lacks(0).what(), "operation product");
  EXPECT_EQ(joined.lacks(0).where(), "leaf1 (version 0.1.0)");
  EXPECT_FALSE(joined.turns());
  reply.abilities.turns = true;
  EXPECT_TRUE(ToProto(SessionEvent(reply)).joined().turns());
  reply.abilities.priorities = true;
  reply.mode = Mode::kAugmented;
  EXPECT_FALSE(ToProto(SessionEvent(reply)).joined().priorities()) << "only calls in a pool have some";
  reply.mode = Mode::kPooled;
  EXPECT_TRUE(ToProto(SessionEvent(reply)).joined().priorities());
  EXPECT_FALSE(ToProto(SessionEvent(reply)).joined().asks());
  reply.asks = true;
  EXPECT_TRUE(ToProto(SessionEvent(reply)).joined().asks());
}

TEST(Convert, RanksAndSwitchesAreToldOfBorneAddresses) {
  JoinedReply reply;
  reply.remote_ip = Ipv4{0x0a000002};
  reply.remote_name = "h1, for switch leaf1";
  const proto::Joined joined = ToProto(SessionEvent(reply)).joined();
  EXPECT_EQ(joined.remote_ip(), 0x0a000002u);
  EXPECT_EQ(joined.remote_name(), "h1, for switch leaf1");
  ContextPlan context;
  context.children.resize(2);
  context.children[0].borne_ip = Ipv4{0x0a000002};
  const proto::GroupConfig config = ToProto(context);
  EXPECT_EQ(config.children(0).borne_ip(), 0x0a000002u);
  EXPECT_EQ(config.children(1).borne_ip(), 0u);
}

TEST(Convert, APlacementHasARowForEachSwitch) {
  const Topology topology = testing::Tree32().Build();
  Placement placement;
  placement.roots.push_back({.root = 0, .why = "its agent is lost"});
  placement.roots.push_back({.root = 1,
                             .chosen = true,
                             .switches = {{1, 3}, {.node = 2, .children = 2, .bytes = 640, .block = 5}},
                             .depth_links = 3,
                             .rate_gbps = 2.5,
                             .delay_us = 60});
  placement.path = Path::kNetwork;
  placement.root = 1;
  placement.switches = 2;
  placement.mode = Mode::kAugmented;
  const proto::ExplainReply reply = ToProto(topology, placement);
  ASSERT_EQ(reply.roots_size(), 2);
  EXPECT_EQ(reply.roots(0).root(), "root");
  EXPECT_EQ(reply.roots(0).why(), "its agent is lost");
  EXPECT_FALSE(reply.roots(0).chosen());
  EXPECT_TRUE(reply.roots(1).chosen());
  EXPECT_EQ(reply.roots(1).depth_links(), 3U);
  EXPECT_EQ(reply.roots(1).rate_gbps(), 2.5);
  EXPECT_EQ(reply.roots(1).delay_us(), 60);
  ASSERT_EQ(reply.roots(1).switches_size(), 2);
  EXPECT_EQ(reply.roots(1).switches(1).switch_name(), "leaf2");
  EXPECT_EQ(reply.roots(1).switches(1).children(), 2U);
  EXPECT_EQ(reply.roots(1).switches(0).block(), 0U);
  EXPECT_EQ(reply.roots(1).switches(1).block(), 5U);
  EXPECT_EQ(reply.roots(1).switches(1).bytes(), 640U);
  EXPECT_EQ(reply.path(), proto::PATH_NETWORK);
  EXPECT_EQ(reply.root(), "leaf1");
  EXPECT_EQ(reply.switches(), 2U);
  EXPECT_EQ(reply.mode(), proto::MODE_AUGMENTED);
  EXPECT_FALSE(reply.has_failure());

  Placement none;
  none.failure = {ErrorCode::kNoTree, "why", -1, "leaf2"};
  EXPECT_EQ(ToProto(topology, none).failure().switch_name(), "leaf2");
  EXPECT_EQ(ToProto(topology, none).root(), "");
}

TEST(Convert, EachEdgeOfATreeHasItsRate) {
  Group group;
  ContextPlan root{.node = 0};
  root.children.resize(2);
  root.children[0].rate_gbps = 2.5;
  root.children[1].rate_gbps = 40;
  group.plan.contexts.push_back(root);
  const proto::GroupState state = ToProto(testing::Tree32().Build(), group);
  ASSERT_EQ(state.tree(0).child_gbps_size(), 2);
  EXPECT_EQ(state.tree(0).child_gbps(0), 2.5);
  EXPECT_EQ(state.tree(0).child_gbps(1), 40);
}

TEST(Convert, ByTheHostsNothingTellsOfASwitch) {
  JoinedReply reply;
  reply.group_id = 7;
  reply.mode = Mode::kUnspecified;
  reply.path_mtu = 4096;
  reply.path = Path::kHosts;
  reply.path_reason = "asked for by rank 0";
  const proto::Joined joined = ToProto(SessionEvent(reply)).joined();
  EXPECT_EQ(joined.path(), proto::PATH_HOSTS);
  EXPECT_EQ(joined.path_reason(), "asked for by rank 0");
  EXPECT_EQ(joined.mode(), proto::MODE_UNSPECIFIED);
  EXPECT_EQ(joined.remote_ip() + joined.remote_qpn() + joined.message_packets() + joined.window_messages(),
            0u);
  EXPECT_GT(joined.qp_timeout(), 0u) << "connections of ranks have these, too";
  EXPECT_EQ(static_cast<size_t>(joined.operations_size()), kReduceOps.size()) << "hosts have them all";
  reply.path = Path::kNetwork;
  reply.hosts_reach = true;
  EXPECT_TRUE(ToProto(SessionEvent(reply)).joined().hosts_reach());
  EXPECT_EQ(ToProto(SessionEvent(reply)).joined().path(), proto::PATH_NETWORK);
}

TEST(Convert, WhatIsNoPathStaysNone) {
  for (const int number : {4, 99, -1, 256 + 1, 1 << 20}) {
    proto::Join join;
    join.set_path(static_cast<proto::Path>(number));
    EXPECT_TRUE(FromProto(join).path == Path::kUnspecified ? number < 0 : !IsPath(FromProto(join).path))
        << number;
    proto::CreateGroupRequest create;
    create.set_path(static_cast<proto::Path>(number));
    EXPECT_FALSE(IsPath(FromProto(create).path)) << number;
  }
}

// An engine that states no operations is of before it let calls pass of which the ranks only agree there.
TEST(Convert, AnEarlierVersionDoesNotKnowOfCallsByTheHosts) {
  proto::EngineInfo info;
  info.mutable_capability()->add_types("float32");
  EXPECT_FALSE(FromProto(info).by_hosts);
  info.mutable_capability()->add_operations("sum");
  EXPECT_TRUE(FromProto(info).by_hosts);
}

TEST(Convert, WhatIsNoTypeIsWrongWithTheGroup) {
  proto::CreateGroupRequest request;
  request.add_types("int64");
  request.add_operations("lor");
  EXPECT_EQ(FromProto(request).wrong, "");
  EXPECT_EQ(NamesOf(FromProto(request).needs), "type int64, operation lor");
  request.add_types("int65");
  EXPECT_NE(FromProto(request).wrong.find("types: 'int65' is not a type: float32"), std::string::npos);
}

}  // namespace
}  // namespace epic::manager
