#include "commlib/session_state.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/manager.pb.h"
#include "protocol/abilities.h"
#include "protocol/bounds.h"

namespace epic::internal {
namespace {

TEST(SessionStateTest, AWindowToBeginWithIsNoMoreThanTheGroups) {
  proto::ServerMessage message;
  message.mutable_joined()->set_window_messages(4);
  message.mutable_joined()->set_start_messages(5);
  SessionState state;
  EXPECT_FALSE(state.OnMessage(message));
  ASSERT_TRUE(state.joined());
  EXPECT_EQ(state.joined()->start_messages, 4u);
}

// Messages about the connection name who answers for the address: in mode IV another host.
TEST(SessionStateTest, ThePeerIsTheSwitchUnlessTheManagerNamesAnother) {
  for (const std::string name : {"", "h2, for switch leaf1"}) {
    proto::ServerMessage message;
    message.mutable_joined()->set_remote_name(name);
    SessionState state;
    EXPECT_FALSE(state.OnMessage(message));
    EXPECT_EQ(state.joined()->connect.name, name.empty() ? "the switch" : name);
  }
}

TEST(SessionStateTest, TheGroupHasWhatTheManagerSays) {
  proto::ServerMessage message;
  message.mutable_joined()->add_types("float64");
  message.mutable_joined()->add_types("complex128");  // of a later version
  message.mutable_joined()->add_operations("sum");
  proto::Lack& lack = *message.mutable_joined()->add_lacks();
  lack.set_what("operation product");
  lack.set_where("leaf1 (version 0.1.0)");
  SessionState state;
  EXPECT_FALSE(state.OnMessage(message));
  EXPECT_EQ(NamesOf(state.joined()->abilities.has), "type float64, operation sum");
  EXPECT_EQ(state.joined()->abilities.where.at("operation product"), "leaf1 (version 0.1.0)");
  EXPECT_FALSE(state.joined()->abilities.has.turns);
  message.mutable_joined()->set_turns(true);
  SessionState later;
  EXPECT_FALSE(later.OnMessage(message));
  EXPECT_TRUE(later.joined()->abilities.has.turns);
}

TEST(SessionStateTest, AnEarlierManagersGroupsHaveTheFirst) {
  proto::ServerMessage message;
  message.mutable_joined()->set_window_messages(4);
  SessionState state;
  EXPECT_FALSE(state.OnMessage(message));
  EXPECT_EQ(state.joined()->abilities.has, Abilities::First());
}

// One switch has sums alone, another one maxima: they have no operation in common.
TEST(SessionStateTest, SwitchesWithNothingInCommonAreOfNoEarlierVersion) {
  proto::ServerMessage message;
  proto::Joined& joined = *message.mutable_joined();
  joined.set_path(proto::PATH_NETWORK);
  joined.set_hosts_reach(true);
  joined.add_types("float32");
  for (const OpInfo& row : kReduceOps) {
    proto::Lack& lack = *joined.add_lacks();
    lack.set_what("operation " + std::string(row.name));
    lack.set_where(row.op == ReduceOp::kSum ? "leaf2 (version 0.1.0)" : "leaf1 (version 0.1.0)");
  }
  SessionState state;
  EXPECT_FALSE(state.OnMessage(message));
  EXPECT_EQ(NamesOf(state.joined()->abilities.has), "type float32");
  EXPECT_TRUE(state.joined()->abilities.hosts_reach);
  EXPECT_EQ(state.joined()->abilities.where.at("operation sum"), "leaf2 (version 0.1.0)");
}

TEST(SessionStateTest, AGroupByTheHostsHasTheReasonAndAllTypes) {
  proto::ServerMessage message;
  message.mutable_joined()->set_path(proto::PATH_HOSTS);
  message.mutable_joined()->set_path_reason("leaf3 has 0.2 of 1.0 MiB free");
  SessionState state;
  EXPECT_FALSE(state.OnMessage(message));
  EXPECT_EQ(state.joined()->path, PathChoice::kHosts);
  EXPECT_EQ(state.joined()->path_reason, "leaf3 has 0.2 of 1.0 MiB free");
  EXPECT_EQ(state.joined()->abilities.has, Abilities::All());
}

TEST(SessionStateTest, WhatSwitchesLackMayGoByTheHostsIfTheySayWhatTheyHave) {
  proto::ServerMessage message;
  message.mutable_joined()->set_path(proto::PATH_NETWORK);
  message.mutable_joined()->set_hosts_reach(true);
  SessionState earlier;
  EXPECT_FALSE(earlier.OnMessage(message));
  EXPECT_EQ(earlier.joined()->path, PathChoice::kNetwork);
  EXPECT_FALSE(earlier.joined()->abilities.hosts_reach);
  message.mutable_joined()->add_operations("sum");
  message.mutable_joined()->set_path_reason("a router");
  SessionState state;
  EXPECT_FALSE(state.OnMessage(message));
  EXPECT_TRUE(state.joined()->abilities.hosts_reach);
  EXPECT_EQ(state.joined()->abilities.why_not_hosts, "a router");
  EXPECT_EQ(state.joined()->path_reason, "") << "the way taken needs none";
}

TEST(SessionStateTest, OtherRanksEndsAreTakenInOrder) {
  SessionState state;
  proto::ServerMessage message;
  message.mutable_peer()->set_rank(3);
  message.mutable_peer()->set_ip(0x0a000004);
  message.mutable_peer()->set_qpn(17);
  message.mutable_peer()->set_psn(99);
  EXPECT_FALSE(state.OnMessage(message));
  message.mutable_peer()->set_ready(true);
  message.mutable_peer()->set_super_frames(true);
  message.mutable_peer()->set_fetches(true);
  EXPECT_FALSE(state.OnMessage(message));
  const PeerEndInfo end{.rank = 3, .ip = Ipv4{0x0a000004}, .qpn = 17, .psn = 99};
  PeerEndInfo ready = end;
  ready.ready = ready.super_frames = ready.fetches = true;
  EXPECT_THAT(state.TakePeers(), testing::ElementsAre(end, ready));
  EXPECT_THAT(state.TakePeers(), testing::IsEmpty());
}

TEST(SessionStateTest, AnEndThatFitsNoQueuePairIsRefused) {
  SessionState state;
  proto::ServerMessage message;
  message.mutable_peer()->set_qpn(1u << 24);
  EXPECT_TRUE(state.OnMessage(message));
  EXPECT_EQ(state.failure()->code(), ErrorCode::kUnsupported);
  EXPECT_THAT(state.failure()->message(), testing::HasSubstr("qpn 16777216"));
}

TEST(SessionStateTest, MoreEndsThanThereMayBeAreAnError) {
  SessionState state;
  proto::ServerMessage message;
  message.mutable_peer()->set_rank(1);
  int taken = 0;
  for (; taken < 100000; ++taken) {
    message.mutable_peer()->set_qpn(taken);  // another one each time
    if (state.OnMessage(message)) break;
  }
  EXPECT_EQ(taken, 2 * (static_cast<int>(kMaxHostRanks) + 2)) << "of the two neighbours twice as many";
  EXPECT_EQ(state.failure()->code(), ErrorCode::kInternal);
}

// A rank that comes back is told all again, each time that it does.
TEST(SessionStateTest, WhatIsKnownOfEndsIsPassedOver) {
  constexpr uint32_t kManyRanks = 256;
  SessionState state(kManyRanks);
  for (int time = 0; time < 4; ++time) {
    for (uint32_t rank = 1; rank < kManyRanks; ++rank) {
      for (const bool ready : {false, true}) {
        proto::ServerMessage message;
        message.mutable_peer()->set_rank(rank);
        message.mutable_peer()->set_qpn(rank + 100);
        message.mutable_peer()->set_ready(ready);
        ASSERT_FALSE(state.OnMessage(message))
            << state.failure()->message() << " rank " << rank << ", time " << time;
      }
    }
  }
  EXPECT_EQ(state.TakePeers().size(), 2 * (kManyRanks - 1)) << "each thing once";
}

TEST(SessionStateTest, AGroupsScaleIsToldOnEitherPath) {
  for (const auto path : {proto::PATH_NETWORK, proto::PATH_HOSTS}) {
    proto::ServerMessage message;
    message.mutable_joined()->set_path(path);
    message.mutable_joined()->set_quantise(1e6f);
    SessionState state;
    EXPECT_FALSE(state.OnMessage(message));
    EXPECT_EQ(state.joined()->abilities.scale, 1e6f);
    message.mutable_joined()->set_quantise(-1);
    SessionState other;
    EXPECT_TRUE(other.OnMessage(message));
    EXPECT_EQ(other.failure()->code(), ErrorCode::kUnsupported);
    EXPECT_THAT(other.failure()->message(), testing::HasSubstr("quantise -1"));
  }
}

TEST(SessionStateTest, PrioritiesAreSaidToSwitchesThatTakeThem) {
  for (const bool takes : {true, false}) {
    for (const auto path : {proto::PATH_NETWORK, proto::PATH_HOSTS}) {
      proto::ServerMessage message;
      message.mutable_joined()->set_path(path);
      message.mutable_joined()->set_priorities(takes);
      SessionState state;
      EXPECT_FALSE(state.OnMessage(message));
      EXPECT_EQ(state.joined()->abilities.priorities, takes && path == proto::PATH_NETWORK);
    }
  }
}

TEST(SessionStateTest, BlocksAreToldOnEitherPath) {
  for (const auto path : {proto::PATH_NETWORK, proto::PATH_HOSTS}) {
    proto::ServerMessage message;
    message.mutable_joined()->set_path(path);
    message.mutable_joined()->set_quantise_int8(true);
    message.mutable_joined()->set_levels(2);
    SessionState state;
    EXPECT_FALSE(state.OnMessage(message));
    EXPECT_TRUE(state.joined()->abilities.blocks);
    EXPECT_EQ(state.joined()->abilities.levels, 2u);
    message.mutable_joined()->set_quantise(1);
    SessionState other;
    EXPECT_TRUE(other.OnMessage(message));
    EXPECT_THAT(other.failure()->message(), testing::HasSubstr("both a scale and int8"));
  }
}

// Of two ranks.
proto::ServerMessage JoinedWithMulticast() {
  proto::ServerMessage message;
  proto::MulticastGroup& group = *message.mutable_joined()->mutable_multicast();
  group.set_address(0xefc00001);
  group.set_qkey(0x12345678);
  group.set_super_frames(true);
  group.set_receives(512);
  for (const uint32_t rank : {0u, 1u}) {
    group.add_ends()->set_ip(0x0a000001 + rank);
    group.mutable_ends(static_cast<int>(rank))->set_qpn(17 + rank);
  }
  return message;
}

TEST(SessionStateTest, TheMulticastGroupIsAsTheManagerSays) {
  SessionState state(2);
  EXPECT_FALSE(state.OnMessage(JoinedWithMulticast()));
  ASSERT_TRUE(state.joined());
  EXPECT_EQ(state.joined()->multicast,
            (MulticastInfo{.address = Ipv4{0xefc00001},
                           .qkey = 0x12345678,
                           .ends = {{.ip = Ipv4{0x0a000001}, .qpn = 17}, {.ip = Ipv4{0x0a000002}, .qpn = 18}},
                           .super_frames = true,
                           .receives = 512}));
  EXPECT_EQ(state.joined()->multicast_reason, "");
}

// It does not know which ranks send by the rules of this library.
TEST(SessionStateTest, AnEarlierManagersMulticastGroupIsNone) {
  proto::ServerMessage message = JoinedWithMulticast();
  message.mutable_joined()->mutable_multicast()->clear_receives();
  SessionState state(2);
  EXPECT_FALSE(state.OnMessage(message));
  ASSERT_TRUE(state.joined());
  EXPECT_FALSE(state.joined()->multicast);
}

TEST(SessionStateTest, WithoutAMulticastGroupThereIsAReason) {
  for (const auto& [told, is] : {std::pair(proto::ERROR_NO_RESOURCE, ErrorCode::kNoResource),
                                 std::pair(proto::ERROR_MTU, ErrorCode::kMtu),
                                 std::pair(proto::ERROR_UNSUPPORTED, ErrorCode::kUnsupported)}) {
    proto::ServerMessage message;
    message.mutable_joined()->set_multicast_reason("rank 1 does not ask for multicast");
    message.mutable_joined()->set_multicast_error(told);
    SessionState state(2);
    EXPECT_FALSE(state.OnMessage(message));
    EXPECT_FALSE(state.joined()->multicast);
    EXPECT_EQ(state.joined()->multicast_reason, "rank 1 does not ask for multicast");
    EXPECT_EQ(state.joined()->multicast_error, is);
  }
}

TEST(SessionStateTest, AMulticastGroupThatIsNoneIsAnErrorThatNamesTheField) {
  const auto refused = [](void (*spoil)(proto::MulticastGroup*), const std::string& field) {
    proto::ServerMessage message = JoinedWithMulticast();
    spoil(message.mutable_joined()->mutable_multicast());
    SessionState state(2);
    EXPECT_TRUE(state.OnMessage(message)) << field;
    EXPECT_FALSE(state.joined()) << field;
    ASSERT_TRUE(state.failure()) << field;
    EXPECT_EQ(state.failure()->code(), ErrorCode::kInternal);
    EXPECT_THAT(state.failure()->message(), testing::HasSubstr("multicast." + field));
  };
  refused([](auto* group) { group->set_address(0x0a000001); }, "address 10.0.0.1");
  refused([](auto* group) { group->set_qkey(0x80000000); }, "qkey 0x80000000");
  refused([](auto* group) { group->add_ends()->set_qpn(1); }, "ends of 3 ranks, but the group has 2");
  refused([](auto* group) { group->mutable_ends()->RemoveLast(); }, "ends of 1 ranks");
  refused([](auto* group) { group->mutable_ends(1)->set_qpn(1u << 24); }, "ends[1].qpn 16777216");
  refused([](auto* group) { group->mutable_ends(0)->set_qpn(0); }, "ends[0].qpn 0");
}

TEST(SessionStateTest, AFailureThatIsNotFiniteKeepsItsCode) {
  proto::ServerMessage message;
  message.mutable_failure()->set_code(proto::ERROR_NOT_FINITE);
  SessionState state;
  EXPECT_TRUE(state.OnMessage(message));
  EXPECT_EQ(state.failure()->code(), ErrorCode::kNotFinite);
}

TEST(SessionStateTest, AnAnswerThatFitsNoQueuePairIsRefused) {
  proto::ServerMessage message;
  message.mutable_joined()->set_qp_timeout(256);  // as a byte it would be 0, without end
  SessionState state;
  EXPECT_TRUE(state.OnMessage(message));
  EXPECT_FALSE(state.joined());
  EXPECT_EQ(state.failure()->code(), ErrorCode::kUnsupported);
  EXPECT_THAT(state.failure()->message(), testing::HasSubstr("qp_timeout 256"));
}

}  // namespace
}  // namespace epic::internal
