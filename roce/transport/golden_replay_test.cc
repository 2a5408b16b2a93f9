// Our queue pairs in the place of rdma_rxe's: what real guests said to each other (tests/golden) is said
// again, each end hears the other's captured packets and must answer with the captured ones.
#include <gtest/gtest.h>
#include <pcap/pcap.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string>

#include "roce/frame.h"
#include "roce/packet_testing.h"
#include "roce/transport/transport_testing.h"
#include "roce/transport/uc.h"

namespace epic::roce::testing {
namespace {

std::vector<OwnedPacket> ReadPackets(const std::string& name) {
  std::array<char, PCAP_ERRBUF_SIZE> error{};
  pcap_t* const file = pcap_open_offline((EPIC_GOLDEN_DIR "/" + name).c_str(), error.data());
  EXPECT_NE(file, nullptr) << error.data();
  std::vector<OwnedPacket> packets;
  pcap_pkthdr* header;
  const u_char* bytes;
  while (file != nullptr && pcap_next_ex(file, &header, &bytes) == 1) {
    FrameAddress address;
    Packet packet;
    EXPECT_EQ(ParseFrame({bytes, header->caplen}, &address, &packet), ParseResult::kOk);
    packets.push_back({packet, {packet.payload.begin(), packet.payload.end()}});
    packets.back().head.payload = {};
  }
  if (file != nullptr) pcap_close(file);
  return packets;
}

bool IsRequest(const OwnedPacket& p) {
  const Opcode op = p.head.bth.opcode;
  return op <= Opcode::kRcReadRequest || Info(op).atomic_eth;
}

class Replay {
 public:
  // missed: the responder expects PSNs from so many before the first one captured.
  explicit Replay(const std::string& name, uint32_t missed = 0, Qpn qpn = Qpn{0x11})
      : packets_(ReadPackets(name)) {
    for (const OwnedPacket& p : packets_) {
      End& end = ends_[p.head.src_ip];
      if (IsRequest(p) && !end.first_psn) end.first_psn = p.head.bth.psn;
    }
    for (auto& [ip, end] : ends_) {
      end.memory.Add(1, 0, 1 << 16);
      QpConfig config;
      config.local_ip = ip;
      config.local_qpn = qpn;
      config.policy = RxeLike();
      end.qp.emplace_back(config);
      const auto& [peer_ip, peer] = ip == ends_.begin()->first ? *ends_.rbegin() : *ends_.begin();
      QueuePair& qp = end.qp.front();
      EXPECT_EQ(
          qp.Modify(
              {.state = QpState::kInit, .remote_read = true, .remote_write = true, .remote_atomic = true}),
          ModifyResult::kOk);
      EXPECT_EQ(qp.Modify({.state = QpState::kRtr,
                           .remote_ip = peer_ip,
                           .remote_qpn = qpn,
                           .path_mtu = 256,
                           .rq_psn = peer.first_psn.value_or(Psn(0)) - missed,
                           .max_dest_rd_atomic = 1,
                           .min_rnr_timer = 14}),
                ModifyResult::kOk);
      EXPECT_EQ(qp.Modify({.state = QpState::kRts,
                           .sq_psn = end.first_psn.value_or(Psn(0)),
                           .timeout = 14,
                           .retry_cnt = 7,
                           .rnr_retry = 7,
                           .max_rd_atomic = 1}),
                ModifyResult::kOk);
      for (int i = 0; i < 8; ++i) EXPECT_EQ(qp.PostRecv({.sges = OneSge(0x8000, 4096, 1)}), PostResult::kOk);
    }
  }

