// Our queue pairs in the place of rdma_rxe's: what real guests said to each other (tests/golden) is said
// again, each end hears the other's captured packets and must answer with the captured ones.
#include <gtest/gtest.h>
#include <pcap/pcap.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "roce/frame.h"
#include "roce/packet_testing.h"
#include "roce/transport/transport_testing.h"

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

bool IsRequest(const OwnedPacket& p) { return p.head.bth.opcode <= Opcode::kRcReadRequest; }

class Replay {
 public:
  // missed: the responder expects PSNs from so many before the first one captured.
  explicit Replay(const std::string& name, uint32_t missed = 0) : packets_(ReadPackets(name)) {
    for (const OwnedPacket& p : packets_) {
      End& end = ends_[p.head.src_ip];
      if (IsRequest(p) && !end.first_psn) end.first_psn = p.head.bth.psn;
    }
    for (auto& [ip, end] : ends_) {
      end.memory.Add(1, 0, 1 << 16);
      QpConfig config;
      config.local_ip = ip;
      config.local_qpn = Qpn{0x11};
      config.policy = RxeLike();
      end.qp.emplace_back(config);
      const auto& [peer_ip, peer] = ip == ends_.begin()->first ? *ends_.rbegin() : *ends_.begin();
      QueuePair& qp = end.qp.front();
      EXPECT_EQ(qp.Modify({.state = QpState::kInit, .remote_read = true, .remote_write = true}),
                ModifyResult::kOk);
      EXPECT_EQ(qp.Modify({.state = QpState::kRtr,
                           .remote_ip = peer_ip,
                           .remote_qpn = Qpn{0x11},
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
      if (IsRequest(captured) && (info.first || info.only)) Post(i, from, to);
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

  std::vector<OwnedPacket> packets_;
  std::map<Ip, End> ends_;
};

TEST(GoldenReplayTest, Send) { Replay("rc_send.pcap").Run(); }
TEST(GoldenReplayTest, Write) { Replay("rc_write.pcap").Run(); }
TEST(GoldenReplayTest, Read) { Replay("rc_read.pcap").Run(); }
TEST(GoldenReplayTest, ImmediateOverThePsnWrap) { Replay("rc_imm.pcap").Run(); }
TEST(GoldenReplayTest, SequenceNak) { Replay("rc_nak.pcap", /*missed=*/1).Run(); }

}  // namespace
}  // namespace epic::roce::testing
