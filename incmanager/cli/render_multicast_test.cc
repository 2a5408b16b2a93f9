#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "incmanager/cli/render.h"

namespace epic::manager {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RenderMulticast, AGroupHasItsAddressOrWhyItHasNone) {
  proto::GroupState group;
  group.set_name("g");
  group.set_state("running");
  EXPECT_THAT(RenderGroup(group), Not(HasSubstr("multicast"))) << "nobody asks";
  group.set_multicast_address(0xefc00307);
  EXPECT_THAT(RenderGroup(group), HasSubstr("\nmulticast   239.192.3.7\n"));
  group.set_multicast_address(0);
  group.set_multicast_reason("the NIC of rank 1 on h1 receives no multicast");
  EXPECT_THAT(RenderGroup(group),
              HasSubstr("\nmulticast   none: the NIC of rank 1 on h1 receives no multicast\n"));
}

TEST(RenderMulticast, AGroupHasWhatBecameOfDatagramsByRank) {
  proto::GroupState group;
  group.set_state("running");
  EXPECT_THAT(RenderGroup(group), Not(HasSubstr("datagrams"))) << "no rank has said so";
  for (const char* host : {"h0", "h1"}) group.add_rank_hosts(host);
  proto::DatagramsSeen& second = (*group.mutable_datagrams())[1];
  second.set_expected(1200);
  second.set_came(1180);
  second.set_read(20);
  second.set_stale(3);
  second.set_again(1);
  (*group.mutable_datagrams())[0].set_expected(7);
  proto::DatagramsSeen& stray = (*group.mutable_datagrams())[2];
  stray.set_stranger(1);
  stray.set_alien(2);
  stray.set_length(4);
  EXPECT_THAT(RenderGroup(group), EndsWith("\n"
                                           "datagrams   rank  host  expected  came  read  dropped\n"
                                           "            0     h0    7         0     0     0\n"
                                           "            1     h1    1200      1180  20    3 stale, 1 again\n"
                                           "            2     -     0         0     0     "
                                           "1 stranger, 2 alien, 4 length\n"));
}

TEST(RenderMulticast, ASwitchHasThePortsOfGroups) {
  proto::DumpReply reply;
  reply.mutable_forwarding()->add_flood_ports("swp1");
  EXPECT_THAT(RenderTables(reply), HasSubstr("  flood: swp1\ngroups: 0\n"));
  proto::GroupPorts& group = *reply.mutable_forwarding()->add_groups();
  group.set_mac(std::string("\1\0\x5e\x40\3\7", 6));
  group.add_ports("swp1");
  group.add_ports("swp3");
  EXPECT_THAT(RenderTables(reply), HasSubstr("  flood: swp1\n  multicast 01:00:5e:40:03:07: swp1 swp3\n"));
}

TEST(RenderMulticast, AnExplanationSaysWhetherThereCouldBeOne) {
  proto::ExplainReply reply;
  reply.set_path(proto::PATH_HOSTS);
  EXPECT_THAT(RenderExplanation(reply), Not(HasSubstr("multicast"))) << "an earlier manager";
  reply.set_multicast(true);
  EXPECT_THAT(RenderExplanation(reply),
              HasSubstr("\nmulticast: if all ranks ask for it, and their NICs receive it\nhosts: "));
  reply.set_multicast_unasked_reason("leaf1 floods");
  EXPECT_THAT(RenderExplanation(reply), HasSubstr("\nmulticast: if all ranks ask for it, and their NICs "
                                                  "receive it; only then, since leaf1 floods\n"));
  reply.set_multicast_unasked_reason("");
  reply.set_multicast_unasked(true);
  EXPECT_THAT(
      RenderExplanation(reply),
      HasSubstr(
          "\nmulticast: unasked, for Broadcasts and AllGathers that are shorter so (8 ranks and more, each on a host "
          "of its own); for others, and where ranks share a host, if all ask for it; their NICs have to receive it\n"));
  reply.set_multicast_unasked(false);
  reply.set_multicast(false);
  reply.set_multicast_reason("a router is between h0 and h2");
  EXPECT_THAT(RenderExplanation(reply),
              HasSubstr("\nmulticast: none: a router is between h0 and h2\nhosts: "));
}

}  // namespace
}  // namespace epic::manager
