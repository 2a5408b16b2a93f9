// Small calls in one message: data behind the header (docs/PROTOCOL.md, section 3). One switch with two
// hosts, or between them and a parent, in each mode; messages of two packets of 256 bytes.
#include <algorithm>
#include <bit>

#include "incengine/core/engine_testing.h"

namespace epic::engine {
namespace {

using roce::Opcode;

constexpr std::array<PortId, 2> kHosts = {0, 1};

class InlinedTest : public EngineTest, public testing::WithParamInterface<Mode> {
 protected:
  void InstallMode(bool root) {
    GroupConfig config = Config(root);
    config.mode = GetParam();
    ASSERT_TRUE(engine.Install(config).ok());
  }
  static ControlHeader Header(uint64_t count, Collective collective = Collective::kAllReduce) {
    return {.collective = collective,
            .op = Reduces(collective) ? ReduceOp::kSum : ReduceOp::kNone,
            .type = DataType::kInt32,
            .count = count,
            .flags = kInlinedFlag};
  }
  static std::vector<uint8_t> Message(const ControlHeader& header, uint32_t value) {
    std::vector<uint8_t> message(kControlBytes + CallBytes(header));
    Encode(header, std::span(message).first<kControlBytes>());
    for (size_t at = kControlBytes; at < message.size(); at += 4) std::memcpy(&message[at], &value, 4);
    return message;
  }
  // The packets of a control message, from a PSN on; what was sent is gathered.
  void Say(uint32_t child, const std::vector<uint8_t>& message, uint32_t psn = 0) {
    std::deque<Sent> all;
    for (size_t at = 0; at < message.size(); at += 256) {
      const bool last = at + 256 >= message.size();
      const Opcode opcode = at == 0 ? last ? Opcode::kRcSendOnlyImm : Opcode::kRcSendFirst
                            : last  ? Opcode::kRcSendLastImm
                                    : Opcode::kRcSendMiddle;
      roce::Packet p = From(child, Psn(kInPsn) + psn + at / 256, opcode,
                            std::span(message).subspan(at, std::min<size_t>(256, message.size() - at)));
      p.imm = Raw(HeaderOf(message)->invocation);
      Deliver(p);
      all.insert(all.end(), sent.begin(), sent.end());
    }
    sent = all;
  }
  void Call(uint32_t child, const ControlHeader& header, uint32_t value, uint32_t psn = 0) {
    Say(child, Message(header, value), psn);
  }
  // What has been sent by a port beside acknowledgements.
  std::vector<Sent> DataTo(PortId port) const {
    std::vector<Sent> found;
    std::ranges::copy_if(sent, std::back_inserter(found), [port](const Sent& s) {
      return s.port == port && s.packet.bth.opcode <= Opcode::kRcSendOnlyImm;
    });
    return found;
  }
  static std::vector<uint8_t> Joined(const std::vector<Sent>& packets) {
    std::vector<uint8_t> message;
    for (const Sent& s : packets) message.insert(message.end(), s.payload.begin(), s.payload.end());
    return message;
  }
  void ExpectRefusal(PortId port, ControlStatus status, ControlField field) {
    const auto packets = DataTo(port);
    ASSERT_EQ(packets.size(), 1u);
    EXPECT_EQ(packets[0].packet.bth.opcode, Opcode::kRcSendOnlyImm);
    EXPECT_EQ(packets[0].packet.bth.psn, Psn(kOutPsn));
    ASSERT_EQ(packets[0].payload.size(), kControlBytes) << "whatever the calls were";
    const auto header = DecodeControl(packets[0].payload);
    ASSERT_TRUE(header);
    EXPECT_EQ(header->status, status);
    EXPECT_EQ(header->field, field);
  }
  bool SaysInvalidRequest() const {
    return std::ranges::any_of(
        sent, [](const Sent& s) { return s.packet.aeth.syndrome == roce::kSyndromeNakInvalidRequest; });
  }

