// Bridges on the links between switches, and where they take nodes to be.
#include "incengine/core/announcement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "incengine/core/neighbours_testing.h"

namespace epic::engine::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr roce::MacAddress kOther = {0x52, 0x54, 0, 0, 0, 8};

// A frame without a meaning.
Bytes FrameOf(const roce::MacAddress& dst, const roce::MacAddress& src) {
  Bytes frame(60);
  std::ranges::copy(dst, frame.begin());
  std::ranges::copy(src, frame.begin() + 6);
  frame[12] = 0x08;
  return frame;
}

// A bridge on the link from a.p1 to b.p2: as IEEE 802.1D, 7.8, it learns from sources where nodes are, and
// what is for one that is where the frame came from goes no further.
class Bridge {
 public:
  // What leaves it on the other side.
  bool Passes(bool from_a, const Bytes& frame) {
    const auto address = [&](size_t at) {
      roce::MacAddress mac;
      std::copy_n(frame.begin() + at, mac.size(), mac.begin());
      return mac;
    };
    if (address(0) == roce::kLldpMac) return false;
    at_a_[address(6)] = from_a;
    const auto known = at_a_.find(address(0));
    return known == at_a_.end() || known->second != from_a;
  }
  void Pass(bool from_a, const std::vector<Sent>& frames, Station* to) {
    for (const Sent& sent : frames) {
      if (sent.port == (from_a ? 1 : 2) && Passes(from_a, sent.frame))
        to->Hear(6 * kSecond, from_a ? 2 : 1, sent.frame);
    }
  }

 private:
  std::map<roce::MacAddress, bool> at_a_;
};

// Switches a and b, which know each other, with a bridge between. The way from a to kHostMac is by b, and the
// way from b to it by its port 0.
class Announcements : public ::testing::TestWithParam<ForwardingMode> {
 protected:
  Announcements() : a_(1, GetParam()), b_(2, GetParam()) {
    Exchange(5 * kSecond, &a_, &b_, true);
    SetTable(&a_, {{.mac = kHostMac, .ip = kHostIp, .port = 1}, {.mac = kOther, .ip = {}, .port = 0}});
    SetTable(&b_, {{.mac = kHostMac, .ip = kHostIp, .port = 0}, {.mac = kOther, .ip = {}, .port = 2}});
  }
  static void SetTable(Station* at, std::vector<ForwardingEntry> entries) {
    ASSERT_TRUE(
        at->core().forwarding().SetTable({.entries = std::move(entries), .flood_ports = {0, 1, 2}}).ok());
  }
  // Whether what another node sends to the host leaves the bridge towards b.
  bool ReachesHost() {
    bool reaches = false;
    for (const Sent& sent : a_.Hear(6 * kSecond, 0, FrameOf(kHostMac, kOther)))
      reaches |= sent.port == 1 && bridge_.Passes(true, sent.frame);
    return reaches;
  }

  Station a_, b_;
  Bridge bridge_;
};

INSTANTIATE_TEST_SUITE_P(Modes, Announcements,
                         ::testing::Values(ForwardingMode::kStatic, ForwardingMode::kLearning),
                         [](const auto& mode) {
                           return mode.param == ForwardingMode::kStatic ? "Static" : "Learning";
                         });

TEST_P(Announcements, WhatWasFloodedTheOtherWayIsPutRightAtOnce) {
  EXPECT_TRUE(ReachesHost());
  // The host's broadcast has come to a by another link.
  for (const Sent& sent : a_.Hear(6 * kSecond, 2, FrameOf(roce::kBroadcastMac, kHostMac))) {
    if (sent.port != 1) continue;
    EXPECT_TRUE(bridge_.Passes(true, sent.frame));
    EXPECT_FALSE(ReachesHost());
    bridge_.Pass(false, b_.Hear(6 * kSecond, 2, sent.frame), &a_);
  }
  EXPECT_TRUE(ReachesHost());
}

