// For tests of groups whose payloads lie in a pool: groups of hosts at one switch, and a server's end of each
// group's leg.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "incengine/core/engine.h"
#include "protocol/control.h"
#include "protocol/fallback.h"

namespace epic::engine {

constexpr Ipv4 kSwitchIp{0x0a00ff01};
constexpr Ipv4 kServerIp{0x0a00fe01};
constexpr PortId kServerPort = 16;
constexpr uint32_t kFirstIn = 0xfffffe;  // wraps with the third packet
constexpr uint32_t kFirstOut = 100;

struct OwnPacket {
  PortId port{};
  roce::Packet head;
  std::vector<uint8_t> payload;
  roce::Packet packet() const {
    roce::Packet p = head;
    p.payload = payload;
    return p;
  }
};

// The server's end of a leg: what has come, and what is sent back. It adds nothing by itself.
class LegEnd final : public roce::Memory, public roce::PacketSink {
 public:
  struct Got {
    LegMessage kind{};
    Index index = 0;
    std::vector<uint8_t> bytes;
    int32_t word(size_t at = 0) const {
      int32_t word;
      std::memcpy(&word, bytes.data() + 4 * at, 4);
      return word;
    }
    float real(size_t at = 0) const {
      float real;
      std::memcpy(&real, bytes.data() + 4 * at, 4);
      return real;
    }
  };

  explicit LegEnd(const GroupConfig& group)
      : qp_({.local_ip = kServerIp,
             .local_qpn = group.server->remote_qpn,
             .send_depth = kDepth,
             .recv_depth = kDepth,
             .policy = {.retry_7_is_forever = true}}) {
    EXPECT_EQ(qp_.Modify({.state = roce::QpState::kInit}), roce::ModifyResult::kOk);
    EXPECT_EQ(qp_.Modify({.state = roce::QpState::kRtr,
                          .remote_ip = kSwitchIp,
                          .remote_qpn = group.server->local_qpn,
                          .path_mtu = group.path_mtu,
                          .rq_psn = group.server->out_psn,
                          .max_dest_rd_atomic = 0,
                          .min_rnr_timer = 1}),
              roce::ModifyResult::kOk);
    EXPECT_EQ(qp_.Modify({.state = roce::QpState::kRts,
                          .sq_psn = group.server->in_psn,
                          .timeout = 8,
                          .retry_cnt = 7,
                          .rnr_retry = 7,
                          .max_rd_atomic = 0}),
              roce::ModifyResult::kOk);
    for (uint32_t i = 0; i < kDepth; ++i) PostReceive(i);
  }

  // What it answers is in `out`.
  void OnPacket(Nanos now, const roce::Packet& packet) {
    qp_.OnPacket(now, packet, *this);
    Poll(now);
  }
  void Poll(Nanos now) {
    qp_.Poll(now, *this, *this);
    for (roce::Completion done; qp_.NextCompletion(&done);) {
      if (!done.is_recv() || !done.ok()) continue;
      const uint8_t* bytes = &memory_[done.wr_id * kBytes];
      got.push_back({.kind = static_cast<LegMessage>(done.imm >> 28),
                     .index = static_cast<Index>(done.imm & kLegIndexMask),
                     .bytes = {bytes, bytes + done.bytes}});
      PostReceive(static_cast<uint32_t>(done.wr_id));
    }
    qp_.Poll(now, *this, *this);
  }
  void Post(LegMessage kind, Index index, std::span<const uint8_t> bytes) {
    const size_t slot = sends_++ % kDepth;
    std::memcpy(&memory_[(kDepth + slot) * kBytes], bytes.data(), bytes.size());
    roce::SendWr wr{.opcode = roce::WrOpcode::kSendImm, .sges = {}, .inline_bytes = {}};
    wr.imm = LegImmediate(kind, index);
    wr.sges.count = 1;
    wr.sges.sge[0] = {(kDepth + slot) * kBytes, static_cast<uint32_t>(bytes.size()), 1};
    EXPECT_EQ(qp_.PostSend(wr), roce::PostResult::kOk);
  }
  Nanos deadline() const { return qp_.next_deadline(); }

  std::optional<std::span<uint8_t>> Map(roce::Access, uint32_t, uint64_t address, uint32_t length) override {
    return std::span(memory_).subspan(address, length);
  }
  void Send(const roce::Packet& packet) override {
    out.push_back({kServerPort, packet, {packet.payload.begin(), packet.payload.end()}});
  }

  std::vector<Got> got;
  std::deque<OwnPacket> out;

 private:
  static constexpr uint32_t kDepth = 64;
  static constexpr size_t kBytes = 4096;

  void PostReceive(uint32_t number) {
    roce::RecvWr wr;
    wr.wr_id = number;
    wr.sges.count = 1;
    wr.sges.sge[0] = {number * kBytes, kBytes, 1};
    EXPECT_EQ(qp_.PostRecv(wr), roce::PostResult::kOk);
  }

