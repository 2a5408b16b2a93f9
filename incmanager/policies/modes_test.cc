#include "incmanager/policies/modes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "incmanager/policies/tree.h"
#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

using ::testing::HasSubstr;

TEST(Modes, ASetHoldsModesOnly) {
  ModeSet set;
  EXPECT_FALSE(set.Contains(Mode::kTerminated));
  set.Add(Mode::kAugmented);
  set.Add(Mode::kUnspecified);
  set.Add(static_cast<Mode>(99));
  EXPECT_TRUE(set.Contains(Mode::kAugmented));
  for (const Mode mode : {Mode::kUnspecified, Mode::kTerminated, Mode::kTranslated, static_cast<Mode>(99)})
    EXPECT_FALSE(set.Contains(mode)) << static_cast<int>(mode);
}

TEST(Modes, OnlyIAndIIIMayShareATree) {
  for (const Mode mode : AllModes()) EXPECT_EQ(CannotMix(mode, mode), "");
  EXPECT_EQ(CannotMix(Mode::kTerminated, Mode::kAugmented), "");
  EXPECT_EQ(CannotMix(Mode::kAugmented, Mode::kTerminated), "");
  EXPECT_EQ(
      CannotMix(Mode::kTranslated, Mode::kAugmented),
      "modes II and III cannot share a tree: a switch of mode II only reflects acknowledgements between "
      "hosts, so that it never acknowledges what its neighbour of mode III sends; mix I and III only, or "
      "II only");
  EXPECT_EQ(CannotMix(Mode::kTranslated, static_cast<Mode>(99)), "99 is no mode");
  EXPECT_THAT(CannotMix(Mode::kTerminated, Mode::kTranslated), HasSubstr("neighbour of mode I sends"));
}

TEST(Modes, IVMixesWithNoOther) {
  EXPECT_EQ(CannotMix(Mode::kTranslated, Mode::kSpliced),
            "modes II and IV cannot share a tree: a switch of mode IV speaks to hosts under other hosts' "
            "addresses, and all switches of a group do so or none; mix II only, or IV only");
  EXPECT_EQ(CannotMix(Mode::kSpliced, Mode::kTerminated),
            "modes IV and I cannot share a tree: a switch of mode IV only reflects acknowledgements between "
            "hosts, so that it never acknowledges what its neighbour of mode I sends; mix I and III only, or "
            "IV only");
}

TEST(Modes, VMixesWithNoOther) {
  for (const Mode other : {Mode::kAugmented, Mode::kTranslated, Mode::kSpliced}) {
    EXPECT_THAT(CannotMix(Mode::kPooled, other), HasSubstr("one switch sums for a group in mode V"));
    EXPECT_THAT(CannotMix(other, Mode::kPooled), HasSubstr("one switch sums for a group in mode V"));
  }
}

// 100 Gbit/s and 1 us per link: BL is 12500 bytes.
TEST(BufferOfPaper, FollowsAppendixF3) {
  BufferRequest request{Mode::kTranslated, false, 100, 1, 2, 4};
  const auto expect = [&request](Mode mode, bool reproducible, uint64_t bytes, const char* formula) {
    request.mode = mode;
    request.reproducible = reproducible;
    const PaperBuffer buffer = BufferOfPaper(request);
    EXPECT_EQ(buffer.bytes, bytes) << formula;
    EXPECT_EQ(buffer.formula, formula);
  };
  expect(Mode::kTerminated, false, 5 * 2 * 12500, "(D+1)*2BL");
  expect(Mode::kTerminated, true, 5 * 2 * 12500, "(D+1)*2BL");
  expect(Mode::kTranslated, false, 4 * 2 * 12500, "4(H-1)BL");
  expect(Mode::kTranslated, true, 4 * 2 * 5 * 12500, "4(H-1)(D+1)BL");
  expect(Mode::kAugmented, false, 4 * 12500, "4BL");
  expect(Mode::kAugmented, true, 5 * 2 * 12500, "(D+1)*2BL");
  expect(Mode::kSpliced, false, 4 * 2 * 12500, "4(H-1)BL");
  expect(Mode::kSpliced, true, 4 * 2 * 5 * 12500, "4(H-1)(D+1)BL");
}

// An edge over a switch that is left out is as long as its links together.
TEST(BufferOfPaper, HopsAreTreeEdges) {
  const Topology topology = testing::Tree32().Build();
  const std::vector<SwitchOffer> offers(topology.switches.size());
  const auto tree = [&](const std::vector<const char*>& names) {
    std::vector<NodeId> hosts;
    for (const char* name : names) hosts.push_back(*topology.FindNode(name));
    return *BuildTree(topology, ComputeForwarding(topology), offers, hosts);
  };
  const Tree whole = tree({"h0", "h1", "h2", "h3"});
  for (const TreeInner& inner : whole.inner) EXPECT_EQ(inner.hop_us, 20) << inner.node;
  const Tree part = tree({"h0", "h1", "h2"});
  ASSERT_EQ(part.inner.size(), 2u);
  EXPECT_EQ(part.inner[0].hop_us, 40) << "root to h2";
  EXPECT_EQ(part.inner[1].hop_us, 20);
}

}  // namespace
}  // namespace epic::manager
