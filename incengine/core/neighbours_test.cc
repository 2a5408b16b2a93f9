// Switches say hello in virtual time: who is heard where, and for how long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "incengine/core/neighbours_testing.h"

namespace epic::engine::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(Neighbours, TwoSwitchesHearEachOtherInOneHello) {
  Station a(1), b(2);
  // b answers the first hello of a neighbour that it did not know, so that a need not wait for its tick.
  const std::vector<Sent> hellos = a.Tick(0);
  EXPECT_THAT(hellos, SizeIs(6));                        // to two addresses, by three ports
  EXPECT_EQ(a.core().port_counters()[1].tx_hellos, 4U);  // two when the port came up
  std::vector<Sent> answers;
  for (const Sent& hello : hellos) {
    if (hello.port != 1) continue;
    for (Sent& sent : b.Hear(5, 2, hello.frame)) answers.push_back(std::move(sent));
  }
  EXPECT_THAT(b.At(2), ElementsAre(SwitchAt(1, "p1", HeardBy::kLldp)));
  EXPECT_EQ(b.Changes(), 1);
  ASSERT_THAT(answers, SizeIs(2));  // once
  EXPECT_EQ(answers[0].port, 2);
  for (const Sent& answer : answers) a.Hear(9, 1, answer.frame);
  EXPECT_THAT(a.At(1), ElementsAre(SwitchAt(2, "p2", HeardBy::kLldp)));
  EXPECT_THAT(a.At(0), IsEmpty());
  Exchange(kSecond, &a, &b);
  EXPECT_EQ(a.Changes() + b.Changes(), 1);  // a's, from before
}

TEST(Neighbours, WhatDropsLldpsAddressIsNoHindrance) {
  Station a(1), b(2);
  Exchange(0, &a, &b, true);
  EXPECT_THAT(a.At(1), ElementsAre(SwitchAt(2, "p2", HeardBy::kSecondAddress)));
  EXPECT_THAT(b.At(2), ElementsAre(SwitchAt(1, "p1", HeardBy::kSecondAddress)));
  // It goes away, and comes back.
  Exchange(kSecond, &a, &b);
  EXPECT_THAT(a.At(1), ElementsAre(SwitchAt(2, "p2", HeardBy::kLldp)));
  a.Changes();
  for (int second = 2; second < 5; ++second) Exchange(second * kSecond, &a, &b, true);
  EXPECT_THAT(a.At(1), ElementsAre(SwitchAt(2, "p2", HeardBy::kSecondAddress)));
  EXPECT_EQ(a.Changes(), 1);
}

// It has not read what came meanwhile.
TEST(Neighbours, WhoStoodStillForgetsNobodyBeforeItHasHeardWhatWaited) {
  Station a(1), b(2), c(3);
  Exchange(kSecond, &a, &b);
  for (const Sent& hello : c.Tick(kSecond)) a.Hear(kSecond, 2, hello.frame);
  a.Changes();
  a.TickLate(11 * kSecond);
  for (const Sent& hello : b.Tick(11 * kSecond)) {
    if (hello.port == 2) a.Hear(11 * kSecond, 1, hello.frame);
  }
  EXPECT_EQ(a.Changes(), 0);
  a.Tick(12 * kSecond);
  EXPECT_THAT(a.At(1), SizeIs(1));
  EXPECT_THAT(a.At(2), IsEmpty()) << "it has said nothing";
}

TEST(Neighbours, OneThatIsSilentIsKeptForThreeSeconds) {
  Station a(1), b(2);
  Exchange(kSecond, &a, &b);
  EXPECT_EQ(a.Changes(), 1);
  a.Tick(4 * kSecond - 1);
  EXPECT_THAT(a.At(1), SizeIs(1));
  EXPECT_EQ(a.Changes(), 0);
  a.Tick(4 * kSecond);
  EXPECT_THAT(a.At(1), IsEmpty());
  EXPECT_EQ(a.Changes(), 1);
}

TEST(Neighbours, OfAPortThatIsDownNothingIsKnownAndNothingIsSaid) {
  Station a(1), b(2);
  Exchange(0, &a, &b);
  a.Changes();
  a.core().OnPort(kSecond, 1, false, a);
  EXPECT_THAT(a.At(1), IsEmpty());
  EXPECT_EQ(a.Changes(), 1);
  EXPECT_THAT(a.Tick(kSecond), SizeIs(4));
  for (const Sent& sent : b.Tick(kSecond)) a.Hear(kSecond, 1, sent.frame);  // it was on its way
  EXPECT_THAT(a.At(1), IsEmpty());
  a.core().OnPort(2 * kSecond, 1, true, a);
  EXPECT_EQ(a.Changes(), 0);
  Exchange(2 * kSecond, &a, &b);
  EXPECT_THAT(a.At(1), SizeIs(1));
}

TEST(Neighbours, APortThatComesUpSaysHelloAtOnce) {
  Station a(1), b(2);
  a.core().OnPort(0, 1, false, a);
  a.Take();
  a.core().OnPort(5, 1, true, a);
  const std::vector<Sent> sent = a.Take();
  ASSERT_THAT(sent, SizeIs(2));
  b.Hear(6, 2, sent[0].frame);
  EXPECT_THAT(b.At(2), ElementsAre(SwitchAt(1, "p1", HeardBy::kLldp)));
}