  void Run() {
    for (size_t i = 0; i < packets_.size(); ++i) {
      const OwnedPacket& captured = packets_[i];
      SCOPED_TRACE(::testing::Message() << "frame " << i << ", " << OpcodeName(captured.head.bth.opcode));
      End& from = ends_.at(captured.head.src_ip);
      End& to = ends_.at(captured.head.dst_ip);
      const OpcodeInfo& info = Info(captured.head.bth.opcode);
      if (info.atomic_eth) {
        PostAtomic(i, from, to);
      } else if (IsRequest(captured) && (info.first || info.only)) {
        Post(i, from, to);
      }
      from.qp.front().Poll(0, from.memory, from.sink);
      if (from.sink.sent.empty()) {
        ADD_FAILURE() << "we sent nothing";
        return;
      }
      OwnedPacket ours = from.sink.sent.front();
      from.sink.sent.pop_front();
      ours.head.udp_src_port = captured.head.udp_src_port;
      EXPECT_TRUE(SamePacket(ours.packet(), captured.packet()))
          << "ours: " << OpcodeName(ours.head.bth.opcode) << " psn " << ours.head.bth.psn.raw();
      to.qp.front().OnPacket(0, captured.packet(), to.memory);
      to.qp.front().Poll(0, to.memory, to.sink);
    }
    for (const auto& [ip, end] : ends_) {
      EXPECT_TRUE(end.sink.sent.empty()) << OpcodeName(end.sink.sent.front().head.bth.opcode);
      EXPECT_EQ(end.qp.front().state(), QpState::kRts);
    }
  }

 private:
  struct End {
    std::optional<Psn> first_psn;
    std::vector<QueuePair> qp;
    FlatMemory memory;
    KeepingSink sink;
  };

  // The work request whose first packet is the i-th captured, with the data that the capture shows.
  void Post(size_t i, End& from, End& to) {
    const OwnedPacket& first = packets_[i];
    const Opcode op = first.head.bth.opcode;
    const bool read = op == Opcode::kRcReadRequest;
    SendWr wr{.opcode = read                          ? WrOpcode::kRead
                        : op >= Opcode::kRcWriteFirst ? WrOpcode::kWrite
                                                      : WrOpcode::kSend};
    std::vector<uint8_t> data;
    for (size_t k = i + (read ? 1 : 0); k < packets_.size(); ++k) {
      const OwnedPacket& p = packets_[k];
      const OpcodeInfo& info = Info(p.head.bth.opcode);
      if (p.head.src_ip != (read ? first.head.dst_ip : first.head.src_ip)) continue;
      data.insert(data.end(), p.payload.begin(), p.payload.end());
      if (!info.last && !info.only) continue;
      wr.imm = p.head.imm;
      if (info.imm) wr.opcode = wr.opcode == WrOpcode::kWrite ? WrOpcode::kWriteImm : WrOpcode::kSendImm;
      wr.solicited = p.head.bth.solicited;
      break;
    }
    wr.sges = OneSge(0, static_cast<uint32_t>(data.size()), 1);
    wr.remote_address = first.head.reth.virtual_address;
    wr.rkey = first.head.reth.rkey;
    if (Info(op).reth && !data.empty()) {
      to.memory.Remove(wr.rkey);
      auto& region = to.memory.Add(wr.rkey, wr.remote_address, data.size(), /*remote=*/true);
      if (read) region.bytes = data;
    }
    if (!read) std::ranges::copy(data, from.memory.region(1).bytes.begin());
    EXPECT_EQ(from.qp.front().PostSend(wr), PostResult::kOk);
  }

  // The atomic that is the i-th captured, on what its answer, which is the next, says that was there.
  void PostAtomic(size_t i, End& from, End& to) {
    const Packet& first = packets_[i].head;
    ASSERT_LT(i + 1, packets_.size());
    const bool swaps = first.bth.opcode == Opcode::kRcCompareSwap;
    SendWr wr{.opcode = swaps ? WrOpcode::kCompareSwap : WrOpcode::kFetchAdd};
    wr.sges = OneSge(0, kAtomicBytes, 1);
    wr.remote_address = first.atomic.virtual_address;
    wr.rkey = first.atomic.rkey;
    wr.compare_add = swaps ? first.atomic.compare : first.atomic.swap_or_add;
    wr.swap = first.atomic.swap_or_add;
    to.memory.Remove(wr.rkey);
    auto& region = to.memory.Add(wr.rkey, wr.remote_address, kAtomicBytes, /*remote=*/true);
    std::memcpy(region.bytes.data(), &packets_[i + 1].head.original, kAtomicBytes);
    EXPECT_EQ(from.qp.front().PostSend(wr), PostResult::kOk);
  }

  std::vector<OwnedPacket> packets_;
  std::map<Ip, End> ends_;
};

// The same over an unreliable connection, where one end speaks and each packet is taken or not: our queue
// pair in the place of each end.
class UcReplay {
 public:
  explicit UcReplay(const std::string& name) : packets_(ReadPackets(name)) {
    memory_.Add(1, 0, 1 << 16);
    memory_.Add(2, 1 << 20, 1 << 16);
  }

