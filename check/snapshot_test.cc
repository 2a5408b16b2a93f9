// What is left out of a state when it is saved: nothing that can change what a node does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "check/node.h"
#include "check/setups_testing.h"

namespace epic::check {
namespace {

// A node twice: one core runs on and on, without ever being loaded; of three others each makes one step from
// what the last one saved, on top of the state in which it was left some steps ago, and now and then new.
class Twins {
 public:
  using Step = std::function<void(Node&, Effects&)>;

  Twins(const System& system, int node, Packets& packets, Blobs& blobs)
      : make_([&system, &packets, &blobs, node] { return MakeNode(system, node, packets, blobs); }),
        straight_(make_()) {
    for (auto& other : others_) other = make_();
    straight_->Save(saved_);
  }

  const Node& straight() const { return *straight_; }

  // What it sent. Failures are reported.
  std::vector<Sent> Make(sim::Choices& choices, const Step& step) {
    auto& other = others_[choices.Below(others_.size())];
    if (choices.Below(8) == 0) other = make_();
    other->Load(saved_);
    std::string again;
    other->Save(again);
    EXPECT_TRUE(again == saved_) << "saved anew, a loaded state is another";

    Effects expected;
    Effects effects;
    step(*straight_, expected);
    step(*other, effects);
    EXPECT_EQ(Text(expected.breach), "");
    EXPECT_EQ(effects.breach, expected.breach);
    EXPECT_TRUE(std::ranges::equal(
        effects.sent, expected.sent,
        [](const Sent& a, const Sent& b) { return a.port == b.port && a.packet == b.packet; }))
        << "sends other packets: " << effects.sent.size() << ", not " << expected.sent.size();
    std::string straight;
    straight_->Save(straight);
    saved_.clear();
    other->Save(saved_);
    EXPECT_TRUE(saved_ == straight) << "is in another state after the step";
    const Facts facts = other->Look();
    const Facts want = straight_->Look();
    EXPECT_EQ(facts.timer_in, want.timer_in);
    EXPECT_EQ(facts.done, want.done);
    EXPECT_EQ(facts.failed, want.failed);
    EXPECT_EQ(facts.acknowledged, want.acknowledged);
    EXPECT_EQ(facts.heard, want.heard);
    return expected.sent;
  }

 private:
  std::function<std::unique_ptr<Node>()> make_;
  std::unique_ptr<Node> straight_;
  std::array<std::unique_ptr<Node>, 3> others_;
  std::string saved_;
};

// Any order of any faults, as many as there are.
class Walk {
 public:
  Walk(const SystemConfig& config, uint64_t seed) : system_(config), choices_(seed) {
    for (int n = 0; n < system_.nodes(); ++n)
      nodes_.push_back(std::make_unique<Twins>(system_, n, packets_, blobs_));
    channels_.resize(2 * system_.edges().size());
    // Some walks lose much, others nothing.
    faults_per_million_ = choices_.Below(4) * 60'000;
  }

  // True if all calls have ended.
  bool Run(int steps) {
    for (; steps > 0 && !testing::Test::HasFailure() && !Done(); --steps) Step();
    return Done();
  }
  // Between the hosts, where ranks' calls differ: when one has been refused, the control plane ends all
  // others.
  void EndRefused() {
    const auto any_has_left = [this] {
      return std::ranges::any_of(nodes_, [](const auto& node) { return node->straight().Look().failed; });
    };
    for (int n = 0; n < system_.nodes() && any_has_left(); ++n) {
      if (!Look(n).failed) Make(n, [](Node& node, Effects& effects) { node.Fail(effects); });
    }
    Continue(10);
  }
  // More after that, and then: a switch loses its state, the control plane ends the group at one node after
  // the other, and what is under way still comes.
  void End(int steps) {
    Continue(steps);
    const auto crashed = static_cast<int>(choices_.Below(system_.switches()));
    Make(crashed, [](Node& node, Effects&) { node.Crash(); });
    for (int n = system_.nodes() - 1; n >= 0; --n) {
      Continue(steps);
      Make(n, [](Node& node, Effects& effects) { node.Fail(effects); });
    }
    Continue(steps);
  }

 private:
  void Continue(int steps) {
    for (; steps > 0 && !testing::Test::HasFailure(); --steps) Step();
  }

  bool Done() const {
    for (int n = system_.switches(); n < system_.nodes(); ++n) {
      if (!Look(n).done) return false;
    }
    return true;
  }

  Facts Look(int node) const { return nodes_[static_cast<size_t>(node)]->straight().Look(); }

  void Make(int node, const Twins::Step& step) {
    for (const Sent& sent : nodes_[static_cast<size_t>(node)]->Make(choices_, step)) {
      const Edge& edge = system_.EdgeAt(node, sent.port);
      channels_[2 * system_.EdgeNumber(node, sent.port) + (edge.child == node ? 0 : 1)].push_back(
          sent.packet);
    }
  }

  void Step() {
    const auto node = static_cast<int>(choices_.Below(system_.nodes()));
    if (Look(node).may_call) return Make(node, [](Node& n, Effects& effects) { n.Start(effects); });
    if (choices_.Chance(faults_per_million_ / 4)) return Wait(node);
    const size_t channel = PickChannel();
    if (channel < channels_.size()) return Deliver(channel);
    Nanos next = kNever;
    for (int n = 0; n < system_.nodes(); ++n) next = std::min(next, Look(n).timer_in);
    for (int n = 0; n < system_.nodes() && next != kNever; ++n)
      Make(n, [next](Node& each, Effects& effects) { each.Advance(next, effects); });
  }