  roce::QueuePair qp_;
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(2 * kDepth * kBytes);
  size_t sends_ = 0;
};

// Group g has ranks on ports from 4 (g - 1) on, and QPNs from 0x100 g on; its leg is on kServerPort.
inline GroupConfig PoolGroup(uint64_t id, uint32_t ranks) {
  const auto base = static_cast<uint32_t>(id);
  const auto end = [&](uint32_t number) {
    return EndpointConfig{.local_qpn = Qpn{0x100 * base + number},
                          .remote_ip = Ipv4{0x0a000000 + 16 * base + number},
                          .remote_qpn = Qpn{0x11},
                          .port = static_cast<PortId>(4 * (base - 1) + number),
                          .in_psn = Psn(kFirstIn),
                          .out_psn = Psn(kFirstOut),
                          .is_host = true,
                          .ranks = {number}};
  };
  GroupConfig config{{.group_id = id,
                      .generation = 1,
                      .name = "test",
                      .mode = Mode::kPooled,
                      .world_size = ranks,
                      .path_mtu = 256,
                      .message_packets = 2,
                      .window_messages = 2,
                      .slots = 8,
                      .prompt_ns = kMillisecond}};
  for (uint32_t rank = 0; rank < ranks; ++rank) config.children.push_back(end(rank));
  config.server = end(0xf);
  config.server->is_host = false;
  config.server->ranks = {};
  config.server->remote_ip = kServerIp;
  config.server->remote_qpn = Qpn{0x200 + base};
  config.server->port = kServerPort;
  return config;
}

class EnginePoolTest : public testing::Test, public Effects {
 protected:
  void Send(PortId port, const OutPacket& out) override {
    OwnPacket own{port, out.packet, {out.packet.payload.begin(), out.packet.payload.end()}};
    (port == kServerPort ? to_servers : sent).push_back(own);
  }
  void SetTimer(TimerId id, Nanos deadline) override { timers[static_cast<uint64_t>(id)] = deadline; }
  void Drop(PortId, DropReason reason) override { drops.push_back(reason); }

  // A pool of so many places, and spare buffers.
  void MakePool(uint32_t places, uint32_t spares, PoolPolicy policy = PoolPolicy::kPriority) {
    ASSERT_TRUE(engine
                    .MakePool({.bytes = size_t{512} * (places + spares),
                               .buffer_bytes = 512,
                               .addressing = PoolAddressing::kAny,
                               .policy = policy,
                               .most_places = places})
                    .ok());
  }
  void Install(const GroupConfig& config) {
    const auto installed = engine.Install(config);
    ASSERT_TRUE(installed.ok()) << installed.status();
    legs.insert_or_assign(config.group_id, LegEnd(config));
  }

