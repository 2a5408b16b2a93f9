// Packet in, packets out: the rows of docs/PROTOCOL.md, section 5, one by one, on a leaf with two hosts.
#include "incengine/core/engine.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>

#include "protocol/control.h"

namespace epic::engine {
namespace {

using roce::Opcode;

constexpr Ipv4 kOwn{0x0a00ff01};
constexpr uint32_t kInPsn = 0xfffffe;  // wraps with the third packet
constexpr uint32_t kOutPsn = 100;


struct Sent {
  PortId port;
  roce::Packet packet;
  std::vector<uint8_t> payload;
};

class EngineTest : public testing::Test, public Effects {
 protected:
  void Send(PortId port, const OutPacket& out) override {
    sent.push_back({port, out.packet, {out.packet.payload.begin(), out.packet.payload.end()}});
  }
  void SetTimer(TimerId id, Nanos deadline) override {
    timer_id = id;
    timer = deadline;
  }
  void Drop(PortId, DropReason reason) override { drops.push_back(reason); }

  static EndpointConfig Child(uint32_t number, bool host) {
    return {.local_qpn = Qpn{0x100 + number},
            .remote_ip = Ipv4{0x0a000001 + number},
            .remote_qpn = Qpn{0x11 + number},
            .port = static_cast<PortId>(number),
            .in_psn = Psn(kInPsn),
            .out_psn = Psn(kOutPsn),
            .is_host = host,
            .rank = number};
  }

  // Two hosts on ports 0 and 1; with a parent on port 2 unless this is the root.
  static GroupConfig Config(bool root) {
    GroupConfig config{.group_id = 7,
                       .generation = 1,
                       .name = "test",
                       .world_size = 2,
                       .path_mtu = 256,
                       .message_packets = 2,
                       .window_messages = 2,
                       .slots = 8,
                       .children = {Child(0, true), Child(1, true)},
                       .prompt_ns = kMillisecond};
    if (!root) config.parent = Child(2, false);
    return config;
  }

  void Install(bool root) { ASSERT_TRUE(engine.Install(Config(root)).ok()); }

  roce::Packet From(uint32_t child, Psn psn, Opcode opcode, std::span<const uint8_t> payload = {}) {
    roce::Packet p;
    p.src_ip = Ipv4{0x0a000001 + child};
    p.dst_ip = kOwn;
    p.bth.dest_qp = Qpn{0x100 + child};
    p.bth.psn = psn;
    p.bth.opcode = opcode;
    p.payload = payload;
    return p;
  }
  void Deliver(const roce::Packet& packet) {
    sent.clear();
    drops.clear();
    engine.OnPacket(now, 0, packet, *this);
  }

  // An AllReduce of `count` INT32 opened by a child; index 0 of a new group.
  void Control(uint32_t child, uint64_t count, uint64_t invocation = 0, Index index = 0) {
    const ControlHeader header{.collective = Collective::kAllReduce,
                               .op = ReduceOp::kSum,
                               .type = DataType::kInt32,
                               .invocation = invocation,
                               .count = count};
    std::array<uint8_t, kControlBytes> bytes;
    Encode(header, bytes);
    Deliver(From(child, Psn(kInPsn) + index, Opcode::kRcSendOnlyImm, bytes));
  }
  // Data packet `at` (64 words of one value) of an invocation whose control packet has index 0.
  void Data(uint32_t child, int64_t at, int32_t value, Opcode opcode, bool ack_req = false) {
    std::vector<int32_t> words(64, value);
    roce::Packet p = From(child, Psn(kInPsn) + 1 + at, opcode,
                          {reinterpret_cast<const uint8_t*>(words.data()), words.size() * 4});
    p.bth.ack_req = ack_req;
    Deliver(p);
  }
  void Ack(uint32_t child, uint8_t syndrome, Index index) {
    roce::Packet p = From(child, Psn(kOutPsn) + index, Opcode::kRcAck);
    p.aeth.syndrome = syndrome;
    Deliver(p);
  }
  void Fire() {
    sent.clear();
    drops.clear();
    now = timer;
    engine.OnTimer(now, timer_id, *this);
  }
  static int32_t Word(const Sent& s, size_t i = 0) {
    int32_t word;
    std::memcpy(&word, s.payload.data() + 4 * i, 4);
    return word;
  }
  const Context& context() const { return engine.groups().at(7); }

