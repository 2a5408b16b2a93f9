// For tests of mode VI at one switch: what hosts that are read and written send, and what they get
// (docs/PROTOCOL-MODE-VI.md).
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "incengine/core/engine_testing.h"
#include "protocol/descriptor.h"

namespace epic::engine {

constexpr uint32_t kParentPort = 2;   // and its number
constexpr size_t kPacketBytes = 256;  // messages have two packets
constexpr uint64_t kSource = 0x10'0000, kDestination = 0x20'0000;

class InitiatedTest : public EngineTest {
 protected:
  void InstallInitiated(bool root, bool switch_below = false) {
    GroupConfig config = Config(root);
    config.mode = Mode::kInitiated;
    if (switch_below) {
      config.world_size = 3;
      config.children[1].is_host = false;
      config.children[1].ranks = {1, 2};
    }
    ASSERT_TRUE(engine.Install(config).ok());
  }

  static ControlHeader Call(Collective collective, size_t packets, uint64_t invocation = 0) {
    return {.collective = collective,
            .op = Reduces(collective) ? ReduceOp::kSum : ReduceOp::kNone,
            .type = DataType::kInt32,
            .invocation = invocation,
            .count = packets * kPacketBytes / 4,
            .parts = HasPartPerRank(collective) ? 2u : 1u};
  }
  static uint32_t KeyOf(uint32_t rank) { return 0x100 * (rank + 1); }
  // As a host of two ranks, or three, gives it.
  static Descriptor Described(const ControlHeader& header, uint32_t rank) {
    const std::array self = {rank};
    Descriptor descriptor;
    for (int64_t part = 0; part < int64_t{header.parts}; ++part) {
      if (Sends(header, part, self)) descriptor.source = {.address = kSource, .rkey = KeyOf(rank)};
      if (Receives(header, part, self))
        descriptor.destination = {.address = kDestination, .rkey = KeyOf(rank) + 1};
    }
    return descriptor;
  }

  void Only(uint32_t from, int64_t at, std::span<const uint8_t> payload,
            roce::Opcode opcode = roce::Opcode::kRcSendOnlyImm) {
    roce::Packet p = From(from, Psn(kInPsn) + at, opcode, payload);
    p.bth.ack_req = true;
    Deliver(p);
  }
  void Header(uint32_t from, int64_t at, const ControlHeader& header) {
    std::array<uint8_t, kControlBytes> bytes;
    Encode(header, bytes);
    Only(from, at, bytes);
  }
  void Doorbell(uint32_t rank, int64_t at, const ControlHeader& header, const Descriptor& descriptor) {
    std::array<uint8_t, kControlBytes + kDescriptorBytes> bytes;
    Encode(header, std::span(bytes).first<kControlBytes>());
    Encode(descriptor, std::span(bytes).last<kDescriptorBytes>());
    Only(rank, at, bytes);
  }
  void Doorbell(uint32_t rank, int64_t at, const ControlHeader& header) {
    Doorbell(rank, at, header, Described(header, rank));
  }
  // Both hosts call.
  void Open(const ControlHeader& header) {
    for (const uint32_t rank : {0u, 1u}) Doorbell(rank, 0, header);
  }

  // A packet of what was read of a host, `at` packets into what the switch sends there.
  void Response(uint32_t from, int64_t at, int32_t value, roce::Opcode opcode) {
    const std::vector<int32_t> words(kPacketBytes / 4, value);
    roce::Packet p =
        From(from, Psn(kOutPsn) + at, opcode, {reinterpret_cast<const uint8_t*>(words.data()), kPacketBytes});
    p.aeth.syndrome = roce::kSyndromeAck;
    Deliver(p);
  }
  // A message of two packets.
  void Read(uint32_t from, int64_t at, int32_t value) {
    Response(from, at, value, roce::Opcode::kRcReadResponseFirst);
    const std::deque<Sent> before = sent;
    Response(from, at + 1, value, roce::Opcode::kRcReadResponseLast);
    sent.insert(sent.begin(), before.begin(), before.end());
  }
  void Acknowledge(uint32_t from, int64_t at) { Ack(from, roce::kSyndromeAck, at); }

  std::vector<Sent> To(PortId port) const {
    std::vector<Sent> found;
    for (const Sent& s : sent) {
      if (s.port == port && s.packet.bth.opcode != roce::Opcode::kRcAck) found.push_back(s);
    }
    return found;
  }
  std::vector<roce::Opcode> OpcodesTo(PortId port) const {
    std::vector<roce::Opcode> opcodes;
    for (const Sent& s : To(port)) opcodes.push_back(s.packet.bth.opcode);
    return opcodes;
  }
  static std::optional<ControlHeader> ControlIn(const std::vector<Sent>& packets) {
    std::optional<ControlHeader> last;
    for (const Sent& s : packets) {
      if (s.packet.bth.opcode == roce::Opcode::kRcSendOnlyImm) last = DecodeControl(s.payload);
    }
    return last;
  }
  void ExpectAborted(PortId port, uint32_t culprit) {
    const auto header = ControlIn(To(port));
    ASSERT_TRUE(header.has_value()) << "port " << port;
    EXPECT_EQ(header->status, ControlStatus::kAborted);
    EXPECT_EQ(header->culprit, culprit);
  }
  static void ExpectRead(const Sent& s, uint64_t address, uint32_t rkey, uint32_t bytes) {
    EXPECT_EQ(s.packet.bth.opcode, roce::Opcode::kRcReadRequest);
    EXPECT_EQ(s.packet.reth.virtual_address, address);
    EXPECT_EQ(s.packet.reth.rkey, rkey);
    EXPECT_EQ(s.packet.reth.dma_length, bytes);
  }

  const std::vector<roce::Opcode> kWriteAndReply = {roce::Opcode::kRcWriteFirst, roce::Opcode::kRcWriteLast,
                                                    roce::Opcode::kRcSendOnlyImm};
};

}  // namespace epic::engine