  void Run() {
    while (at_ < packets_.size()) {
      SCOPED_TRACE(::testing::Message() << "frame " << at_);
      Message();
      if (::testing::Test::HasFailure()) return;
    }
  }

 private:
  // One message; its sender begins with its PSN, and its receiver at any.
  void Message() {
    const size_t begin = at_;
    std::vector<uint8_t> data;
    do {
      data.insert(data.end(), packets_[at_].payload.begin(), packets_[at_].payload.end());
    } while (!IsLast(packets_[at_++]));
    const Packet &first = packets_[begin].head, &last = packets_[at_ - 1].head;
    std::ranges::copy(data, memory_.region(1).bytes.begin());
    const bool write = Info(first.bth.opcode).reth, imm = Info(last.bth.opcode).imm;
    SendWr wr{.opcode = write ? (imm ? WrOpcode::kWriteImm : WrOpcode::kWrite)
                              : (imm ? WrOpcode::kSendImm : WrOpcode::kSend)};
    wr.solicited = last.bth.solicited;
    wr.sges = OneSge(0, static_cast<uint32_t>(data.size()), 1);
    wr.imm = last.imm;
    wr.remote_address = first.reth.virtual_address;
    wr.rkey = first.reth.rkey;
    UcQueuePair from = End(first.src_ip, Qpn{0x99}, first.dst_ip, first.bth.dest_qp, first.bth.psn);
    ASSERT_EQ(from.PostSend(wr), PostResult::kOk);
    KeepingSink sink;
    from.Poll(memory_, sink);
    ASSERT_EQ(sink.sent.size(), at_ - begin);
    UcQueuePair to = End(first.dst_ip, first.bth.dest_qp, first.src_ip, Qpn{0x99}, Psn(0));
    ASSERT_EQ(to.PostRecv({.sges = OneSge(1 << 20, 4096, 2)}), PostResult::kOk);
    if (write) memory_.Add(wr.rkey, wr.remote_address, 4096, /*remote=*/true);
    for (size_t i = begin; i < at_; ++i) {
      OwnedPacket ours = sink.sent[i - begin];
      ours.head.udp_src_port = packets_[i].head.udp_src_port;
      EXPECT_TRUE(SamePacket(ours.packet(), packets_[i].packet())) << "frame " << i;
      to.OnPacket(packets_[i].packet(), memory_);
    }
    const auto& into = memory_.region(write ? wr.rkey : 2).bytes;
    EXPECT_TRUE(std::ranges::equal(data, std::span(into).first(data.size())));
    Completion c;
    EXPECT_EQ(to.NextCompletion(&c), !write || imm);
    EXPECT_TRUE(c.ok() && c.has_imm == imm && c.imm == (imm ? wr.imm : 0));
    if (write) memory_.Remove(wr.rkey);
  }

  static bool IsLast(const OwnedPacket& p) {
    const OpcodeInfo& info = Info(p.head.bth.opcode);
    return info.last || info.only;
  }

  static UcQueuePair End(Ip ip, Qpn qpn, Ip peer_ip, Qpn peer, Psn psn) {
    UcQueuePair qp({.local_ip = ip, .local_qpn = qpn});
    EXPECT_EQ(qp.Modify({.state = QpState::kInit, .remote_write = true}), ModifyResult::kOk);
    EXPECT_EQ(qp.Modify({.state = QpState::kRtr,
                         .remote_ip = peer_ip,
                         .remote_qpn = peer,
                         .path_mtu = 256,
                         .rq_psn = Psn(0)}),
              ModifyResult::kOk);
    EXPECT_EQ(qp.Modify({.state = QpState::kRts, .sq_psn = psn}), ModifyResult::kOk);
    return qp;
  }