  Engine engine{kOwn, 4, 1 << 20};
  Nanos now = 0;
  Nanos timer = kNever;
  TimerId timer_id{};
  std::deque<Sent> sent;
  std::vector<DropReason> drops;
};

TEST_F(EngineTest, RootSendsTheSumToEveryChildInItsOwnPsns) {
  Install(true);
  Control(0, 128);
  EXPECT_TRUE(sent.empty());
  Control(1, 128);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].packet.bth.opcode, Opcode::kRcSendOnlyImm);
  EXPECT_EQ(DecodeControl(sent[0].payload)->status, ControlStatus::kOk);
  Data(0, 0, 5, Opcode::kRcSendFirst);
  Data(1, 0, 7, Opcode::kRcSendFirst, /*ack_req=*/true);
  ASSERT_EQ(sent.size(), 2u);
  for (uint32_t c = 0; c < 2; ++c) {
    EXPECT_EQ(sent[c].port, c);
    EXPECT_EQ(sent[c].packet.bth.dest_qp, Qpn{0x11 + c});
    EXPECT_EQ(sent[c].packet.bth.psn, Psn(kOutPsn + 1));
    EXPECT_EQ(sent[c].packet.bth.opcode, Opcode::kRcSendFirst);
    EXPECT_TRUE(sent[c].packet.bth.ack_req) << "AckReq is the OR over the contributors";
    EXPECT_EQ(Word(sent[c], 63), 12);
  }
}

TEST_F(EngineTest, LeafSendsOnePartialSumUpAndReplicatesTheResult) {
  Install(false);
  Control(0, 64);
  Control(1, 64);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].port, 2);
  Data(0, 0, 5, Opcode::kRcSendOnly);
  Data(1, 0, 7, Opcode::kRcSendOnly);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].packet.bth.psn, Psn(kOutPsn + 1));
  EXPECT_EQ(Word(sent[0]), 12);
}

TEST_F(EngineTest, ResultThatThisSwitchHasNoPartInIsRefused) {
  Install(false);
  Control(0, 64);
  Control(2, 64);  // port 2 is the parent's: a reply before the second host has called
  EXPECT_EQ(drops, std::vector{DropReason::kUnexpectedResult});
  EXPECT_TRUE(sent.empty());
}

TEST_F(EngineTest, AckIsReflectedInTheHostsOwnPsns) {
  Install(true);
  Control(0, 256);
  Control(1, 256);
  for (int at = 0; at < 3; ++at) {
    const Opcode opcode = at % 2 == 0 ? Opcode::kRcSendFirst : Opcode::kRcSendLast;
    Data(0, at, 1, opcode);
    Data(1, at, 1, opcode);
  }
  Ack(0, roce::kSyndromeAck, 2);  // the control reply and a message of two packets
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].packet.bth.opcode, Opcode::kRcAck);
  EXPECT_EQ(sent[0].packet.bth.psn, Psn(kInPsn) + 2);
  EXPECT_EQ(sent[0].packet.aeth.syndrome, roce::kSyndromeAck);
  EXPECT_EQ(sent[0].packet.aeth.msn, 2u);
  Ack(0, roce::kSyndromeAck, 2);
  EXPECT_TRUE(sent.empty()) << "an acknowledgement that is not new is not reflected";
  Ack(0, roce::kSyndromeAck, 3);
  EXPECT_EQ(sent.at(0).packet.aeth.msn, 2u) << "half a message more is no message more";
}

TEST_F(EngineTest, NakAcknowledgesWhatIsBeforeItAndIsReflectedThere) {
  Install(true);
  Control(0, 128);
  Control(1, 128);
  Data(0, 0, 1, Opcode::kRcSendFirst);
  Data(1, 0, 1, Opcode::kRcSendFirst);
  Ack(0, roce::kSyndromeNakSequence, 1);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].packet.aeth.syndrome, roce::kSyndromeNakSequence);
  EXPECT_EQ(sent[0].packet.bth.psn, Psn(kInPsn) + 1);
  EXPECT_EQ(context().children[0].last_down_acked, 0);
}

TEST_F(EngineTest, AckOfWhatWasNeverSentIsRefused) {
  Install(true);
  Control(0, 128);
  Control(1, 128);
  Ack(0, roce::kSyndromeAck, 1);
  EXPECT_EQ(drops, std::vector{DropReason::kAckBeyond});
  Ack(0, roce::kSyndromeAck, 5000);
  EXPECT_EQ(drops, std::vector{DropReason::kAckBeyond});
  EXPECT_TRUE(sent.empty());
}