  // The node's clock goes ahead: until its timer runs out, or not quite, or so far that it is late.
  void Wait(int node) {
    const Nanos timer = Look(node).timer_in;
    if (timer == kNever) return;
    const uint64_t how = choices_.Below(3);
    if (how == 2) return Make(node, [timer](Node& n, Effects&) { n.Wait(timer + kMillisecond); });
    const Nanos time = how == 0 ? timer : timer / 2;
    Make(node, [time](Node& n, Effects& effects) { n.Advance(time, effects); });
  }

  // One that has something; none if nothing is under way.
  size_t PickChannel() {
    std::vector<size_t> some;
    for (size_t c = 0; c < channels_.size(); ++c) {
      if (!channels_[c].empty()) some.push_back(c);
    }
    return some.empty() ? channels_.size() : some[choices_.Below(some.size())];
  }

  void Deliver(size_t channel) {
    auto& packets = channels_[channel];
    const Edge& edge = system_.edges()[channel / 2];
    const uint64_t faults = system_.HasFaults(edge) ? faults_per_million_ : 0;
    if (choices_.Chance(faults) && packets.size() > 1) std::swap(packets[0], packets[1]);
    const PacketId packet = packets.front();
    if (!choices_.Chance(faults)) packets.pop_front();
    if (choices_.Chance(faults)) return;
    const PortId port = channel % 2 == 0 ? edge.parent_port : edge.child_port;
    Make(channel % 2 == 0 ? edge.parent : edge.child,
         [this, port, packet](Node& n, Effects& effects) { n.Deliver(port, packets_[packet], effects); });
  }

  System system_;
  sim::Choices choices_;
  uint64_t faults_per_million_ = 0;
  Packets packets_;
  Blobs blobs_;
  std::vector<std::unique_ptr<Twins>> nodes_;
  std::vector<std::deque<PacketId>> channels_;  // as Model numbers them
};

TEST(SnapshotTest, ALoadedCoreGoesOnAsTheOneThatWasSaved) {
  int ended = 0;
  const auto seeds = Seeds(400);
  for (const uint64_t seed : seeds) {
    sim::Choices choices(seed);
    const auto setup = RandomSetup(choices);
    SCOPED_TRACE(ReplayOf(seed, setup));
    Walk walk(Built(setup), seed);
    // Some are broken off in the middle.
    ended += walk.Run(seed % 8 == 0 ? 60 : 1000) ? 1 : 0;
    if (seed % 4 == 0) walk.End(10);
    if (HasFailure()) return;
  }
  // The walks come everywhere, the end of the calls included.
  EXPECT_GT(ended, static_cast<int>(seeds.size() * 3 / 4));
}

TEST(SnapshotTest, SoDoesAHostOfThePathBetweenTheHosts) {
  int ended = 0;
  const auto seeds = Seeds(300);
  for (const uint64_t seed : seeds) {
    sim::Choices choices(seed);
    const auto setup = RandomHostsSetup(choices);
    SCOPED_TRACE(ReplayOf(seed, setup));
    Walk walk(Built(setup), seed);
    ended += walk.Run(seed % 8 == 0 ? 40 : 1000) ? 1 : 0;
    if (!setup.different.empty()) walk.EndRefused();
    if (HasFailure()) return;
  }
  EXPECT_GT(ended, static_cast<int>(seeds.size() / 2));
}

TEST(SnapshotTest, SoDoesAHostThatCallsByMulticast) {
  int ended = 0;
  const auto seeds = Seeds(200);
  for (const uint64_t seed : seeds) {
    sim::Choices choices(seed);
    const auto setup = RandomMulticastSetup(choices);
    SCOPED_TRACE(ReplayOf(seed, setup));
    Walk walk(Built(setup), seed);
    ended += walk.Run(seed % 8 == 0 ? 40 : 1000) ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(ended, static_cast<int>(seeds.size() / 2));
}

// Of several groups on one switch, set up by chance.
template <typename RandomSetup>
void WalkThrough(const RandomSetup& random_setup) {
  int ended = 0;
  const auto seeds = Seeds(200);
  for (const uint64_t seed : seeds) {
    sim::Choices choices(seed);
    const auto setup = random_setup(choices);
    SCOPED_TRACE(ReplayOf(seed, setup));
    Walk walk(Built(setup), seed);
    ended += walk.Run(seed % 8 == 0 ? 60 : 2000) ? 1 : 0;
    if (seed % 4 == 0) walk.End(10);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(ended, static_cast<int>(seeds.size() / 2));
}

TEST(SnapshotTest, SoDoesASwitchWithTheBlockOfSeveralGroups) { WalkThrough(RandomGroupsSetup); }

TEST(SnapshotTest, SoDoASwitchWithAPoolAndItsServers) { WalkThrough(RandomPoolSetup); }

// The state says when what happens in it, not when it was reached.
TEST(SnapshotTest, TimesAreRelative) {
  const System system(Built({.mode = "3", .topology = "star-2"}));
  Packets packets;
  Blobs blobs;
  const auto early = MakeNode(system, 1, packets, blobs);
  const auto late = MakeNode(system, 1, packets, blobs);
  Effects effects;
  late->Advance(7 * kSecond, effects);
  early->Start(effects);
  late->Start(effects);
  std::string of_early;
  std::string of_late;
  early->Save(of_early);
  late->Save(of_late);
  EXPECT_TRUE(of_early == of_late);
  late->Advance(1, effects);
  of_late.clear();
  late->Save(of_late);
  EXPECT_FALSE(of_early == of_late);
}

}  // namespace
}  // namespace epic::check
