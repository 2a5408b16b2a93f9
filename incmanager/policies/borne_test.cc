// Whose addresses switches bear to hosts.
#include "incmanager/policies/borne.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "incmanager/policies/reach.h"
#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

using ::testing::ElementsAre;

struct BorneNet {
  explicit BorneNet(Topology built) : topology(std::move(built)), tables(ComputeForwarding(topology)) {}
  explicit BorneNet(const testing::TopologyBuilder& builder) : BorneNet(builder.Build()) {}

  NodeId Id(const std::string& name) const { return *topology.FindNode(name); }
  std::vector<NodeId> Ids(const std::vector<std::string>& names) const {
    std::vector<NodeId> ids;
    for (const std::string& name : names) ids.push_back(Id(name));
    return ids;
  }
  Tree TreeOf(const std::vector<std::string>& hosts) const {
    const std::vector<SwitchOffer> offers(topology.switches.size());
    return *BuildTree(topology, tables, offers, Ids(hosts));
  }
  Result<std::vector<Borne>> Choose(const std::vector<std::string>& hosts, Mode mode = Mode::kSpliced) const {
    return ChooseBorne(topology, tables, TreeOf(hosts), mode, Ids(hosts));
  }
  // "h1 swp2" by rank, or the failure's words.
  std::vector<std::string> Words(const std::vector<std::string>& hosts) const {
    const auto chosen = Choose(hosts);
    if (!chosen.ok()) {
      EXPECT_EQ(chosen.failure().code, ErrorCode::kNoTree);
      return {chosen.failure().message};
    }
    std::vector<std::string> words;
    for (const Borne& borne : *chosen)
      words.push_back(topology.nodes[borne.host].name + " " + borne.ingress_port);
    return words;
  }

  Topology topology;
  std::vector<Forwarding> tables;
};

TEST(BorneTest, HostsAtASwitchArePairedInTheOrderOfTheirRanks) {
  const BorneNet star(testing::Star(4));
  EXPECT_THAT(star.Words({"h0", "h1", "h2", "h3"}), ElementsAre("h1 swp1", "h0 swp2", "h3 swp3", "h2 swp4"));
  EXPECT_THAT(star.Words({"h3", "h0", "h2", "h1"}), ElementsAre("h0 swp4", "h3 swp1", "h1 swp3", "h2 swp2"));
  // Ranks of two leaves by turns: the pairs are at the leaves.
  const BorneNet tree(testing::Tree32());
  EXPECT_THAT(tree.Words({"h0", "h2", "h1", "h3"}), ElementsAre("h1 swp1", "h3 swp1", "h0 swp2", "h2 swp2"));
}

TEST(BorneTest, WhoIsLeftOverIsPairedWithWhoIsLeftOverElsewhere) {
  const BorneNet tree(testing::Tree32());
  // Each leaf has one host; what the two say to each other passes the root, at which both hang.
  EXPECT_THAT(tree.Words({"h0", "h2"}), ElementsAre("h2 swp1", "h0 swp2"));
  // h2 has the root of its own, h0 and h1 are a pair.
  EXPECT_THAT(tree.Words({"h0", "h1", "h2"}), ElementsAre("h1 swp1", "h0 swp2", "h0 swp2"));
  const BorneNet star(testing::Star(3));
  EXPECT_THAT(star.Words({"h0", "h1", "h2"}), ElementsAre("h1 swp1", "h0 swp2", "h0 swp3"));
}

TEST(BorneTest, RanksOfAHostHaveTheSame) {
  const BorneNet star(testing::Star(3));
  EXPECT_THAT(star.Words({"h0", "h0", "h1", "h1"}), ElementsAre("h1 swp1", "h1 swp1", "h0 swp2", "h0 swp2"));
  EXPECT_THAT(star.Words({"h0", "h1", "h2", "h0"}), ElementsAre("h1 swp1", "h0 swp2", "h0 swp3", "h1 swp1"));
  EXPECT_THAT(star.Words({"h2", "h2"}), ElementsAre("mode spliced needs ranks on two hosts"));
}

TEST(BorneTest, OtherModesHaveNone) {
  const BorneNet star(testing::Star(2));
  for (const ModeInfo& row : kModes) {
    const auto chosen = star.Choose({"h0", "h1"}, row.mode);
    ASSERT_TRUE(chosen.ok()) << row.numeral;
    EXPECT_EQ(chosen->size(), row.bears_hosts ? 2u : 0u) << row.numeral;
  }
  EXPECT_EQ(star.Choose({"h0", "h0"}, Mode::kTranslated)->size(), 0u);
}