TEST_F(EngineTest, GapIsAnsweredOnceAndNotAtTheGap) {
  Install(true);
  Control(0, 256);
  Control(1, 256);
  Data(0, 0, 1, Opcode::kRcSendFirst);
  Data(0, 2, 1, Opcode::kRcSendFirst);  // packet 1 is lost
  EXPECT_EQ(drops, std::vector{DropReason::kGap});
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].packet.aeth.syndrome, roce::kSyndromeNakSequence);
  EXPECT_EQ(sent[0].packet.bth.psn, Psn(kInPsn)) << "lastDownAcked + 1: naming the gap would acknowledge packet 0";
  Data(0, 3, 1, Opcode::kRcSendLast);
  EXPECT_TRUE(sent.empty()) << "once per gap";
}

TEST_F(EngineTest, DuplicateIsNotAddedAgain) {
  Install(true);
  Control(0, 64);
  Control(1, 64);
  Data(0, 0, 5, Opcode::kRcSendOnly);
  Data(0, 0, 5, Opcode::kRcSendOnly);
  Data(1, 0, 7, Opcode::kRcSendOnly);
  EXPECT_EQ(Word(sent.at(0)), 12);
}

TEST_F(EngineTest, DuplicateWithoutResultIsToldToWait) {
  Install(true);
  Control(0, 64);
  Control(0, 64);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_TRUE(roce::IsRnrNak(sent[0].packet.aeth.syndrome));
  EXPECT_EQ(sent[0].packet.bth.psn, Psn(kInPsn));
  Control(0, 64);
  EXPECT_TRUE(sent.empty()) << "one answer per burst";
}

TEST_F(EngineTest, DuplicateWithResultGetsItAloneAgain) {
  Install(true);
  Control(0, 64);
  Control(1, 64);
  Data(0, 0, 5, Opcode::kRcSendOnly);
  Data(1, 0, 7, Opcode::kRcSendOnly);
  Data(0, 0, 5, Opcode::kRcSendOnly);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].port, 0);
  EXPECT_EQ(Word(sent[0]), 12);
  EXPECT_TRUE(sent[0].packet.bth.ack_req);
}

TEST_F(EngineTest, DuplicateOfWhatIsAcknowledgedGetsTheAckAgain) {
  Install(true);
  Control(0, 64);
  Control(1, 64);
  Ack(0, roce::kSyndromeAck, 0);
  Control(0, 64);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].packet.aeth.syndrome, roce::kSyndromeAck);
  EXPECT_EQ(sent[0].packet.bth.psn, Psn(kInPsn));
}

TEST_F(EngineTest, MismatchNamesFieldAndRankAndStopsData) {
  Install(true);
  Control(0, 64);
  Control(1, 128);
  ASSERT_EQ(sent.size(), 2u);
  const auto reply = DecodeControl(sent[0].payload);
  EXPECT_EQ(reply->status, ControlStatus::kMismatch);
  EXPECT_EQ(reply->field, ControlField::kCount);
  EXPECT_EQ(reply->culprit, 1u);
  Data(0, 0, 5, Opcode::kRcSendOnly);
  EXPECT_EQ(drops, std::vector{DropReason::kGroupFailed});
}

TEST_F(EngineTest, UnsupportedCollectiveIsRefusedByTheReply) {
  Install(true);
  for (uint32_t child : {0u, 1u}) {
    const ControlHeader header{.collective = Collective::kReduce, .type = DataType::kInt32, .count = 1};
    std::array<uint8_t, kControlBytes> bytes;
    Encode(header, bytes);
    Deliver(From(child, Psn(kInPsn), Opcode::kRcSendOnlyImm, bytes));
  }
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(DecodeControl(sent[0].payload)->status, ControlStatus::kUnsupported);
}

TEST_F(EngineTest, MalformedPacketsChangeNothing) {
  Install(true);
  Data(0, -1, 5, Opcode::kRcSendOnly);
  EXPECT_EQ(drops, std::vector{DropReason::kBadControl}) << "data where a control packet is due";
  Control(0, 64, /*invocation=*/1);
  EXPECT_EQ(drops, std::vector{DropReason::kBadControl}) << "the wrong invocation";
  Control(0, 128);
  Data(0, 0, 5, Opcode::kRcSendOnly);
  EXPECT_EQ(drops, std::vector{DropReason::kUnexpectedOpcode}) << "the position demands FIRST";
  std::vector<uint8_t> small(252);
  Deliver(From(0, Psn(kInPsn) + 1, Opcode::kRcSendFirst, small));
  EXPECT_EQ(drops, std::vector{DropReason::kBadLength});
  Deliver(From(0, Psn(kInPsn) + 1, Opcode::kRcWriteFirst, small));
  EXPECT_EQ(drops, std::vector{DropReason::kUnexpectedOpcode});
  EXPECT_EQ(context().children[0].up_epsn, 1);
}

