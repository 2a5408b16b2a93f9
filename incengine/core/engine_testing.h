// For tests of the engine: a group of two hosts, at a root or below a parent; packets in, and what was sent
// and dropped.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <vector>

#include "incengine/core/engine.h"
#include "protocol/control.h"

namespace epic::engine {

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
            .ranks = {number}};
  }

  // Two hosts on ports 0 and 1; with a parent on port 2 unless this is the root.
  static GroupConfig Config(bool root) {
    GroupConfig config{{.group_id = 7,
                        .generation = 1,
                        .name = "test",
                        .world_size = 2,
                        .path_mtu = 256,
                        .message_packets = 2,
                        .window_messages = 2,
                        .slots = 8,
                        .prompt_ns = kMillisecond}};
    config.children = {Child(0, true), Child(1, true)};
    if (!root) config.parent = Child(2, false);
    return config;
  }

  void CheckAll() const { engine.CheckInvariants(); }

  void Install(bool root) { ASSERT_TRUE(engine.Install(Config(root)).ok()); }

  roce::Packet From(uint32_t child, Psn psn, roce::Opcode opcode, std::span<const uint8_t> payload = {}) {
    roce::Packet p;
    p.src_ip = Ipv4{0x0a000001 + child};
    p.dst_ip = kOwn;
    p.bth.dest_qp = Qpn{0x100 + child};
    p.bth.psn = psn;
    p.bth.opcode = opcode;
    p.payload = payload;
    return p;
  }
  // By the port of the child that its QPN is of.
  void Deliver(const roce::Packet& packet) {
    DeliverBy(static_cast<PortId>(Raw(packet.bth.dest_qp) - 0x100), packet);
  }
  void DeliverBy(PortId port, const roce::Packet& packet) {
    sent.clear();
    drops.clear();
    engine.OnPacket(now, port, packet, *this);
    CheckAll();
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
    Deliver(From(child, Psn(kInPsn) + index, roce::Opcode::kRcSendOnlyImm, bytes));
  }
  // Data packet `at` (64 words of one value) of an invocation whose control packet has index 0.
  void Data(uint32_t child, int64_t at, int32_t value, roce::Opcode opcode, bool ack_req = false) {
    std::vector<int32_t> words(64, value);
    roce::Packet p = From(child, Psn(kInPsn) + 1 + at, opcode,
                          {reinterpret_cast<const uint8_t*>(words.data()), words.size() * 4});
    p.bth.ack_req = ack_req;
    Deliver(p);
  }

  // Below a parent: an invocation of two packets is summed, its results have gone down, and some time has
  // passed.
  void SumTwoPackets() {
    Install(false);
    for (uint32_t c : {0u, 1u}) {
      Control(c, 128);
      Data(c, 0, 1, roce::Opcode::kRcSendFirst);
      Data(c, 1, 1, roce::Opcode::kRcSendLast);
    }
    Control(2, 128);
    Data(2, 0, 2, roce::Opcode::kRcSendFirst);
    Data(2, 1, 2, roce::Opcode::kRcSendLast);
    now += 10 * kMillisecond;
  }
  void Ack(uint32_t child, uint8_t syndrome, Index index) {
    roce::Packet p = From(child, Psn(kOutPsn) + index, roce::Opcode::kRcAck);
    p.aeth.syndrome = syndrome;
    Deliver(p);
  }
  void Fire() {
    sent.clear();
    drops.clear();
    now = timer;
    engine.OnTimer(now, timer_id, *this);
    CheckAll();
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

}  // namespace epic::engine