// Of two spines the tree has one; frames between leaves take that one or the other, by destination.
TEST(BorneTest, FramesThatDoNotPassTheSwitchAreRefusedWithTheirEnds) {
  const BorneNet net(testing::TwoSpines());
  size_t refused = 0;
  for (const std::string a : {"h0", "h1"}) {
    for (const std::string b : {"h2", "h3"}) {
      const Tree tree = net.TreeOf({a, b});
      ASSERT_EQ(tree.inner.size(), 1u);
      const NodeId root = tree.inner[0].node;
      std::string wrong;
      for (const auto& [from, to] : {std::pair{b, a}, std::pair{a, b}}) {
        const std::vector<NodeId> walk = Walk(net.topology, net.tables, net.Id(from), net.Id(to));
        if (std::ranges::find(walk, root) == walk.end())
          wrong = "mode spliced: frames from " + from + " to " + to + " do not pass " +
                  net.topology.nodes[root].name;
      }
      const std::vector<std::string> words = net.Words({a, b});
      EXPECT_EQ(words.size() == 1 ? words[0] : "", wrong);
      refused += words.size() == 1 ? 1 : 0;
    }
  }
  EXPECT_GT(refused, 0u);
}

// Whoever has no partner whose frames pass its switch bears the first host's for which they do.
TEST(BorneTest, AnotherHostTakesThePlaceOfAPartnerThatIsNotBehindTheSwitch) {
  const BorneNet net(testing::TwoSpines());
  size_t chosen_for = 0;
  for (const std::vector<std::string>& hosts :
       {std::vector<std::string>{"h0", "h1", "h2"}, {"h2", "h0", "h3"}, {"h1", "h3", "h2"}}) {
    const Tree tree = net.TreeOf(hosts);
    const auto chosen = net.Choose(hosts);
    if (!chosen.ok()) continue;
    const auto& borne = *chosen;
    for (const TreeInner& inner : tree.inner) {
      for (const TreeChild& child : inner.children) {
        if (!child.is_host) continue;
        const NodeId host = net.Id(hosts[child.rank]);
        const std::vector<NodeId> walk =
            Walk(net.topology, net.tables, host, borne[child.rank].host);
        EXPECT_NE(std::ranges::find(walk, inner.node), walk.end());
        EXPECT_NE(borne[child.rank].host, host);
        ++chosen_for;
      }
    }
  }
  EXPECT_GT(chosen_for, 0u) << "all were refused";
}

// Two hosts behind a bridge at one port: what they say to each other the bridge hands over.
TEST(BorneTest, AHostAtTheSamePortIsNobodysPartner) {
  testing::TopologyBuilder builder;
  builder.Switch("s1");
  for (const char* host : {"h0", "h1", "h2", "h3"}) builder.Host(host).Link("s1", host);
  Topology topology = builder.Build();
  const NodeId s1 = *topology.FindNode("s1");
  // h1 moves to h0's port.
  for (Hop& hop : topology.nodes[s1].hops) {
    if (hop.peer == *topology.FindNode("h1")) hop.port = "swp1";
  }
  const BorneNet net(topology);
  EXPECT_THAT(net.Words({"h0", "h1"}),
              ElementsAre("mode spliced: frames from h0 to h1 do not pass s1"));
  EXPECT_THAT(net.Words({"h0", "h1", "h2", "h3"}),
              ElementsAre("h2 swp1", "h2 swp1", "h3 swp3", "h2 swp4"));
}

TEST(BorneTest, PortSecurityOnTheWayIsNamed) {
  testing::TopologyBuilder builder;
  builder.Switch("s1").Host("h0").Host("h1").Host("h2");
  const BorneNet net(builder.Link("s1", "h0").Link("s1", "h1", ", port_security: true").Link("s1", "h2"));
  EXPECT_THAT(net.Words({"h0", "h1"}),
              ElementsAre("mode spliced: port security between h1 and s1:swp2 passes their own addresses only, "
                          "and s1 bears another host's to h1"));
  EXPECT_THAT(net.Words({"h0", "h2"}), ElementsAre("h2 swp1", "h0 swp3")) << "another host's link";
}

}  // namespace
}  // namespace epic::manager