TEST_F(EngineTest, StrangersAreDropped) {
  Install(true);
  roce::Packet p = From(0, Psn(kInPsn), Opcode::kRcSendOnlyImm);
  p.src_ip = Ipv4{0x0a000063};
  Deliver(p);
  EXPECT_EQ(drops, std::vector{DropReason::kStranger});
  p.bth.dest_qp = Qpn{0x999};
  Deliver(p);
  EXPECT_EQ(drops, std::vector{DropReason::kUnknownQpn});
}

TEST_F(EngineTest, PacketBeyondTheSlotsIsRefused) {
  Install(true);
  Control(0, 64 * 100);
  for (int at = 0; at < 7; ++at) Data(0, at, 1, at % 2 == 0 ? Opcode::kRcSendFirst : Opcode::kRcSendLast);
  EXPECT_TRUE(drops.empty());
  Data(0, 7, 1, Opcode::kRcSendLast);  // index 8, N = 8, no result yet
  EXPECT_EQ(drops, std::vector{DropReason::kAboveWindow});
}

TEST_F(EngineTest, SiblingThatStaysBehindIsPrompted) {
  Install(true);
  Control(0, 64);
  ASSERT_EQ(timer, kMillisecond);
  Fire();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].port, 1);
  EXPECT_TRUE(roce::IsRnrNak(sent[0].packet.aeth.syndrome));
  const Nanos first = timer;
  Fire();
  EXPECT_EQ(timer - first, 4 * kMillisecond) << "the wait doubles: 1, 2, 4 ms";
}

TEST_F(EngineTest, HostThatDoesNotAcknowledgeIsPrompted) {
  Install(true);
  Control(0, 64);
  Control(1, 64);
  Ack(0, roce::kSyndromeAck, 0);
  now = timer;
  Fire();
  bool prompted_b = false;
  for (const Sent& s : sent) {
    if (roce::IsRnrNak(s.packet.aeth.syndrome)) {
      EXPECT_EQ(s.port, 1);
      prompted_b = true;
    }
  }
  EXPECT_TRUE(prompted_b);
}

TEST_F(EngineTest, LastReflectedAckIsRepeatedOnce) {
  Install(true);
  Control(0, 64);
  Control(1, 64);
  Ack(1, roce::kSyndromeAck, 0);
  now = 1;
  Ack(0, roce::kSyndromeAck, 0);
  int acks = 0;
  for (int i = 0; i < 5 && timer != kNever && timer > now; ++i) {
    Fire();
    for (const Sent& s : sent) acks += s.port == 0 && roce::IsAck(s.packet.aeth.syndrome);
  }
  EXPECT_EQ(acks, 1);
}

TEST_F(EngineTest, LeafRepeatsItsPartialSumUntilTheResultComes) {
  Install(false);
  Control(0, 64);
  Control(1, 64);
  Fire();
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent[0].port, 2);
  EXPECT_EQ(sent[0].packet.bth.psn, Psn(kOutPsn));
  EXPECT_EQ(context().counters.uplink_timeouts, 1u);
}

TEST_F(EngineTest, GapFromTheParentIsAskedForOnce) {
  Install(false);
  Control(0, 128);
  Control(1, 128);
  for (uint32_t c : {0u, 1u}) {
    Data(c, 0, 1, Opcode::kRcSendFirst);
    Data(c, 1, 1, Opcode::kRcSendLast);
  }
  Data(2, 0, 2, Opcode::kRcSendFirst);  // the control reply is lost
  EXPECT_EQ(drops, std::vector{DropReason::kGap});
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].port, 2);
  EXPECT_EQ(sent[0].packet.aeth.syndrome, roce::kSyndromeNakSequence);
  EXPECT_EQ(sent[0].packet.bth.psn, Psn(kInPsn)) << "names the first result that is missing";
  Data(2, 1, 2, Opcode::kRcSendLast);
  EXPECT_TRUE(sent.empty());
}

TEST_F(EngineTest, RequestOfManyHostsReachesTheParentOnce) {
  Install(false);
  Control(0, 64);
  Control(1, 64);
  Control(2, 64);  // the reply
  ASSERT_EQ(sent.size(), 2u);
  now += 10 * kMillisecond;
  Control(0, 64);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].port, 2);
  Control(1, 64);
  EXPECT_TRUE(sent.empty()) << "asked already";
  Control(2, 64);  // the reply again
  EXPECT_EQ(sent.size(), 2u) << "both wanted it";
  Control(2, 64);
  EXPECT_TRUE(sent.empty()) << "nobody wants it any more";
}