  std::vector<OwnedPacket> packets_;
  size_t at_ = 0;
  FlatMemory memory_;
};

// Two Sends, far apart: each by a queue pair that begins with its PSN, to one that has the window.
TEST(GoldenReplayTest, SendWithInvalidate) {
  const std::vector<OwnedPacket> packets = ReadPackets("rc_send_inv.pcap");
  ASSERT_EQ(packets.size(), 3u);
  for (const std::span<const OwnedPacket> message :
       {std::span(packets).first(2), std::span(packets).last(1)}) {
    const Packet &first = message.front().head, &last = message.back().head;
    const auto ready = [&](bool sends) {
      QueuePair qp({.local_ip = sends ? first.src_ip : first.dst_ip,
                    .local_qpn = sends ? Qpn{0x11} : first.bth.dest_qp,
                    .policy = RxeLike()});
      EXPECT_EQ(
          qp.Modify(
              {.state = QpState::kInit, .remote_read = false, .remote_write = false, .remote_atomic = false}),
          ModifyResult::kOk);
      EXPECT_EQ(qp.Modify({.state = QpState::kRtr,
                           .remote_ip = sends ? first.dst_ip : first.src_ip,
                           .remote_qpn = sends ? first.bth.dest_qp : Qpn{0x11},
                           .path_mtu = 1024,
                           .rq_psn = first.bth.psn,
                           .max_dest_rd_atomic = 1,
                           .min_rnr_timer = 14}),
                ModifyResult::kOk);
      EXPECT_EQ(qp.Modify({.state = QpState::kRts,
                           .sq_psn = first.bth.psn,
                           .timeout = 14,
                           .retry_cnt = 7,
                           .rnr_retry = 7,
                           .max_rd_atomic = 1}),
                ModifyResult::kOk);
      return qp;
    };
    QueuePair from = ready(true), to = ready(false);
    FlatMemory memory;
    auto& bytes = memory.Add(1, 0, 1 << 16).bytes;
    uint32_t length = 0;
    for (const OwnedPacket& p : message) {
      std::ranges::copy(p.payload, bytes.begin() + length);
      length += static_cast<uint32_t>(p.payload.size());
    }
    SendWr wr{.opcode = WrOpcode::kSendInv, .solicited = last.bth.solicited, .sges = OneSge(0, length, 1)};
    wr.invalidate_rkey = last.invalidate_rkey;
    ASSERT_EQ(from.PostSend(wr), PostResult::kOk);
    KeepingSink sink;
    from.Poll(0, memory, sink);
    ASSERT_EQ(sink.sent.size(), message.size());
    memory.AddWindow(last.invalidate_rkey);
    ASSERT_TRUE(memory.Bind({.rkey = last.invalidate_rkey}));
    ASSERT_EQ(to.PostRecv({.sges = OneSge(0x8000, 4096, 1)}), PostResult::kOk);
    for (size_t i = 0; i < message.size(); ++i) {
      OwnedPacket ours = sink.sent[i];
      ours.head.udp_src_port = message[i].head.udp_src_port;
      EXPECT_TRUE(SamePacket(ours.packet(), message[i].packet())) << "frame " << i;
      to.OnPacket(0, message[i].packet(), memory);
    }
    Completion c;
    ASSERT_TRUE(to.NextCompletion(&c));
    EXPECT_TRUE(c.ok() && c.has_invalidated && c.invalidated_rkey == last.invalidate_rkey);
    EXPECT_TRUE(std::ranges::equal(std::span(bytes).first(length), std::span(bytes).subspan(0x8000, length)));
  }
}

TEST(GoldenReplayTest, Send) { Replay("rc_send.pcap").Run(); }
TEST(GoldenReplayTest, Write) { Replay("rc_write.pcap").Run(); }
TEST(GoldenReplayTest, Read) { Replay("rc_read.pcap").Run(); }
TEST(GoldenReplayTest, FetchAdd) { Replay("rc_fetch_add.pcap").Run(); }
TEST(GoldenReplayTest, CompareSwap) { Replay("rc_compare_swap.pcap", 0, Qpn{0x12}).Run(); }
TEST(GoldenReplayTest, ImmediateOverThePsnWrap) { Replay("rc_imm.pcap").Run(); }
TEST(GoldenReplayTest, SequenceNak) { Replay("rc_nak.pcap", /*missed=*/1).Run(); }
TEST(GoldenReplayTest, UnreliableSend) { UcReplay("uc_send.pcap").Run(); }
TEST(GoldenReplayTest, UnreliableWrite) { UcReplay("uc_write.pcap").Run(); }
TEST(GoldenReplayTest, UnreliableImmediate) { UcReplay("uc_imm.pcap").Run(); }

}  // namespace
}  // namespace epic::roce::testing