  static roce::Packet From(uint64_t group, uint32_t rank, Psn psn, roce::Opcode opcode,
                           std::span<const uint8_t> payload = {}) {
    const GroupConfig config = PoolGroup(group, rank + 1);
    roce::Packet p;
    p.src_ip = config.children[rank].remote_ip;
    p.dst_ip = kSwitchIp;
    p.bth.dest_qp = config.children[rank].local_qpn;
    p.bth.psn = psn;
    p.bth.opcode = opcode;
    p.payload = payload;
    return p;
  }
  // From a host; what the legs have to say to it follows, unless they are silent.
  void Deliver(uint64_t group, uint32_t rank, const roce::Packet& packet) {
    sent.clear();
    drops.clear();
    engine.OnPacket(now, static_cast<PortId>(4 * (group - 1) + rank), packet, *this);
    engine.CheckInvariants();
    RunLegs();
  }
  void RunLegs() {
    while (!silent && !to_servers.empty()) {
      const OwnPacket packet = to_servers.front();
      to_servers.pop_front();
      LegEnd& leg = legs.at(Raw(packet.head.bth.dest_qp) - 0x200);
      leg.OnPacket(now, packet.packet());
      Answer(leg);
    }
  }
  void Answer(LegEnd& leg) {
    while (!leg.out.empty()) {
      const OwnPacket packet = leg.out.front();
      leg.out.pop_front();
      engine.OnPacket(now, kServerPort, packet.packet(), *this);
      engine.CheckInvariants();
    }
  }
  // A message of the server.
  void FromServer(uint64_t group, LegMessage kind, Index index, std::span<const uint8_t> bytes) {
    sent.clear();
    drops.clear();
    LegEnd& leg = legs.at(group);
    leg.Post(kind, index, bytes);
    leg.Poll(now);
    Answer(leg);
    RunLegs();
  }
  void Sum(uint64_t group, Index index, int32_t value, size_t words = 64) {
    const std::vector<int32_t> sum(words, value);
    FromServer(group, LegMessage::kSum, index, std::as_bytes(std::span(sum)));
  }
  void FromServer(uint64_t group, LegMessage kind, Index index, std::span<const std::byte> bytes) {
    FromServer(group, kind, index, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  }

  // A NAK of the server: it refuses the packet with this PSN.
  void Refuse(uint64_t group, Psn psn) {
    roce::Packet nak;
    nak.src_ip = kServerIp;
    nak.dst_ip = kSwitchIp;
    nak.bth.dest_qp = Qpn{0x100 * static_cast<uint32_t>(group) + 0xf};
    nak.bth.opcode = roce::Opcode::kRcAck;
    nak.bth.psn = psn;
    nak.aeth.syndrome = roce::kSyndromeNakInvalidRequest;
    engine.OnPacket(now, kServerPort, nak, *this);
    engine.CheckInvariants();
  }

  // The first call of a group: an AllReduce of so many packets of 64 INT32. Its index is 0, its data follow.
  void Call(uint64_t group, uint32_t ranks, uint64_t packets, Priority priority = kDefaultPriority) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      Header(group, rank,
             {.collective = Collective::kAllReduce,
              .op = ReduceOp::kSum,
              .type = DataType::kInt32,
              .count = 64 * packets,
              .priority = priority});
    }
    for (uint32_t rank = 0; rank < ranks; ++rank) Acknowledge(group, rank, 0);
    packets_of[group] = packets;
  }
  void Header(uint64_t group, uint32_t rank, const ControlHeader& header, Index index = 0) {
    std::array<uint8_t, kControlBytes> bytes;
    Encode(header, bytes);
    Deliver(group, rank, From(group, rank, Psn(kFirstIn) + index, roce::Opcode::kRcSendOnlyImm, bytes));
  }
  // The contribution to an index from 1 on: 64 words of one value.
  void Data(uint64_t group, uint32_t rank, Index index, int32_t value) {
    const std::vector<int32_t> words(64, value);
    const bool first = index % 2 == 1,
               last = index % 2 == 0 || index == static_cast<Index>(packets_of[group]);
    const auto opcode = first && last ? roce::Opcode::kRcSendOnly
                        : first       ? roce::Opcode::kRcSendFirst
                                      : roce::Opcode::kRcSendLast;
    Deliver(group, rank,
            From(group, rank, Psn(kFirstIn) + index, opcode,
                 {reinterpret_cast<const uint8_t*>(words.data()), words.size() * 4}));
  }
  void Acknowledge(uint64_t group, uint32_t rank, Index index) {
    roce::Packet p = From(group, rank, Psn(kFirstOut) + index, roce::Opcode::kRcAck);
    p.aeth.syndrome = roce::kSyndromeAck;
    Deliver(group, rank, p);
  }
  void AcknowledgeAll(uint64_t group, uint32_t ranks, Index index) {
    for (uint32_t rank = 0; rank < ranks; ++rank) Acknowledge(group, rank, index);
  }

  // First words of the results of an index that are among what has been sent.
  std::vector<int32_t> Results(uint64_t group, Index index) const {
    std::vector<int32_t> words;
    for (const OwnPacket& s : sent) {
      const bool of_group = s.port / 4 == static_cast<PortId>(group - 1);
      if (!of_group || s.head.bth.opcode == roce::Opcode::kRcAck || s.head.bth.psn != Psn(kFirstOut) + index)
        continue;
      words.push_back(0);
      std::memcpy(&words.back(), s.payload.data(), 4);
    }
    return words;
  }
  // Syndromes of acknowledgements of all kinds that have been sent to a rank.
  std::vector<uint8_t> Answers(uint64_t group, uint32_t rank) const {
    std::vector<uint8_t> found;
    for (const OwnPacket& s : sent) {
      if (s.port == static_cast<PortId>(4 * (group - 1) + rank) && s.head.bth.opcode == roce::Opcode::kRcAck)
        found.push_back(s.head.aeth.syndrome);
    }
    return found;
  }
  // "OPEN 0, PART 1: 3, LAST 1: 7": what has come to the server since this was asked last.
  std::string Heard(uint64_t group) {
    static constexpr std::array kNames = {"?", "OPEN", "PART", "LAST", "FETCH", "SUM"};
    std::string all;
    for (const LegEnd::Got& got : legs.at(group).got) {
      if (!all.empty()) all += ", ";
      all += std::string(kNames[static_cast<size_t>(got.kind)]) + " " + std::to_string(got.index);
      const bool has_data = got.kind == LegMessage::kPart || got.kind == LegMessage::kLast;
      if (has_data) all += ": " + std::to_string(got.word());
    }
    legs.at(group).got.clear();
    return all;
  }
  const Context& context(uint64_t group) const { return engine.groups().at(group); }
  const Pool& pool() const { return *engine.pool(); }

  Engine engine{kSwitchIp, kServerPort + 1, 1 << 20};
  Nanos now = 0;
  bool silent = false;  // what is sent to servers waits
  std::map<uint64_t, LegEnd> legs;
  std::map<uint64_t, uint64_t> packets_of;
  std::map<uint64_t, Nanos> timers;
  std::deque<OwnPacket> sent, to_servers;
  std::vector<DropReason> drops;
};

}  // namespace epic::engine
