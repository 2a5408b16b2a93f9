#include "incmanager/cli/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace epic::manager {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(RenderEvents, IsALineForEachWithItsTime) {
  proto::EventsReply reply;
  for (const uint32_t times : {1u, 3u}) {
    proto::Event& event = *reply.add_events();
    event.set_ms_ago(5000 * times);
    event.set_times(times);
    event.set_about("group g");
    event.set_text("removed");
  }
  // The time zone is the machine's.
  const std::string text = RenderEvents(reply, 1'700'000'000'000);
  EXPECT_THAT(text, ::testing::MatchesRegex("2023-11-1[45] ..:.[0-9]:15  group g: removed\n"
                                            "2023-11-1[45] ..:.[0-9]:05  group g: removed \\(3 times\\)\n"));
  EXPECT_EQ(RenderEvents({}, 0), "");
}

TEST(RenderPorts, HasALineForEachNeighbour) {
  proto::EngineInfo info;
  proto::PortInfo& port = *info.add_ports();
  port.set_name("swp1");
  port.set_up(true);
  port.set_mtu(4200);
  port.set_rate_mbps(10000);
  proto::Neighbour& leaf = *port.add_neighbours();
  leaf.set_kind(proto::NEIGHBOUR_SWITCH);
  leaf.set_name("leaf1");
  leaf.set_port("swp3");
  leaf.set_ip(0x0a00ff01);
  leaf.set_mac(std::string("\x02\xe1\x0a\x00\xff\x01", 6));
  leaf.set_version("0.1.0");
  leaf.set_heard_by(proto::HEARD_BY_LLDP);
  proto::Neighbour& host = *port.add_neighbours();
  host.set_kind(proto::NEIGHBOUR_HOST);
  host.set_ip(0x0a000001);
  host.set_mac(std::string("\x02\0\0\0\0\x01", 6));
  host.set_heard_by(proto::HEARD_BY_ARP);
  info.add_ports()->set_name("swp2");
  const std::string text = RenderPorts(info);
  EXPECT_THAT(text, HasSubstr("switch leaf1 swp3 10.0.255.1 02:e1:0a:00:ff:01 version 0.1.0 (LLDP)\n"));
  EXPECT_THAT(text, HasSubstr("  host 10.0.0.1 02:00:00:00:00:01 (ARP)\n"));
  EXPECT_THAT(text, HasSubstr("swp1  up     4200  10000 "));
  EXPECT_THAT(text, ::testing::MatchesRegex("(.*\n)*  swp2  down   0     -  .* -\n"));
}

TEST(RenderGroup, ShowsAHostWithoutRanks) {
  proto::GroupState group;
  proto::TreeNode& root = *group.add_tree();
  root.set_switch_name("leaf1");
  root.mutable_config()->add_children()->set_is_host(true);
  EXPECT_THAT(RenderGroup(group), HasSubstr("rank 0"));
}

TEST(RenderGroup, SaysWhichPathAndWhy) {
  proto::GroupState group;
  group.set_path(proto::PATH_AUTO);
  EXPECT_THAT(RenderGroup(group), HasSubstr("path        auto\n"));
  group.set_path_taken(proto::PATH_NETWORK);
  EXPECT_THAT(
      RenderGroup(group),
      HasSubstr("path        network; calls that its switches lack go by the hosts (auto was asked for)\n"));
  group.set_path_reason("h0 does not reach h2: no links join them");
  EXPECT_THAT(RenderGroup(group),
              HasSubstr("path        network; calls that its switches lack are refused: h0 does "
                        "not reach h2: no links join them (auto was asked for)\n"));
  group.set_path_taken(proto::PATH_HOSTS);
  group.set_path_reason("leaf3 has 0.2 of 1.0 MiB free, 0.5 needed");
  const std::string by_hosts = RenderGroup(group);
  EXPECT_THAT(
      by_hosts,
      HasSubstr("path        hosts: leaf3 has 0.2 of 1.0 MiB free, 0.5 needed (auto was asked for)\n"));
  EXPECT_THAT(by_hosts, Not(HasSubstr("window W")));
  EXPECT_THAT(by_hosts, Not(HasSubstr("slots N")));
  EXPECT_THAT(by_hosts, HasSubstr("watched     no"));
  proto::ListGroupsReply list;
  *list.add_groups() = group;
  EXPECT_THAT(RenderGroups(list), HasSubstr("hosts: leaf3 has 0.2 of 1.0 MiB free"));
}

