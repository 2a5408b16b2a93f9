// Forgeries of what is peculiar to some modes.
#include <gtest/gtest.h>

#include <cstring>

#include "check/conform/forgery_testing.h"

namespace epic::conform {
namespace {

// The trace of a switch with more slots than it was given. (Mode I counts bytes, which are not judged.)
TEST(Forgery, BeyondTheBuffersOfModeII) {
  Recording recording = RootOfStar(Mode::kTranslated, kCopy);
  recording.events[0].group.slots = 1;
  const Verdict verdict = Play(recording);
  ASSERT_FALSE(verdict.accepted());
  EXPECT_EQ(std::string(Name(verdict.first[0].rule)), "window") << Describe(verdict.first[0]);
}

// A child has acknowledged no control packet, nor been told so, and still the results of a Broadcast go down.
TEST(Forgery, ResultsOfModeIIBeforeAllHaveAcknowledged) {
  Recording recording = RootOfStar(Mode::kTranslated, kCopy);
  const auto silent = recording.group().children[2];
  std::erase_if(recording.events, [&](const Event& e) {
    return (e.in() && e.IsAck() && e.packet.bth.dest_qp == silent.local_qpn) ||
           (OutAck(e) && e.packet.bth.dest_qp == silent.remote_qpn);
  });
  ExpectRefused(recording, Rule::kWindow, recording.Find(OutData));
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

// 1 + 1 + 2^24 in the order of children is 2^24 + 2, in another order 2^24.
TEST(Forgery, AnotherOrderOfAReproducibleSum) {
  ControlHeader header = kSum;
  header.type = DataType::kFloat32;
  for (const ModeInfo& row : kModesOfOwnMemory) {
    if (row.ends_connections) continue;
    Recording recording = RootOfStar(row.mode, header);
    const auto children = recording.group().children;
    const auto put = [&](size_t at, float value) {
      std::memcpy(&recording.events[at].payload[0], &value, 4);
    };
    const size_t sum = recording.Find(OutData);
    for (size_t c = 0; c < children.size(); ++c) {
      for (size_t i = 0; i < recording.events.size(); ++i) {
        const Event& e = recording.events[i];
        if (InData(e) && e.packet.bth.dest_qp == children[c].local_qpn &&
            e.packet.bth.psn == children[c].in_psn + 1) {
          put(i, c == 2 ? 0x1p24f : 1.0f);
        }
        if (OutData(e) && e.packet.bth.dest_qp == children[c].remote_qpn &&
            e.packet.bth.psn == children[c].out_psn + 1) {
          put(i, 0x1p24f);
        }
      }
    }
    EXPECT_TRUE(Play(recording).accepted());
    recording.events[0].group.reproducible = true;
    ExpectRefused(recording, Rule::kPayload, sum);
  }
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

// Modes that repeat hop by hop: what has been acknowledged, or is in a sum that was sent, is not asked for
// again.
TEST(Forgery, ANakOfWhatHasBeenUsed) {
  for (const ModeInfo& row : kModesOfOwnMemory) {
    if (row.reliability != Reliability::kPerHop) continue;
    Recording recording = RootOfStar(row.mode);
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
