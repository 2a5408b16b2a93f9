// Recordings of a right switch are accepted; each forgery is refused at the forged packet, by the rule that
// it breaks.
#include <gtest/gtest.h>

#include <cstring>

#include "check/conform/forgery_testing.h"

namespace epic::conform {
namespace {

class ForgeryTest : public testing::TestWithParam<Mode> {};
INSTANTIATE_TEST_SUITE_P(Modes, ForgeryTest, testing::ValuesIn(ModesOfOwnMemory()), [](const auto& param) {
  return "Mode" + std::to_string(static_cast<int>(param.param));
});

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
  e.packet.src_ip = engine::LocalAddress(other, recording.address);
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
  copy.packet.src_ip = engine::LocalAddress(root, recording.address);
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

TEST_P(ForgeryTest, APacketByAnotherPortThanTheEdgesCountsForNothing) {
  Recording recording = RootOfStar(GetParam());
  const size_t at = recording.Find(InData);
  ++recording.events[at].port;
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

}  // namespace
}  // namespace epic::conform