TEST(Neighbours, HellosAreNeverForwarded) {
  Station a(1), b(2);
  for (const Sent& sent : a.Tick(0)) {
    if (sent.port != 1) continue;
    for (const Sent& answer : b.Hear(0, 2, sent.frame)) EXPECT_EQ(answer.port, 2);
  }
  EXPECT_EQ(b.core().counters().forwarded_frames, 0U);
  // Nor anything else to these addresses.
  for (const roce::MacAddress& dst : {roce::kLldpMac, roce::kHelloMac}) {
    Bytes frame(60);
    std::copy(dst.begin(), dst.end(), frame.begin());
    std::copy(kHostMac.begin(), kHostMac.end(), frame.begin() + 6);
    frame[12] = 0x08;
    EXPECT_THAT(b.Hear(0, 0, frame), IsEmpty());
    Bytes tagged = a.Tick(0)[0].frame;
    std::copy(dst.begin(), dst.end(), tagged.begin());
    tagged.insert(tagged.begin() + 12, {0x81, 0x00, 0x00, 0x05});
    EXPECT_THAT(b.Hear(0, 0, tagged), IsEmpty());
  }
  EXPECT_EQ(b.core().counters().forwarded_frames, 0U);
}

// Messages with anything else could not be parsed.
TEST(Neighbours, WhatCannotBeIsCountedAtItsPort) {
  Station a(1), b(2), c(3);
  const Bytes own = a.Tick(0)[0].frame;
  a.Hear(0, 0, own);
  EXPECT_EQ(a.Counted(0, HelloCount::kFromItself), 1U);
  Bytes forged = b.Tick(0)[0].frame;
  forged[11] = 9;
  a.Hear(0, 0, forged);
  EXPECT_EQ(a.Counted(0, HelloCount::kOtherSource), 1U);
  Bytes cut = b.Tick(0)[0].frame;
  cut.resize(30);
  a.Hear(0, 0, cut);
  EXPECT_EQ(a.Counted(0, HelloCount::kMalformed), 1U);
  EXPECT_THAT(a.At(0), IsEmpty());
  EXPECT_EQ(a.Changes(), 0);

  a.Hear(0, 0, b.Tick(0)[0].frame);
  EXPECT_EQ(a.Counted(0, HelloCount::kSecondSwitch), 0U);
  a.Hear(0, 0, c.Tick(0)[0].frame);
  EXPECT_EQ(a.Counted(0, HelloCount::kSecondSwitch), 1U);
  EXPECT_THAT(a.At(0), SizeIs(2));  // which is right, the manager judges
  for (size_t what = 0; what < static_cast<size_t>(HelloCount::kCount); ++what)
    EXPECT_EQ(a.Counted(1, static_cast<HelloCount>(what)), 0U) << Name(static_cast<HelloCount>(what));
}

TEST(Neighbours, NeighboursAndTheirRateAreBounded) {
  Station a(1);
  Nanos now = 10 * kSecond;
  for (int i = 0; i < 20; ++i) {
    const std::string name = "h" + std::to_string(i);
    roce::Lldp host = HostLldp(name);
    host.port_kind = roce::PortKind::kLocal;
    host.port = name;
    a.Hear(now, 0, Written(host));
  }
  EXPECT_THAT(a.At(0), SizeIs(Neighbours::kMaxByLldp));
  EXPECT_EQ(a.Counted(0, HelloCount::kBeyondBound), 4U);
  for (int i = 0; i < 100; ++i) a.Hear(now, 0, Written(HostLldp("h0"sv)));
  EXPECT_EQ(a.Counted(0, HelloCount::kBeyondRate), 120U - 64);

  for (uint32_t i = 0; i < 15; ++i) a.Hear(now, 1, Written(HostArp(Ipv4{0x0a000100 + i})));
  EXPECT_THAT(a.At(1), SizeIs(10));
  EXPECT_EQ(a.Counted(1, HelloCount::kArpBeyondRate), 5U);
  for (uint32_t i = 0; i < 100; ++i) a.Hear(now += kSecond, 1, Written(HostArp(Ipv4{0x0a000200 + i})));
  EXPECT_THAT(a.At(1), SizeIs(Neighbours::kMaxByArp));
  EXPECT_EQ(a.At(1).front().ip, Ipv4{0x0a000224});  // the newest 64
  EXPECT_EQ(a.Counted(1, HelloCount::kArpBeyondRate), 5U);
}

TEST(Neighbours, ASwitchWithoutNamesIsSilent) {
  Switch quiet({.address = SwitchIp(1), .mac = SwitchMac(1), .port_count = 2, .arena_bytes = 4096});
  Station sink(2);
  sink.Take();
  quiet.OnPort(0, 0, true, sink);
  quiet.OnHelloTime(kSecond, sink);
  EXPECT_THAT(sink.Take(), IsEmpty());
}

}  // namespace
}  // namespace epic::engine::testing
