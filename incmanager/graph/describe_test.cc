#include "incmanager/graph/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "incmanager/graph/graph_testing.h"

namespace epic::manager {
namespace {

using testing::AddressOf;
using ::testing::HasSubstr;
using testing::kPinned;
using testing::MacOf;
using testing::Reports;

std::string YamlOf(const Reports& reports) {
  return ToYaml(reports.graph.topology(), [&reports](LinkEnd end) { return reports.graph.HasCarriers(end); });
}

TEST(Graph, WhatCannotBeReadBackIsLeftOut) {
  Reports reports(*ParseTopology(kPinned, "net.yaml"));
  for (const int number : {1, 2, 3}) reports.Register(number);
  reports.SeeHost(1, 2, 7);
  reports.SeeHost(1, 2, 8);
  reports.SeeHost(2, 3, 9);
  reports.SeeHost(2, 4, 5);
  reports.Port(2, 4).neighbours[0].name = "a\"b\\c";
  reports.TellAll();
  // Becomes a switch; and a host whose port is not there any more.
  EngineReport former{.name = "s9", .address = AddressOf(9), .mac = MacOf(9)};
  ASSERT_TRUE(reports.graph.Admit(former, false).ok());
  reports.SeeHost(3, 4, 6);
  reports.TellAll();
  reports.Engine(3).ports.pop_back();
  reports.TellAll();
  const std::string yaml = YamlOf(reports);
  const StatusOr<Topology> again = ParseTopology(yaml, "t");
  ASSERT_TRUE(again.ok()) << again.status() << yaml;
  EXPECT_THAT(yaml, HasSubstr("  # - {a: \"s1:p2\", b: \"10.10.0.8\""));
  EXPECT_TRUE(again->discovery);
  EXPECT_EQ(again->forbidden.size(), 2u);
  EXPECT_TRUE(again->FindNode("a\"b\\c"));
  EXPECT_TRUE(again->FindNode("10.10.0.7"));
  EXPECT_EQ(again->nodes.size(), 6u) << yaml;
  EXPECT_EQ(again->switches.size(), 4u) << yaml;
}

TEST(Graph, IsAFileThatTheManagerReads) {
  Reports reports;
  for (const int number : {1, 2}) reports.Register(number);
  reports.Join(1, 1, 2, 1);
  reports.SeeHost(1, 2, 7);
  reports.TellAll();
  const StatusOr<Topology> again = ParseTopology(YamlOf(reports), "t");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->nodes.size(), 3u);
  EXPECT_EQ(ToYaml(*again, [](LinkEnd) { return false; }), YamlOf(reports));
}

// Switches forget who was at a port when its carrier goes.
TEST(Graph, ALinkWhoseCarrierIsBackIsNotCalledDown) {
  Reports reports;
  reports.Register(1);
  reports.SeeHost(1, 2, 7);
  reports.TellAll();
  reports.Port(1, 2).neighbours.clear();
  reports.Port(1, 2).up = false;
  reports.TellAll();
  EXPECT_THAT(YamlOf(reports), HasSubstr("}  # down\n"));
  reports.Port(1, 2).up = true;
  reports.TellAll();
  EXPECT_THAT(YamlOf(reports), HasSubstr("}  # there is a carrier, and nobody has been heard yet\n"));
  reports.SeeHost(1, 2, 7);
  reports.TellAll();
  EXPECT_THAT(YamlOf(reports), ::testing::Not(HasSubstr("#")));
}

}  // namespace
}  // namespace epic::manager