TEST_P(Announcements, ThatAFrameCameByAnOlderWayIsPutRightWithTheNextHello) {
  EXPECT_TRUE(bridge_.Passes(true, FrameOf(kOther, kHostMac)));
  EXPECT_FALSE(ReachesHost());
  const auto announced = b_.Tick(6 * kSecond);
  EXPECT_FALSE(ReachesHost());
  bridge_.Pass(false, announced, &a_);
  EXPECT_TRUE(ReachesHost());
}

TEST_P(Announcements, TheyEndAtTheNextSwitchAndAreCountedAsHellos) {
  const auto announcement = WriteAnnouncement(kHostMac);
  const Bytes frame(announcement.begin(), announcement.end());
  const uint64_t before = a_.core().port_counters()[1].rx_hellos;
  EXPECT_THAT(a_.Hear(6 * kSecond, 1, frame), IsEmpty());
  EXPECT_EQ(a_.core().port_counters()[1].rx_hellos, before + 1);
  EXPECT_EQ(a_.core().forwarding().learned_count(), 0U);
  EXPECT_THAT(a_.core().counters().forward_drops, ::testing::Each(0U));
}

std::vector<roce::MacAddress> Announced(const std::vector<Sent>& frames, PortId port) {
  std::vector<roce::MacAddress> out;
  for (const Sent& sent : frames) {
    const auto view = roce::EthernetView::Of(sent.frame);
    if (sent.port == port && IsAnnouncement(*view)) out.push_back(view->src());
  }
  return out;
}

TEST_P(Announcements, WhoIsBehindThePortIsNotAnnouncedThere) {
  EXPECT_THAT(Announced(a_.Tick(6 * kSecond), 1), ::testing::ElementsAre(kOther));
  EXPECT_THAT(Announced(b_.Tick(6 * kSecond), 2), ::testing::ElementsAre(kHostMac));
  EXPECT_THAT(b_.Hear(6 * kSecond, 2, FrameOf(roce::kBroadcastMac, kOther)),
              ::testing::Each(::testing::Field(&Sent::port, ::testing::Ne(2))));
}

// It has several links, and says hello by each.
TEST_P(Announcements, NorIsTheSwitchAtThePort) {
  SetTable(&a_, {{.mac = SwitchMac(2), .ip = SwitchIp(2), .port = 2}});
  EXPECT_THAT(Announced(a_.Tick(6 * kSecond), 1), IsEmpty());
}

TEST_P(Announcements, WithoutABridgeThereAreNone) {
  Station c(3, GetParam()), d(4, GetParam());
  Exchange(5 * kSecond, &c, &d);
  SetTable(&c, {{.mac = kHostMac, .ip = kHostIp, .port = 0}});
  EXPECT_THAT(Announced(c.Tick(6 * kSecond), 1), IsEmpty());
  EXPECT_THAT(Announced(c.Hear(6 * kSecond, 1, FrameOf(roce::kBroadcastMac, kHostMac)), 1), IsEmpty());
}

TEST_P(Announcements, ManyTakeTurns) {
  std::vector<ForwardingEntry> entries;
  for (size_t i = 0; i < Switch::kMostAnnounced + 10; ++i)
    entries.push_back(
        {.mac = {2, 0, 0, 0, static_cast<uint8_t>(i >> 8), static_cast<uint8_t>(i)}, .ip = {}, .port = 0});
  SetTable(&a_, entries);
  const auto first = Announced(a_.Tick(6 * kSecond), 1);
  EXPECT_THAT(first, SizeIs(Switch::kMostAnnounced));
  std::set<roce::MacAddress> all(first.begin(), first.end());
  for (const roce::MacAddress& mac : Announced(a_.Tick(6 * kSecond), 1)) all.insert(mac);
  EXPECT_THAT(all, SizeIs(entries.size()));
}

}  // namespace
}  // namespace epic::engine::testing