// Seen to hang in the virtual-time world when `want` was overwritten: the host asks packet by packet.
TEST_F(EngineTest, RequestForALaterResultDoesNotWithdrawAnEarlierOne) {
  Install(false);
  for (uint32_t c : {0u, 1u}) {
    Control(c, 128);
    Data(c, 0, 1, Opcode::kRcSendFirst);
    Data(c, 1, 1, Opcode::kRcSendLast);
  }
  Control(2, 128);
  Data(2, 0, 2, Opcode::kRcSendFirst);
  Data(2, 1, 2, Opcode::kRcSendLast);
  now += 10 * kMillisecond;
  Data(0, 0, 1, Opcode::kRcSendFirst);
  Data(0, 1, 1, Opcode::kRcSendLast);
  Data(2, 0, 2, Opcode::kRcSendFirst);
  EXPECT_EQ(sent.size(), 1u);
}

TEST_F(EngineTest, ParentsNakIsAnsweredFromTheSlots) {
  Install(false);
  Control(0, 64);
  Control(1, 64);
  Data(0, 0, 5, Opcode::kRcSendOnly);
  Data(1, 0, 7, Opcode::kRcSendOnly);
  Ack(2, roce::kSyndromeNakSequence, 1);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].port, 2);
  EXPECT_EQ(Word(sent[0]), 12);
}

TEST_F(EngineTest, HostThatNeverAcknowledgesCannotPushOutWhatOthersNeed) {
  Install(true);
  for (uint64_t k = 0; k < 2 * kKeptInvocations; ++k) {
    for (uint32_t c : {0u, 1u}) {
      Control(c, 0, k, static_cast<Index>(k));
      if (c == 0 && context().results_end > 0) Ack(0, roce::kSyndromeAck, context().results_end - 1);
    }
  }
  EXPECT_EQ(context().children[1].last_down_acked, -1);
  EXPECT_EQ(context().results_end, kKeptInvocations);
  now = timer;
  Fire();  // prompts host 1 at index 0, which must still be known
}

TEST_F(EngineTest, ArenaIsBoundedAndGivenBack) {
  Engine small{kOwn, 4, 4096};
  GroupConfig config = Config(true);
  const auto first = small.Install(config);
  ASSERT_TRUE(first.ok());
  config.group_id = 8;
  for (auto& child : config.children) child.local_qpn = Qpn{Raw(child.local_qpn) + 16};
  const auto second = small.Install(config);
  EXPECT_EQ(second.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(std::string(second.status().message()).find(std::to_string(*first)), std::string::npos);
  small.Remove(7, 99);
  EXPECT_EQ(small.groups().size(), 1u) << "another generation";
  small.Remove(7, 1);
  EXPECT_EQ(small.arena().free_bytes(), small.arena().size());
  EXPECT_TRUE(small.Install(config).ok());
}

TEST_F(EngineTest, InstallRefusesBadConfigurationsByField) {
  const auto refused = [&](auto change, const char* field) {
    GroupConfig config = Config(true);
    change(config);
    const auto status = engine.Install(config).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(status.message()).find(field), std::string::npos) << status.message();
  };
  refused([](GroupConfig& c) { c.path_mtu = 1000; }, "path_mtu");
  refused([](GroupConfig& c) { c.slots = 4; }, "slots");
  refused([](GroupConfig& c) { c.slots = 12; }, "slots");
  refused([](GroupConfig& c) { c.children.clear(); }, "children");
  refused([](GroupConfig& c) { c.children.resize(65, c.children[0]); }, "children");
  refused([](GroupConfig& c) { c.children[1].port = 9; }, "children[1]");
  refused([](GroupConfig& c) { c.children[1].local_qpn = c.children[0].local_qpn; }, "QPN");
  GroupConfig other = Config(true);
  other.mode = Mode::kAugmented;
  EXPECT_EQ(engine.Install(other).status().code(), StatusCode::kUnimplemented);
}

TEST_F(EngineTest, StoppedGroupMovesNothing) {
  Install(true);
  Control(0, 64);
  engine.Fail(7, 1);
  Control(1, 64);
  EXPECT_EQ(drops, std::vector{DropReason::kGroupFailed});
  Fire();
  EXPECT_TRUE(sent.empty());
}

TEST_F(EngineTest, CopyIsASnapshot) {
  Install(true);
  Control(0, 64);
  Control(1, 64);
  Data(0, 0, 5, Opcode::kRcSendOnly);
  const Engine snapshot = engine;
  Data(1, 0, 7, Opcode::kRcSendOnly);
  EXPECT_EQ(Word(sent.at(0)), 12);
  engine = snapshot;
  Data(1, 0, 8, Opcode::kRcSendOnly);
  EXPECT_EQ(Word(sent.at(0)), 13);
}

}  // namespace
}  // namespace epic::engine
