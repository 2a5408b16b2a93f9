#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "incmanager/cli/render.h"

namespace epic::manager {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

proto::RootChoice* AddRoot(proto::ExplainReply* reply, const std::string& name, const std::string& why) {
  proto::RootChoice* choice = reply->add_roots();
  choice->set_root(name);
  choice->set_why(why);
  choice->set_chosen(why.empty());
  return choice;
}

TEST(RenderExplanation, HasARowForEachRootAndWhatTheGroupWouldGet) {
  proto::ExplainReply reply;
  AddRoot(&reply, "root", "its agent is lost");
  proto::RootChoice* leaf = AddRoot(&reply, "leaf1", "");
  leaf->set_depth_links(1);
  leaf->set_rate_gbps(2.5);
  leaf->set_delay_us(20);
  for (const char* name : {"leaf1", "leaf2"}) {
    proto::Aggregator& aggregator = *leaf->add_switches();
    aggregator.set_switch_name(name);
    aggregator.set_children(3);
  }
  reply.set_path(proto::PATH_NETWORK);
  reply.set_root("leaf1");
  reply.set_switches(2);
  reply.set_mode(proto::MODE_TRANSLATED);
  EXPECT_EQ(RenderExplanation(reply),
            "root   links  Gbit/s  delay us  switches (children)   state\n"
            "root   -      -       -         -                     its agent is lost\n"
            "leaf1  1      2.5     20        leaf1 (3), leaf2 (3)  chosen\n"
            "network: root leaf1, 2 switches, mode II (translated)\n");
  reply.set_switches(1);
  EXPECT_THAT(RenderExplanation(reply), EndsWith("root leaf1, 1 switch, mode II (translated)\n"));
}

TEST(RenderExplanation, SaysWhyAGroupGoesByTheHostsOrNotAtAll) {
  proto::ExplainReply reply;
  reply.set_path(proto::PATH_HOSTS);
  reply.set_path_reason("leaf2: its agent is lost");
  EXPECT_THAT(RenderExplanation(reply), EndsWith("\nhosts: leaf2: its agent is lost\n"));
  reply.set_path(proto::PATH_UNSPECIFIED);
  reply.mutable_failure()->set_code(proto::ERROR_NO_TREE);
  reply.mutable_failure()->set_message("why");
  EXPECT_THAT(RenderExplanation(reply), EndsWith("\nrefused: no tree: why\n"));
}

TEST(RenderExplanation, NamesTheFirstSwitchesOfALargeTree) {
  proto::ExplainReply reply;
  proto::RootChoice* choice = AddRoot(&reply, "s0", "");
  for (int i = 0; i < 18; ++i) choice->add_switches()->set_switch_name("s" + std::to_string(i));
  EXPECT_THAT(RenderExplanation(reply), HasSubstr("s15 (0) and 2 more  chosen"));
  choice->mutable_switches()->DeleteSubrange(16, 2);
  EXPECT_THAT(RenderExplanation(reply), Not(HasSubstr("more")));
}

}  // namespace
}  // namespace epic::manager