 private:
  static uint32_t Raw(uint64_t invocation) { return static_cast<uint32_t>(invocation); }
};

TEST_P(InlinedTest, HeaderAndSumAreOnePacket) {
  InstallMode(true);
  Call(0, Header(48), 5);
  EXPECT_TRUE(DataTo(0).empty());
  Call(1, Header(48), 7);
  for (const PortId port : kHosts) {
    const auto packets = DataTo(port);
    ASSERT_EQ(packets.size(), 1u);
    EXPECT_EQ(packets[0].packet.bth.opcode, Opcode::kRcSendOnlyImm);
    EXPECT_EQ(packets[0].packet.imm, 0u);
    EXPECT_EQ(packets[0].payload, Message(Header(48), 12));
  }
}

TEST_P(InlinedTest, TwoPacketsAreFirstAndLastWithImmediate) {
  InstallMode(true);
  Call(0, Header(100), 5);
  std::deque<Sent> before = sent;
  Call(1, Header(100), 7);
  before.insert(before.end(), sent.begin(), sent.end());
  sent = before;
  const auto packets = DataTo(0);
  ASSERT_EQ(packets.size(), 2u);
  EXPECT_EQ(packets[0].packet.bth.opcode, Opcode::kRcSendFirst);
  EXPECT_EQ(packets[1].packet.bth.opcode, Opcode::kRcSendLastImm);
  EXPECT_EQ(packets[1].packet.bth.psn, Psn(kOutPsn) + 1);
  EXPECT_EQ(Joined(packets), Message(Header(100), 12));
}

TEST_P(InlinedTest, TheNextCallFollowsBehindItsPackets) {
  InstallMode(true);
  for (const uint32_t child : {0u, 1u}) Call(child, Header(100), 1);
  for (const uint32_t child : {0u, 1u}) {
    ControlHeader next = Header(3);
    next.invocation = 1;
    Call(child, next, 4, 2);
  }
  const auto packets = DataTo(1);
  ASSERT_EQ(packets.size(), 1u);
  EXPECT_EQ(packets[0].packet.bth.psn, Psn(kOutPsn) + 2);
  EXPECT_EQ(Word(packets[0], 16), 8);
}

TEST_P(InlinedTest, SixteenBitElementsAreSummedInFourBytes) {
  InstallMode(true);
  ControlHeader header = Header(200);
  header.type = DataType::kBFloat16;
  // 256 and 1 + 2^-7, of which the last bit is what makes it nearer to 258.
  Call(0, header, 0x43804380);
  std::deque<Sent> before = sent;
  Call(1, header, 0x3f813f81);
  before.insert(before.end(), sent.begin(), sent.end());
  sent = before;
  EXPECT_EQ(Joined(DataTo(0)), Message(header, 0x43814381));
}

TEST_P(InlinedTest, CopiesAreMergedBitByBit) {
  InstallMode(true);
  ControlHeader header = Header(48, Collective::kBroadcast);
  header.type = DataType::kFloat32;
  Call(0, header, std::bit_cast<uint32_t>(-0.0f));
  Call(1, header, 0);
  ASSERT_EQ(DataTo(0).size(), 1u);
  EXPECT_EQ(DataTo(0)[0].payload, Message(header, std::bit_cast<uint32_t>(-0.0f))) << "a sum would be +0";
}

TEST_P(InlinedTest, DifferentCallsAreNotSummed) {
  InstallMode(true);
  Call(0, Header(48), 5);
  ControlHeader other = Header(48);
  other.op = ReduceOp::kMax;
  Call(1, other, 7);
  for (const PortId port : kHosts) ExpectRefusal(port, ControlStatus::kMismatch, ControlField::kOp);
}

TEST_P(InlinedTest, ALongerCallIsAMismatchByItsFirstPacket) {
  InstallMode(true);
  Call(0, Header(3), 5);
  Call(1, Header(100), 7);
  for (const PortId port : kHosts) ExpectRefusal(port, ControlStatus::kMismatch, ControlField::kCount);
  EXPECT_FALSE(SaysInvalidRequest());
}

TEST_P(InlinedTest, AShorterCallIsAMismatchToo) {
  InstallMode(true);
  Call(0, Header(100), 5);
  Call(1, Header(3), 7);
  for (const PortId port : kHosts) ExpectRefusal(port, ControlStatus::kMismatch, ControlField::kCount);
  EXPECT_FALSE(SaysInvalidRequest());
}

TEST_P(InlinedTest, SoIsOneWhoseDataFollow) {
  InstallMode(true);
  Call(0, Header(48), 5);
  Control(1, 4000);
  for (const PortId port : kHosts) ExpectRefusal(port, ControlStatus::kMismatch, ControlField::kCount);
}

TEST_P(InlinedTest, MoreThanAMessageIsRefusedByTheReply) {
  InstallMode(true);
  ControlHeader header = Header(1000);
  // Only the header and the first packets can come: as much as a message of the group has.
  if (GetParam() == Mode::kTerminated) return;  // there the queue pair fails: a message is too long
  std::vector<uint8_t> message = Message(header, 5);
  for (const uint32_t child : {0u, 1u}) {
    Deliver(From(child, Psn(kInPsn), Opcode::kRcSendFirst, std::span(message).first(256)));
  }
  for (const PortId port : kHosts) ExpectRefusal(port, ControlStatus::kUnsupported, ControlField::kFlags);
}

// Of a type that the switch does not know nor does it know the length of the data behind the header.
TEST_P(InlinedTest, ATypeOfALaterVersionIsAMismatchWhateverItsLength) {
  for (const size_t bytes : {1, 37, 192, 300}) {
    engine = Engine(kOwn, 4, 1 << 20);
    InstallMode(true);
    Call(0, Header(48), 5);
    ControlHeader later = Header(48);
    later.type = DataType{40};
    std::vector<uint8_t> message(kControlBytes + bytes, 3);
    Encode(later, std::span(message).first<kControlBytes>());
    Say(1, message);
    for (const PortId port : kHosts) ExpectRefusal(port, ControlStatus::kMismatch, ControlField::kType);
    EXPECT_FALSE(SaysInvalidRequest()) << bytes;
  }
}

TEST_P(InlinedTest, ATypeOfALaterVersionIsRefusedByTheReply) {
  for (const size_t bytes : {1, 37, 192, 300}) {
    engine = Engine(kOwn, 4, 1 << 20);
    InstallMode(true);
    ControlHeader later = Header(48);
    later.type = DataType{40};
    std::vector<uint8_t> message(kControlBytes + bytes, 3);
    Encode(later, std::span(message).first<kControlBytes>());
    Say(0, message);
    EXPECT_FALSE(SaysInvalidRequest()) << bytes;
    Say(1, message);
    for (const PortId port : kHosts) ExpectRefusal(port, ControlStatus::kUnsupported, ControlField::kType);
    EXPECT_FALSE(SaysInvalidRequest()) << bytes;
  }
}

TEST_P(InlinedTest, NoMoreDataAfterAMismatch) {
  InstallMode(true);
  Call(0, Header(48), 5);
  Call(1, Header(47), 5);
  ControlHeader next = Header(48);
  next.invocation = 1;
  for (const uint32_t child : {0u, 1u}) {
    Call(child, next, 5, 1);
    EXPECT_TRUE(DataTo(0).empty() && DataTo(1).empty());
  }
}

TEST_P(InlinedTest, ASumGoesUpAndAResultDown) {
  InstallMode(false);
  Call(0, Header(48), 5);
  Call(1, Header(48), 7);
  ASSERT_EQ(DataTo(2).size(), 1u);
  EXPECT_EQ(DataTo(2)[0].payload, Message(Header(48), 12));
  Call(2, Header(48), 100);
  for (const PortId port : kHosts) {
    ASSERT_EQ(DataTo(port).size(), 1u);
    EXPECT_EQ(DataTo(port)[0].payload, Message(Header(48), 100));
  }
}

TEST_P(InlinedTest, AMismatchBelowGoesUpAlone) {
  InstallMode(false);
  Call(0, Header(100), 5);
  std::deque<Sent> before = sent;
  Call(1, Header(48), 7);
  before.insert(before.end(), sent.begin(), sent.end());
  sent = before;
  ExpectRefusal(2, ControlStatus::kMismatch, ControlField::kCount);
}

TEST_P(InlinedTest, AMismatchElsewhereComesDownAlone) {
  InstallMode(false);
  for (const uint32_t child : {0u, 1u}) Call(child, Header(100), 5);
  ControlHeader reply = Header(100);
  reply.status = ControlStatus::kMismatch;
  reply.field = ControlField::kCount;
  std::array<uint8_t, kControlBytes> bytes;
  Encode(reply, bytes);
  Deliver(From(2, Psn(kInPsn), Opcode::kRcSendOnlyImm, bytes));
  for (const PortId port : kHosts) ExpectRefusal(port, ControlStatus::kMismatch, ControlField::kCount);
}

TEST_P(InlinedTest, BeyondTheSlotsItWaits) {
  if (GetParam() == Mode::kTerminated) return;  // it has no slots
  InstallMode(true);
  for (uint32_t k = 0; k < 9; ++k) {
    ControlHeader header = Header(48);
    header.invocation = k;
    Call(0, header, 5, k);
    const bool refused = std::ranges::find(drops, DropReason::kAboveWindow) != drops.end();
    EXPECT_EQ(refused, k == 8) << "with 8 slots; a header alone has the ring";
  }
}

TEST_P(InlinedTest, ARepetitionGetsTheSameAgain) {
  if (FindMode(GetParam())->reliability == Reliability::kPerHop) return;  // the switch acknowledges it itself
  InstallMode(true);
  Call(0, Header(48), 5);
  Call(1, Header(48), 7);
  Call(1, Header(48), 7);
  ASSERT_EQ(DataTo(1).size(), 1u);
  EXPECT_EQ(DataTo(1)[0].payload, Message(Header(48), 12));
  EXPECT_TRUE(DataTo(0).empty());
}

INSTANTIATE_TEST_SUITE_P(Modes, InlinedTest, testing::ValuesIn(ModesOfOwnMemory()), [](const auto& mode) {
  return "Mode" + std::to_string(static_cast<int>(mode.param));
});

}  // namespace
}  // namespace epic::engine
