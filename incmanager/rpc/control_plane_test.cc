#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>

#include "incmanager/rpc/control_plane_testing.h"

namespace epic::manager {
namespace {

using testing::ControlPlane;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::Rank;

TEST(ControlPlane, RunsAGroupAndLeavesNothingBehind) {
  ControlPlane plane(testing::Tree32());
  for (const auto& [name, engine] : plane.engines) {
    const proto::ForwardingTable table = engine->Forwarding();
    EXPECT_EQ(table.entries_size(), 4 + 2) << "all hosts and all other switches";
    EXPECT_GE(table.flood_ports_size(), 2);
    std::set<std::string> guarded;
    for (const proto::ForwardingEntry& entry : table.entries()) {
      if (entry.source_guard()) guarded.insert(entry.port());
    }
    EXPECT_EQ(guarded, name == "root" ? std::set<std::string>{} : (std::set<std::string>{"swp1", "swp2"}))
        << "ports of hosts only";
  }
  const std::vector<proto::Joined> joined = plane.Run(4);
  EXPECT_EQ(plane.Contexts(), 3u);
  const std::vector<proto::GroupConfig> leaf2 = plane.engines["leaf2"]->Groups();
  ASSERT_EQ(leaf2.size(), 1u);
  ASSERT_EQ(leaf2[0].children_size(), 2);
  EXPECT_EQ(leaf2[0].children(1).local_qpn(), joined[3].remote_qpn());
  EXPECT_EQ(leaf2[0].children(1).in_psn(), joined[3].send_psn());
  EXPECT_EQ(leaf2[0].children(1).remote_qpn(), 0x11u + 3);
  EXPECT_EQ(joined[0].qp_timeout(), 18u);
  EXPECT_EQ(joined[0].path_mtu(), 4096u);
  const proto::GroupState shown = plane.Show("g");
  EXPECT_EQ(shown.state(), "running");
  EXPECT_EQ(shown.tree_size(), 3);
  EXPECT_EQ(shown.tree(0).arena_bytes(), uint64_t{shown.slots()} * 4096);
  EXPECT_THAT(shown.window_reason(), HasSubstr("2*BDP"));

  for (const auto& rank : plane.ranks) rank->Leave();
  for (const auto& rank : plane.ranks) EXPECT_TRUE(rank->Next().has_left());
  EXPECT_EQ(plane.Contexts(), 0u);
  EXPECT_EQ(plane.Show("g").state(), "none");
}

TEST(ControlPlane, EnginesHaveThePortsOfAMulticastGroupWhileItRuns) {
  ControlPlane plane(testing::Tree32());
  for (uint32_t rank = 0; rank < 2; ++rank) {
    proto::Join join = plane.Request(rank, 2);
    join.set_path(proto::PATH_HOSTS);
    join.set_datagram_qpn(0x31 + rank);
    join.set_datagram_receives(1024);
    join.set_datagram_reach(proto::DATAGRAM_REACH_REMOTE);
    plane.Join(join);
  }
  const proto::Joined joined = plane.ranks[0]->Next().joined();
  ASSERT_TRUE(joined.has_multicast()) << joined.multicast_reason();
  EXPECT_EQ(plane.ranks[1]->Next().joined().multicast().address(), joined.multicast().address());
  EXPECT_EQ(plane.Show("g").multicast_address(), joined.multicast().address());
  const auto groups = [&plane](const std::string& name) {
    return plane.engines[name]->Forwarding().groups();
  };
  ASSERT_TRUE(Eventually([&groups] { return groups("leaf1").size() == 1; }));
  EXPECT_THAT(groups("leaf1")[0].ports(), ::testing::ElementsAre("swp1", "swp2"));
  EXPECT_EQ(groups("root").size() + groups("leaf2").size(), 0) << "no member there";
  for (const auto& rank : plane.ranks) rank->Leave();
  EXPECT_TRUE(Eventually([&groups] { return groups("leaf1").empty(); }));
}

TEST(ControlPlane, ShowsWhichWindowsRanksUse) {
  ControlPlane plane(testing::Star(2));
  const std::vector<proto::Joined> joined = plane.Run(2);
  const proto::GroupState shown = plane.Show("g");
  EXPECT_GE(joined[0].start_messages(), 1u);
  EXPECT_EQ(joined[0].start_messages(), shown.start_messages());
  EXPECT_EQ(joined[0].window_messages(), shown.window_messages());
  EXPECT_TRUE(shown.windows().empty()) << "no trials yet";
  proto::WindowInUse window;
  window.set_messages(1);
  window.set_ns_per_packet(310);
  window.set_before_messages(joined[1].start_messages());
  window.set_before_ns_per_packet(402);
  plane.ranks[1]->Tell(window);
  EXPECT_TRUE(Eventually([&plane] { return plane.Show("g").windows_size() == 1; }));
  EXPECT_EQ(plane.Show("g").windows().at(1).SerializeAsString(), window.SerializeAsString());
}

TEST(ControlPlane, TwoGroupsDoNotDisturbEachOther) {
  ControlPlane plane(testing::Star(4));
  plane.Run(4, "a");
  plane.Run(2, "b");
  EXPECT_EQ(plane.Contexts(), 2u);
  plane.ranks[0]->Abort("enough");
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(plane.ranks[i]->Next().failure().code(), proto::ERROR_ABORTED);
  EXPECT_TRUE(Eventually([&plane] { return plane.Contexts() == 1; }));
  EXPECT_EQ(plane.Show("b").state(), "running");
  plane.ranks[4]->Leave();
  plane.ranks[5]->Leave();
  EXPECT_TRUE(plane.ranks[4]->Next().has_left());
}

TEST(ControlPlane, ARankThatIsGoneBetweenLeaveAndLeftIsLost) {
  ControlPlane plane(testing::Star(4));
  plane.Run(4, "a");
  plane.ranks[2]->Leave();
  EXPECT_TRUE(Eventually([&plane] { return plane.Show("a").state() == "leaving"; }));
  plane.ranks[2]->Kill();
  for (const size_t i : {0, 1, 3}) {
    const proto::Failure failure = plane.ranks[i]->Next().failure();
    EXPECT_EQ(failure.code(), proto::ERROR_RANK_LOST) << failure.message();
    EXPECT_EQ(failure.rank(), 2);
  }
}

TEST(ControlPlane, RefusedJoinsAreTyped) {
  ControlPlane plane(testing::Star(4));
  plane.Join(plane.Request(0, 4));
  EXPECT_TRUE(Eventually([&plane] { return plane.Show("g").joined_ranks_size() == 1; }));
  const auto refusal = [&plane](const proto::Join& join) { return plane.Join(join).Next().failure().code(); };
  EXPECT_EQ(refusal(plane.Request(0, 4)), proto::ERROR_DUPLICATE_RANK);
  EXPECT_EQ(refusal(plane.Request(1, 3)), proto::ERROR_SIZE_MISMATCH);
  EXPECT_EQ(refusal(plane.Request(0, 1, "alone")), proto::ERROR_INVALID_ARGUMENT);
  proto::Join stranger = plane.Request(1, 4);
  stranger.set_ip(0x0a000001);
  EXPECT_EQ(refusal(stranger), proto::ERROR_NOT_FOUND);
  EXPECT_EQ(plane.Show("g").state(), "joining");
}

TEST(ControlPlane, JoinTimesOutAndSaysWhoIsMissing) {
  ControlPlane plane(testing::Star(4));
  proto::Join join = plane.Request(1, 3);
  join.set_join_timeout_ms(1500);
  Rank& rank = plane.Join(join);
  const proto::Failure failure = rank.Next().failure();
  EXPECT_EQ(failure.code(), proto::ERROR_JOIN_TIMEOUT);
  EXPECT_THAT(failure.message(), HasSubstr("0, 2"));
  EXPECT_THAT(rank.missing, ::testing::ElementsAre(0, 2)) << "said once a second while it waited";
  EXPECT_FALSE(rank.Next().has_failure()) << "the session has ended";
}

TEST(ControlPlane, LostRankFailsTheOthersAtOnce) {
  ControlPlane plane(testing::Tree32());
  plane.Run(4);
  plane.ranks[2]->Kill();
  plane.ranks.erase(plane.ranks.begin() + 2);
  for (const auto& rank : plane.ranks) {
    const proto::Failure failure = rank->Next().failure();
    EXPECT_EQ(failure.code(), proto::ERROR_RANK_LOST);
    EXPECT_EQ(failure.rank(), 2);
  }
  EXPECT_TRUE(Eventually([&plane] { return plane.Contexts() == 0; }));
  for (const auto& [name, engine] : plane.engines) EXPECT_EQ(engine->fails(), 1);
}

TEST(ControlPlane, ArenaTooSmallNamesTheSwitchAndUndoesTheRest) {
  ControlPlane plane(testing::Tree32());
  plane.engines["leaf2"]->SetArenaLeft(4096);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    proto::Join join = plane.Request(rank, 4);
    join.set_path(proto::PATH_NETWORK);
    plane.Join(join);
  }
  for (const auto& rank : plane.ranks) {
    const proto::Failure failure = rank->Next().failure();
    EXPECT_EQ(failure.code(), proto::ERROR_NO_RESOURCE);
    EXPECT_EQ(failure.switch_name(), "leaf2");
    EXPECT_THAT(failure.message(), HasSubstr("bytes needed, 4096 left"));
  }
  EXPECT_TRUE(Eventually([&plane] { return plane.Contexts() == 0; }));
}

// The words are none that anybody could read: its agent hands the fields on.
TEST(ControlPlane, WhatASwitchLacksIsInTheFieldsOfItsRefusal) {
  ControlPlane plane(testing::Tree32());
  plane.engines["leaf2"]->SetArenaLeft(4096);
  plane.engines["leaf2"]->TellNumbers();
  const std::vector<proto::Joined> joined = plane.Run(4);
  EXPECT_EQ(joined[3].path(), proto::PATH_HOSTS);
  EXPECT_THAT(joined[3].path_reason(), HasSubstr("leaf2 has 0.0 of 4.0 MiB free, "));
}

// The same, where nobody has asked for the switches: what they hold is given back, and the ranks run.
TEST(ControlPlane, ArenaTooSmallSendsTheGroupByTheHosts) {
  ControlPlane plane(testing::Tree32());
  plane.engines["leaf2"]->SetArenaLeft(4096);
  const std::vector<proto::Joined> joined = plane.Run(4);
  EXPECT_EQ(joined[3].path(), proto::PATH_HOSTS);
  EXPECT_THAT(joined[3].path_reason(), HasSubstr("leaf2: arena: "));
  EXPECT_TRUE(Eventually([&plane] { return plane.Contexts() == 0; }));
  EXPECT_EQ(plane.Show("g").state(), "running");
  proto::PeerEnd end;
  end.set_rank(3);
  end.set_qpn(0x55);
  plane.ranks[1]->Tell(end);
  const proto::PeerEnd told = plane.ranks[3]->Next().peer();
  EXPECT_EQ(told.rank(), 1u);
  EXPECT_EQ(told.qpn(), 0x55u);
  for (const auto& rank : plane.ranks) rank->Leave();
  for (const auto& rank : plane.ranks) EXPECT_TRUE(rank->Next().has_left());
  EXPECT_EQ(plane.Show("g").state(), "none");
}

TEST(ControlPlane, EngineThatRestartsFailsItsGroups) {
  ControlPlane plane(testing::Tree32());
  plane.Run(4);
  plane.engines["leaf1"].reset();
  for (const auto& rank : plane.ranks) {
    const proto::Failure failure = rank->Next().failure();
    EXPECT_EQ(failure.code(), proto::ERROR_SWITCH_LOST);
    EXPECT_EQ(failure.switch_name(), "leaf1");
  }
  EXPECT_TRUE(Eventually([&plane] { return plane.StateOf("leaf1") == "engine down"; }));
  plane.StartEngine("leaf1", 2);
  EXPECT_TRUE(Eventually([&plane] { return plane.StateOf("leaf1") == "up"; }));
  EXPECT_EQ(plane.engines["leaf1"]->Forwarding().entries_size(), 6) << "pushed to the new engine";
  plane.Run(4, "again");
}

TEST(ControlPlane, LostAgentDisturbsNobodyButTakesNoNewGroups) {
  ControlPlane plane(testing::Tree32());
  plane.Run(4);
  plane.agents["leaf2"].reset();
  EXPECT_TRUE(Eventually([&plane] { return plane.StateOf("leaf2") == "agent lost"; }));
  EXPECT_EQ(plane.Show("g").state(), "running");
  const size_t first = plane.ranks.size();
  for (uint32_t rank = 0; rank < 3; ++rank) {
    proto::Join join = plane.Request(rank, 3, "new");
    join.set_path(proto::PATH_NETWORK);
    plane.Join(join);
  }
  const proto::Failure failure = plane.ranks[first]->Next().failure();
  EXPECT_EQ(failure.code(), proto::ERROR_NO_TREE);
  EXPECT_THAT(failure.message(), HasSubstr("leaf2, which cannot take part: its agent is lost"));

  // The group ends while the agent is away; its context goes when the agent comes back.
  for (size_t i = 0; i < 4; ++i) plane.ranks[i]->Leave();
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(plane.ranks[i]->Next().has_left());
  EXPECT_EQ(plane.engines["leaf2"]->Groups().size(), 1u);
  plane.StartAgent("leaf2");
  EXPECT_TRUE(Eventually([&plane] { return plane.Contexts() == 0 && plane.StateOf("leaf2") == "up"; }));
}

TEST(ControlPlane, AgentThatRestartsKeepsRunningGroups) {
  ControlPlane plane(testing::Star(2));
  plane.Run(2);
  plane.agents["s1"].reset();
  plane.StartAgent("s1");
  EXPECT_TRUE(Eventually([&plane] { return plane.AgentOf("s1") == plane.agents["s1"]->address(); }));
  EXPECT_EQ(plane.Contexts(), 1u);
  for (const auto& rank : plane.ranks) rank->Leave();
  for (const auto& rank : plane.ranks) EXPECT_TRUE(rank->Next().has_left());
  EXPECT_EQ(plane.Contexts(), 0u);
}

TEST(ControlPlane, RemovalThatFailsIsMadeUpFor) {
  ControlPlane plane(testing::Star(2));
  plane.Run(2);
  plane.engines["s1"]->RefuseOneRemoval();
  for (const auto& rank : plane.ranks) rank->Leave();
  for (const auto& rank : plane.ranks) EXPECT_TRUE(rank->Next().has_left());
  EXPECT_TRUE(Eventually([&plane] { return plane.Contexts() == 0; })) << "by the agent, within a heartbeat";
}

TEST(ControlPlane, ManagerThatRestartsForgetsGroupsAndCleansUp) {
  ControlPlane plane(testing::Star(2));
  plane.Run(2);
  const std::string address = plane.address;
  plane.StartManager(address);
  for (const auto& rank : plane.ranks)
    EXPECT_EQ(rank->Next().kind_case(), proto::ServerMessage::KIND_NOT_SET);
  EXPECT_TRUE(Eventually([&plane] { return plane.StateOf("s1") == "up" && plane.Contexts() == 0; }));
  plane.Run(2);
}

TEST(ControlPlane, DestroyUnderRunningRanksNeedsForce) {
  ControlPlane plane(testing::Star(2));
  plane.Run(2);
  EXPECT_EQ(plane.Destroy("g", false).error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_EQ(plane.Contexts(), 1u);
  EXPECT_TRUE(plane.Destroy("g", true).ok());
  EXPECT_EQ(plane.Contexts(), 0u) << "nothing is left when the command returns";
  for (const auto& rank : plane.ranks) EXPECT_EQ(rank->Next().failure().code(), proto::ERROR_ABORTED);
  EXPECT_EQ(plane.Destroy("g", true).error_code(), grpc::NOT_FOUND);
}

TEST(ControlPlane, TablesComeFromTheEngine) {
  ControlPlane plane(testing::Star(2));
  plane.Run(2);
  grpc::ClientContext context;
  proto::TablesRequest request;
  request.set_switch_name("s1");
  proto::DumpReply reply;
  EXPECT_TRUE(plane.stub->Tables(&context, request, &reply).ok());
  EXPECT_EQ(reply.info().name(), "s1");
  EXPECT_EQ(reply.groups_size(), 1);
  grpc::ClientContext unknown;
  request.set_switch_name("s2");
  EXPECT_EQ(plane.stub->Tables(&unknown, request, &reply).error_code(), grpc::NOT_FOUND);
}

TEST(ControlPlane, WhereASwitchDoesNotAnswerTheOthersTellWhomTheGroupWaitsFor) {
  ControlPlane plane(testing::Tree32());
  plane.Run(4);
  for (const auto& [name, engine] : plane.engines) engine->SetCalls({{0, 18}, {1, 17}, {2, 17}, {3, 17}});
  const std::string words = "waits for ranks 1 (h1), 2 (h2), 3 (h3); rank 0 has called";
  EXPECT_EQ(plane.Show("g").wait().words(), "call 17: " + words);
  plane.engines["root"]->KeepDumps();
  EXPECT_EQ(plane.Show("g").wait().words(),
            "call 17: " + words +
                "; of root there is no answer, and of the ranks there nothing is "
                "known");
  for (const auto& [name, engine] : plane.engines) engine->KeepDumps();
  const proto::CallWait nothing = plane.Show("g").wait();
  EXPECT_THAT(nothing.words(),
              HasSubstr("there is no answer, so that nothing is known of whom it waits for"));
  EXPECT_EQ(nothing.silent_size(), 3);
  EXPECT_EQ(nothing.call(), -1);
}

// Whom the switches name is asked what it does; who does not answer is named as such.
TEST(ControlPlane, RanksAreAskedWhatTheyDo) {
  ControlPlane plane(testing::Tree32());
  for (uint32_t rank = 0; rank < 4; ++rank) {
    proto::Join join = plane.Request(rank, 4);
    join.set_tells_calls(rank != 3);
    plane.Join(join);
  }
  for (const auto& rank : plane.ranks) EXPECT_TRUE(rank->Next().has_joined());
  for (const auto& [name, engine] : plane.engines) engine->SetCalls({{0, 18}, {1, 17}, {2, 17}, {3, 17}});
  const std::string whom = "call 17: waits for ranks 1 (h1), 2 (h2), 3 (h3); rank 0 has called";
  EXPECT_EQ(plane.Show("g").wait().words(), whom) << "who does not ask for it";
  std::thread answering([&plane] {
    proto::CallsMade calls;
    calls.set_leaves(true);
    while (plane.ranks[1]->Next().has_calls()) plane.ranks[1]->Tell(calls);
  });
  // Rank 2 answers nothing, of rank 3 nobody asks. Where the machine is busy rank 1 is late, too.
  std::string words;
  EXPECT_TRUE(Eventually([&] {
    words = plane.Show("g", true).wait().words();
    return words == whom + "; rank 1 has called Destroy; rank 2 does not answer: stopped, or without a processor";
  })) << words;
  EXPECT_TRUE(plane.Destroy("g", true).ok());
  answering.join();
  EXPECT_TRUE(plane.ranks[2]->Next().has_calls());
  EXPECT_TRUE(plane.ranks[2]->Next().has_failure()) << "it has one question until it answers";
}

TEST(ControlPlane, SecondManagerOnTheSameAddressIsRefused) {
  ControlPlane plane(testing::Star(2));
  const auto second = ManagerServer::Start(plane.topology, {}, plane.address);
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
}

TEST(ControlPlane, ASwitchThatNeitherAgentNorNeighbourHearsIsLost) {
  ControlPlane plane(testing::Tree32());
  plane.Run(4);
  EXPECT_TRUE(Eventually([&plane] { return plane.engines["root"]->probed() == 2; })) << "both leaves";
  // Its agent alone: the group runs.
  plane.agents.erase("leaf1");
  EXPECT_TRUE(Eventually([&plane] { return plane.StateOf("leaf1") == "agent lost"; }));
  EXPECT_EQ(plane.Show("g").state(), "running");
  plane.engines["root"]->SetDeaf();
  for (const auto& rank : plane.ranks) {
    const proto::Failure failure = rank->Next().failure();
    EXPECT_EQ(failure.code(), proto::ERROR_SWITCH_LOST);
    EXPECT_EQ(failure.switch_name(), "leaf1");
    EXPECT_THAT(failure.message(), HasSubstr("root has no echo from it"));
  }
  EXPECT_EQ(plane.StateOf("leaf1"), "lost");
  plane.StartAgent("leaf1");
  EXPECT_TRUE(Eventually([&plane] { return plane.StateOf("leaf1") == "up"; }));
}

}  // namespace
}  // namespace epic::manager