// What switches would have of a group is nothing that one by the hosts has, nor will have.
TEST(RenderGroup, AGroupByTheHostsHasNothingOfSwitches) {
  proto::GroupState group;
  group.set_name("g");
  group.set_state("running");
  group.set_world_size(4);
  group.set_mode(proto::MODE_TRANSLATED);
  group.set_path(proto::PATH_HOSTS);
  for (const auto taken : {proto::PATH_UNSPECIFIED, proto::PATH_HOSTS}) {
    group.set_path_taken(taken);
    const std::string shown = RenderGroup(group);
    for (const char* word : {"mode  ", "order  ", "message M", "window W", "slots N"})
      EXPECT_THAT(shown, Not(HasSubstr(word)));
    EXPECT_EQ(shown.find("watched") != std::string::npos, taken == proto::PATH_HOSTS);
    group.set_path_mtu(taken == proto::PATH_HOSTS ? 4096 : 0);
    proto::ListGroupsReply list;
    *list.add_groups() = group;
    EXPECT_THAT(RenderGroups(list),
                ::testing::ContainsRegex("running  0 of 4  -     [0-9]+ +-  -  -         hosts"));
  }
}

TEST(RenderGroup, SaysWhetherAGroupIsWatched) {
  proto::GroupState group;
  EXPECT_THAT(RenderGroup(group), Not(HasSubstr("watched")));
  group.add_tree();
  EXPECT_THAT(RenderGroup(group), HasSubstr("watched     no"));
  group.set_watched(true);
  EXPECT_THAT(RenderGroup(group), HasSubstr("watched     yes"));
  group.mutable_failure();
  EXPECT_THAT(RenderGroup(group), Not(HasSubstr("watched")));
}

TEST(RenderGroup, SaysWhichWindowsRanksUseAndWhy) {
  proto::GroupState group;
  EXPECT_THAT(RenderGroup(group), HasSubstr("window W    chosen when all have joined\n"));
  EXPECT_THAT(RenderGroup(group), Not(HasSubstr("in use")));
  group.set_world_size(4);
  group.set_slots(128);
  group.set_window_messages(8);
  group.set_window_reason("as requested");
  EXPECT_THAT(RenderGroup(group), HasSubstr("window W    8 messages (as requested)\n"));
  EXPECT_THAT(RenderGroup(group), HasSubstr("in use      8 messages: ranks try no others\n"));
  group.set_start_messages(7);
  group.set_window_reason("why");
  EXPECT_THAT(RenderGroup(group), HasSubstr("window W    8 messages at most, 7 to begin with (why)\n"));
  EXPECT_THAT(RenderGroup(group), HasSubstr("in use      7 messages: no trials yet\n"));

  const auto tell = [&group](uint32_t rank, uint32_t messages, uint32_t ns, uint32_t before,
                             uint32_t ns_before) {
    proto::WindowInUse& window = (*group.mutable_windows())[rank];
    window.set_messages(messages);
    window.set_ns_per_packet(ns);
    window.set_before_messages(before);
    window.set_before_ns_per_packet(ns_before);
  };
  tell(2, 3, 310, 7, 402);
  EXPECT_THAT(RenderGroup(group), HasSubstr("in use      3 to 7 messages; 1 of 4 ranks has tried others\n"
                                            "            3 at rank 2: 310 ns per packet, 402 with 7\n"));
  tell(0, 7, 390, 7, 390);
  tell(1, 8, 290, 7, 330);
  tell(3, 3, 300, 6, 400);
  EXPECT_THAT(RenderGroup(group), HasSubstr("in use      3 to 8 messages; 4 of 4 ranks have tried others\n"
                                            "            3 at rank 2: 310 ns per packet, 402 with 7\n"
                                            "            8 at rank 1: 290 ns per packet, 330 with 7\n"));
  for (uint32_t rank = 0; rank < 4; ++rank) tell(rank, 7, 390, 7, 390);
  EXPECT_THAT(RenderGroup(group), HasSubstr("in use      7 messages; 4 of 4 ranks have tried others\n"
                                            "            7 at rank 0: 390 ns per packet\n"));
  group.mutable_failure();
  EXPECT_THAT(RenderGroup(group), Not(HasSubstr("in use")));
}

