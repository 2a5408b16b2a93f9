// Recordings of a right switch are accepted; each forgery is refused at the forged packet, by the rule that
// it breaks.
#include <gtest/gtest.h>

#include <cstring>

#include "check/conform/recording_testing.h"

namespace epic::conform {
namespace {

using engine::Mode;

constexpr ControlHeader kSum{
    .collective = Collective::kAllReduce, .op = ReduceOp::kSum, .type = DataType::kInt32, .count = 640};
constexpr ControlHeader kCopy{
    .collective = Collective::kBroadcast, .type = DataType::kInt32, .count = 640, .root = 1};
constexpr ControlHeader kReduce{.collective = Collective::kReduce,
                                .op = ReduceOp::kSum,
                                .type = DataType::kInt32,
                                .count = 640,
                                .root = 1};

// Messages of one packet, so that MSN and PSN go together.
sim::WorldConfig Config(Mode mode, const sim::TreeSpec& tree) {
  return {.mode = mode, .tree = tree, .path_mtu = 256, .message_packets = 1, .window_messages = 4};
}
Recording RootOfStar(Mode mode, const ControlHeader& header = kSum) {
  return Record(Config(mode, sim::Star(3)), 0, {header, header});
}
Recording Leaf(Mode mode, const ControlHeader& header = kSum) {
  return Record(Config(mode, sim::FullTree(2, 2)), 1, {header, header});
}
Recording Lossy(Mode mode) {
  return Record(Config(mode, sim::Star(3)), 0, {kSum, kSum, kSum, kSum}, {.loss_ppm = 40000});
}

// The first thing found wrong is this rule, at this event.
void ExpectRefused(const Recording& recording, Rule rule, size_t at) {
  const Verdict verdict = Play(recording);
  ASSERT_FALSE(verdict.accepted()) << "not refused by " << Name(rule);
  EXPECT_EQ(std::string(Name(verdict.first[0].rule)), Name(rule)) << Describe(verdict.first[0]);
  EXPECT_EQ(verdict.first[0].line, at) << Describe(verdict.first[0]);
}

class ForgeryTest : public testing::TestWithParam<Mode> {};
INSTANTIATE_TEST_SUITE_P(Modes, ForgeryTest,
                         testing::Values(Mode::kTerminated, Mode::kTranslated, Mode::kAugmented),
                         [](const auto& param) {
                           return "Mode" + std::to_string(static_cast<int>(param.param));
                         });

bool OutData(const Event& e) { return e.out() && e.IsData(); }
bool OutControl(const Event& e) { return e.out() && e.IsControl(); }
bool OutAck(const Event& e) { return e.out() && e.IsAck(); }
bool InData(const Event& e) { return e.in() && e.IsData(); }

TEST_P(ForgeryTest, WhatWasRecordedIsAccepted) {
  for (const Recording& recording :
       {RootOfStar(GetParam()), Leaf(GetParam()), Lossy(GetParam()), Leaf(GetParam(), kCopy),
        Leaf(GetParam(), kReduce), RootOfStar(GetParam(), kReduce), RootOfStar(GetParam(), kCopy)}) {
    const Verdict verdict = Play(recording);
    EXPECT_TRUE(verdict.accepted()) << Describe(verdict.first[0]);
    EXPECT_GT(verdict.judged[static_cast<size_t>(Rule::kPayload)], 10u);
    EXPECT_GT(verdict.judged[static_cast<size_t>(Rule::kAck)], 10u);
  }
}

TEST_P(ForgeryTest, ABitOfASum) {
  for (Recording recording : {RootOfStar(GetParam()), Leaf(GetParam())}) {
    const size_t at = recording.Find(OutData);
    recording.events[at].payload[17] ^= 4;
    ExpectRefused(recording, Rule::kPayload, at);
  }
}

TEST_P(ForgeryTest, ABitOfAResultOnItsWayDown) {
  Recording recording = Leaf(GetParam());
  const size_t at = recording.Find([&](const Event& e) { return OutData(e) && !recording.Above(e); });
  recording.events[at].payload[200] ^= 1;
  ExpectRefused(recording, Rule::kPayload, at);
}

TEST_P(ForgeryTest, ADifferentResultForOneChild) {
  Recording recording = RootOfStar(GetParam());
  const size_t at = recording.Find(OutData, recording.Find(OutData) + 1);
  ASSERT_EQ(recording.events[at - 1].payload, recording.events[at].payload) << "a second copy of the result";
  recording.events[at].payload[0] ^= 1;
  ExpectRefused(recording, Rule::kPayload, at);
}

TEST_P(ForgeryTest, AContributionCountedTwice) {
  Recording recording = RootOfStar(GetParam());
  const size_t at = recording.Find(OutData);
  size_t last = at;  // the contribution that made it complete
  while (!InData(recording.events[last])) --last;
  PacketBytes& sum = recording.events[at].payload;
  for (size_t i = 0; i < sum.size(); i += 4) {
    uint32_t a, b;
    std::memcpy(&a, &sum[i], 4);
    std::memcpy(&b, &recording.events[last].payload[i], 4);
    a += b;
    std::memcpy(&sum[i], &a, 4);
  }
  ExpectRefused(recording, Rule::kPayload, at);
}

TEST_P(ForgeryTest, AResultBeforeTheLastContribution) {
  Recording recording = RootOfStar(GetParam());
  const size_t at = recording.Find(OutData);
  size_t last = at;
  while (!InData(recording.events[last])) --last;
  recording.Move(at, last);
  ExpectRefused(recording, Rule::kContribution, last);
}

TEST_P(ForgeryTest, AResultBeforeTheParentsOwn) {
  Recording recording = Leaf(GetParam());
  const size_t at = recording.Find([&](const Event& e) { return OutData(e) && !recording.Above(e); });
  size_t last = at;
  while (!InData(recording.events[last]) || !recording.Above(recording.events[last])) --last;
  recording.Move(at, last);
  ExpectRefused(recording, Rule::kResult, last);
}

TEST_P(ForgeryTest, AnAckOneTooFar) {
  Recording recording = RootOfStar(GetParam());
  const size_t at = recording.Find(OutAck);
  roce::Packet& packet = recording.events[at].packet;
  packet.bth.psn = packet.bth.psn + 1;
  ++packet.aeth.msn;
  ExpectRefused(recording, Rule::kAck, at);
}

TEST_P(ForgeryTest, ANakOfMoreThanIsMissing) {
  Recording recording = Lossy(GetParam());
  const size_t at = recording.Find([](const Event& e) {
    return e.out() && e.IsAeth() && e.packet.aeth.syndrome == roce::kSyndromeNakSequence;
  });
  roce::Packet& packet = recording.events[at].packet;
  packet.bth.psn = packet.bth.psn + 1;
  ++packet.aeth.msn;
  ExpectRefused(recording, Rule::kNak, at);
}

TEST_P(ForgeryTest, AWrongMsn) {
  Recording recording = RootOfStar(GetParam());
  const size_t at = recording.Find(OutAck, recording.Find(OutData));
  ++recording.events[at].packet.aeth.msn;
  ExpectRefused(recording, Rule::kMsn, at);
}

TEST_P(ForgeryTest, ASyndromeThatNobodySends) {
  Recording recording = RootOfStar(GetParam());
  const size_t at = recording.Find(OutAck);
  recording.events[at].packet.aeth.syndrome = roce::kSyndromeNakRemoteOperational;
  ExpectRefused(recording, Rule::kSyndrome, at);
}

TEST_P(ForgeryTest, ARefusalOfAHostThatDidNothingWrong) {
  Recording recording = RootOfStar(GetParam());
  const size_t at = recording.Find(OutAck);
  recording.events[at].packet.aeth.syndrome = roce::kSyndromeNakInvalidRequest;
  ExpectRefused(recording, Rule::kSyndrome, at);
}

TEST_P(ForgeryTest, AWrongImmediate) {
  Recording recording = RootOfStar(GetParam());
  const size_t at = recording.Find(OutControl);
  ++recording.events[at].packet.imm;
  ExpectRefused(recording, Rule::kImmediate, at);
}

TEST_P(ForgeryTest, AWrongOpcode) {
  Recording recording = RootOfStar(GetParam());
  const size_t at = recording.Find(OutData);
  recording.events[at].packet.bth.opcode = roce::Opcode::kRcSendFirst;
  ExpectRefused(recording, Rule::kOpcode, at);
}

TEST_P(ForgeryTest, AShortPacket) {
  Recording recording = RootOfStar(GetParam());
  const size_t at = recording.Find(OutData);
  recording.events[at].payload.resize(recording.events[at].payload.size() - 4);
  ExpectRefused(recording, Rule::kLength, at);
}

TEST_P(ForgeryTest, AStatusThatNobodyCaused) {
  Recording recording = RootOfStar(GetParam());
  const size_t at = recording.Find(OutControl);
  ControlHeader header = *DecodeControl(recording.events[at].payload);
  header.status = ControlStatus::kMismatch;
  Encode(header, std::span<uint8_t, kControlBytes>(recording.events[at].payload));
  ExpectRefused(recording, Rule::kControl, at);
}

// The packet of one child is sent to another, by the other's port.
TEST_P(ForgeryTest, APacketToTheWrongChild) {
  Recording recording = RootOfStar(GetParam());
  const size_t at = recording.Find(OutData);
  const auto& children = recording.group().children;
  Event& e = recording.events[at];
  const engine::EndpointConfig& other =
      e.packet.bth.dest_qp == children[0].remote_qpn ? children[1] : children[0];
  e.packet.dst_ip = other.remote_ip;
  e.packet.bth.dest_qp = other.remote_qpn;
  e.port = other.port;
  ExpectRefused(recording, Rule::kPosition, at);
}

// The root of a Broadcast gets its own data back, at the PSN that would be next.
TEST_P(ForgeryTest, APacketToAChildThatDoesNotReceiveIt) {
  sim::WorldConfig config = Config(GetParam(), sim::Star(3));
  config.start_psn = 100;
  Recording recording = Record(config, 0, {kCopy});
  const size_t at = recording.Find(OutData);
  const engine::EndpointConfig& root = recording.group().children[kCopy.root];
  Event copy = recording.events[at];
  copy.packet.dst_ip = root.remote_ip;
  copy.packet.bth.dest_qp = root.remote_qpn;
  copy.port = root.port;
  recording.Insert(at, copy);
  ExpectRefused(recording, Rule::kPosition, at);
}

TEST_P(ForgeryTest, APacketLeftOut) {
  Recording recording = RootOfStar(GetParam());
  const size_t at = recording.Find(OutData);
  const Qpn to = recording.events[at].packet.bth.dest_qp;
  recording.events.erase(recording.events.begin() + static_cast<int64_t>(at));
  ExpectRefused(recording, Rule::kPosition,
                recording.Find([&](const Event& e) { return OutData(e) && e.packet.bth.dest_qp == to; }));
}

TEST_P(ForgeryTest, ARepetitionThatDiffers) {
  Recording recording = RootOfStar(GetParam());
  const size_t at = recording.Find(OutData);
  Event again = recording.events[at];
  recording.Insert(at + 1, again);
  EXPECT_TRUE(Play(recording).accepted()) << "a switch may repeat what it has sent";
  recording.events[at + 1].payload[3] ^= 0x80;
  ExpectRefused(recording, Rule::kRepeat, at + 1);
}

TEST_P(ForgeryTest, ToNobody) {
  Recording recording = RootOfStar(GetParam());
  const size_t at = recording.Find(OutData);
  recording.events[at].packet.dst_ip = Ipv4{0x0a0a0a0a};
  ExpectRefused(recording, Rule::kAddress, at);
}

TEST_P(ForgeryTest, ByAnotherPort) {
  Recording recording = RootOfStar(GetParam());
  const size_t at = recording.Find(OutData);
  recording.events[at].port ^= 1;
  ExpectRefused(recording, Rule::kAddress, at);
}

TEST_P(ForgeryTest, InAnothersName) {
  Recording recording = RootOfStar(GetParam());
  const size_t at = recording.Find(OutAck);
  recording.events[at].packet.src_ip = Ipv4{0x0a0a0a0a};
  ExpectRefused(recording, Rule::kAddress, at);
}

TEST_P(ForgeryTest, AStrangersPacketCountsForNothing) {
  Recording recording = RootOfStar(GetParam());
  const size_t at = recording.Find([](const Event& e) { return e.in() && e.IsControl(); });
  recording.events[at].packet.src_ip = Ipv4{0x0a0a0a0a};
  EXPECT_FALSE(Play(recording).accepted());
}

TEST_P(ForgeryTest, OfARemovedGroup) {
  Recording recording = RootOfStar(GetParam());
  const size_t at = recording.Find(OutData);
  recording.Insert(at,
                   {.kind = Event::Kind::kRemove, .packet = {}, .payload = {}, .group = recording.group()});
  ExpectRefused(recording, Rule::kInstalled, at + 1);
}

TEST_P(ForgeryTest, OfAStoppedGroup) {
  Recording recording = RootOfStar(GetParam());
  const size_t at = recording.Find(OutData);
  recording.Insert(at, {.kind = Event::Kind::kFail, .packet = {}, .payload = {}, .group = recording.group()});
  ExpectRefused(recording, Rule::kStopped, at + 1);
}

TEST_P(ForgeryTest, ANotificationToAHostThatKeepsItsPlace) {
  Recording recording = RootOfStar(GetParam());
  const size_t at = recording.Find(OutAck);
  recording.events[at].packet.bth.opcode = roce::Opcode::kCnp;
  ExpectRefused(recording, Rule::kCnp, at);
}

// A packet of one group makes another send.
TEST_P(ForgeryTest, AStepOfAnotherGroup) {
  const sim::GroupSpec other{.mode = GetParam(), .rank_host = {0, 1, 2}};
  Recording recording = Record(Config(GetParam(), sim::Star(3)), 0, {kSum}, {}, {other});
  const Qpn of_second = recording.events[1].group.children[0].local_qpn;
  const size_t out = recording.Find(OutData);
  const size_t in =
      recording.Find([&](const Event& e) { return InData(e) && e.packet.bth.dest_qp == of_second; }, out);
  recording.Insert(in + 1, recording.events[out]);
  EXPECT_TRUE(Play(recording).accepted());
  recording.events[in].step_known = true;
  ExpectRefused(recording, Rule::kIsolation, in + 1);
}

// The trace of a switch with more slots than it was given. (Mode I counts bytes, which are not judged.)
TEST(Forgery, BeyondTheBuffersOfModeII) {
  Recording recording = RootOfStar(Mode::kTranslated, kCopy);
  recording.events[0].group.slots = 1;
  const Verdict verdict = Play(recording);
  ASSERT_FALSE(verdict.accepted());
  EXPECT_EQ(std::string(Name(verdict.first[0].rule)), "window") << Describe(verdict.first[0]);
}

// A child has acknowledged nothing, and still the results go on after the slots are full.
TEST(Forgery, BeyondTheBuffersOfModeIII) {
  Recording recording = RootOfStar(Mode::kAugmented);
  const Qpn silent = recording.group().children[0].local_qpn;
  std::erase_if(recording.events,
                [&](const Event& e) { return e.in() && e.IsAck() && e.packet.bth.dest_qp == silent; });
  const Verdict verdict = Play(recording);
  ASSERT_FALSE(verdict.accepted());
  EXPECT_EQ(std::string(Name(verdict.first[0].rule)), "window") << Describe(verdict.first[0]);
}

// Mode II: a Broadcast's sender, or a Reduce's, hears before its receivers have acknowledged.
TEST(Forgery, AnAckBeforeTheReceivers) {
  for (const ControlHeader& header : {kCopy, kReduce}) {
    Recording recording = RootOfStar(Mode::kTranslated, header);
    const auto& children = recording.group().children;
    const bool copies = header.collective == Collective::kBroadcast;
    const Qpn sender = children[copies ? header.root : 0].remote_qpn;
    const Psn first_data = children[copies ? header.root : 0].in_psn + 1;
    const size_t at = recording.Find([&](const Event& e) {
      return OutAck(e) && e.packet.bth.dest_qp == sender && e.packet.bth.psn == first_data;
    });
    size_t before = at;
    while (!recording.events[before].in() || !recording.events[before].IsAck()) --before;
    recording.Move(at, before);
    ExpectRefused(recording, Rule::kAck, before);
  }
}

// Mode II: data go on after the ranks have turned out to call differently.
TEST(Forgery, DataAfterABadStatus) {
  Recording recording = RootOfStar(Mode::kTranslated);
  const size_t reply = recording.Find(OutControl);
  size_t last = reply;  // the control packet that made it complete
  while (!recording.events[last].IsControl() || !recording.events[last].in()) --last;
  ControlHeader header = *DecodeControl(recording.events[last].payload);
  ++header.count;
  Encode(header, std::span<uint8_t, kControlBytes>(recording.events[last].payload));
  --header.count;
  header.status = ControlStatus::kMismatch;
  header.field = ControlField::kCount;
  const auto& children = recording.group().children;
  for (uint32_t c = 0; c < children.size(); ++c) {
    if (children[c].local_qpn == recording.events[last].packet.bth.dest_qp) header.culprit = c;
  }
  for (size_t i = reply; OutControl(recording.events[i]); ++i)
    Encode(header, std::span<uint8_t, kControlBytes>(recording.events[i].payload));
  ExpectRefused(recording, Rule::kFailed, recording.Find(OutData));
}

// Mode II knows no RNR NAK between switches.
TEST(Forgery, AnRnrNakToASwitch) {
  Recording recording = Leaf(Mode::kTranslated, kCopy);
  const size_t at = recording.Find([&](const Event& e) { return OutAck(e) && recording.Above(e); });
  recording.events[at].packet.aeth.syndrome = roce::kSyndromeRnrNak | 1;
  ExpectRefused(recording, Rule::kSyndrome, at);
}

// Modes I and III: what has been acknowledged, or is in a sum that was sent, is not asked for again.
TEST(Forgery, ANakOfWhatHasBeenUsed) {
  for (const Mode mode : {Mode::kTerminated, Mode::kAugmented}) {
    Recording recording = RootOfStar(mode);
    const size_t ack = recording.Find(OutAck);
    Event nak = recording.events[ack];
    nak.packet.aeth = {.syndrome = roce::kSyndromeNakSequence, .msn = 0};
    Recording acknowledged = recording;
    acknowledged.Insert(ack + 1, nak);
    ExpectRefused(acknowledged, Rule::kNak, ack + 1);

    std::erase_if(recording.events, OutAck);
    const size_t reply = recording.Find(OutControl);
    recording.Insert(reply + 1, nak);
    ExpectRefused(recording, Rule::kNak, reply + 1);
  }
}

}  // namespace
}  // namespace epic::conform