TEST(RenderGroup, SumsWhatSwitchesHadToSendAgainOrRefuse) {
  proto::GroupState group;
  for (const uint64_t repeats : {2, 3}) {
    proto::Counter& counter = *group.add_tree()->add_trouble();
    counter.set_name("repeats");
    counter.set_value(repeats);
  }
  proto::Counter& counter = *group.mutable_tree(0)->add_trouble();
  counter.set_name("drop_wrong_port");
  counter.set_value(4);
  EXPECT_THAT(RenderGroup(group), HasSubstr("repeated    repeats 5\nrefused     drop_wrong_port 4\n"));
}

TEST(RenderSwitches, HasWhatContradictsTheFile) {
  proto::ListSwitchesReply reply;
  reply.add_switches()->set_name("leaf1");
  reply.add_warnings("t.yaml:9: links h1 to leaf1:swp1, but it is heard at leaf1:swp2");
  EXPECT_THAT(RenderSwitches(reply),
              HasSubstr("\nwarning: t.yaml:9: links h1 to leaf1:swp1, but it is heard at leaf1:swp2\n"));
}

TEST(RenderGroup, HasTheRateOfEachEdge) {
  proto::GroupState group;
  proto::TreeNode& root = *group.add_tree();
  root.set_switch_name("leaf1");
  root.set_arena_bytes(16384);
  for (const char* port : {"swp1", "swp2"}) {
    proto::EndpointConfig& child = *root.mutable_config()->add_children();
    child.set_is_host(true);
    child.set_port(port);
  }
  EXPECT_THAT(RenderGroup(group), Not(HasSubstr("Gbit/s"))) << "an earlier manager's";
  root.add_child_gbps(2.5);
  root.add_child_gbps(100);
  const std::string text = RenderGroup(group);
  EXPECT_THAT(text, HasSubstr("|-- [swp1 QPN 0x000000, PSN up 0 down 0, 2.5 Gbit/s] rank 0"));
  EXPECT_THAT(text, HasSubstr("`-- [swp2 QPN 0x000000, PSN up 0 down 0, 100 Gbit/s] rank 0"));
  EXPECT_THAT(text, HasSubstr("leaf1  mode -  arena 16384 bytes"));
}

TEST(RenderGroup, HasTheAddressesThatSwitchesBear) {
  proto::GroupState group;
  proto::TreeNode& root = *group.add_tree();
  root.set_switch_name("leaf1");
  for (const uint32_t borne : {0x0a0a0002u, 0u}) {
    proto::EndpointConfig& child = *root.mutable_config()->add_children();
    child.set_is_host(true);
    child.set_remote_ip(0x0a0a0001);
    child.set_borne_ip(borne);
  }
  const std::string text = RenderGroup(group);
  EXPECT_THAT(text, HasSubstr("10.10.0.1 QPN 0x000000, as 10.10.0.2\n"));
  EXPECT_THAT(text, HasSubstr("10.10.0.1 QPN 0x000000\n"));
}

// A switch without a name is its own parent.
TEST(RenderGroup, EndsWhereTheTreeIsNone) {
  proto::GroupState group;
  proto::TreeNode& loop = *group.add_tree();
  loop.mutable_config()->set_name("loop");
  loop.mutable_config()->add_children();
  loop.mutable_config()->mutable_parent();
  const std::string text = RenderGroup(group);
  EXPECT_LT(text.size(), 1000u) << text;
}

}  // namespace
}  // namespace epic::manager
