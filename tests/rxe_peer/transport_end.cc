// Our end of the exchange: roce/transport's queue pair on one interface through libpcap. Answers ARP for its
// address, may lose frames by seed in both directions. Prints "ok" and its counters, or what was wrong.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <random>

#include "io/clock.h"
#include "io/event_loop.h"
#include "io/pcap_port.h"
#include "roce/arp.h"
#include "roce/frame.h"
#include "roce/transport/queue_pair.h"
#include "tests/rxe_peer/exchange.h"

namespace epic::rxe_peer {
namespace {

constexpr uint32_t kKey = 7, kFirstPsn = 0xfffff0;
constexpr Qpn kQpn{0x77};
constexpr roce::MacAddress kMac = {0x02, 0xe0, 0, 0, 0, 1};

struct Options {
  std::string interface;
  uint32_t address = 0, peer_address = 0;
  std::string peer_mac;
  uint32_t peer_qpn = 0, peer_rkey = 0;
  uint64_t peer_memory = 0;
  uint32_t loss_per_mille = 0;
  uint64_t seed = 1;
};

// The exchange's memory at addresses from 0.
class FlatMemory final : public roce::Memory {
 public:
  std::optional<std::span<uint8_t>> Map(roce::Access, uint32_t key, uint64_t address,
                                        uint32_t length) override {
    if (key != kKey || address > bytes.size() || length > bytes.size() - address) return std::nullopt;
    return std::span(bytes).subspan(address, length);
  }
  std::vector<uint8_t> bytes = std::vector<uint8_t>(Exchange::kBytes);
};

class End final : public roce::PacketSink {
 public:
  End(const Options& options, io::PcapPort& port, io::EventLoop& loop)
      : options_(options),
        port_(port),
        loop_(loop),
        random_(options.seed),
        exchange_(0, memory_.bytes),
        qp_({.local_ip = Ipv4{options.address}, .local_qpn = kQpn, .policy = {}}) {
    unsigned byte[6] = {};
    std::sscanf(options.peer_mac.c_str(), "%x:%x:%x:%x:%x:%x", byte, byte + 1, byte + 2, byte + 3, byte + 4,
                byte + 5);
    for (size_t i = 0; i < 6; ++i) peer_mac_[i] = static_cast<uint8_t>(byte[i]);
    qp_.Modify({.state = roce::QpState::kInit, .remote_read = true, .remote_write = true});
    qp_.Modify({.state = roce::QpState::kRtr,
                .remote_ip = Ipv4{options.peer_address},
                .remote_qpn = Qpn{options.peer_qpn},
                .path_mtu = 1024,
                .rq_psn = Psn(kFirstPsn),
                .max_dest_rd_atomic = 4,
                .min_rnr_timer = 14});
    qp_.Modify({.state = roce::QpState::kRts,
                .sq_psn = Psn(kFirstPsn),
                .timeout = 14,
                .retry_cnt = 7,
                .rnr_retry = 7,
                .max_rd_atomic = 4});
  }

  void OnFrame(std::span<const uint8_t> frame) {
    if (const auto arp = roce::ParseArp(frame)) return AnswerArp(*arp);
    roce::FrameAddress address;
    roce::Packet packet;
    if (roce::ParseFrame(frame, &address, &packet) != roce::ParseResult::kOk || Loses()) return;
    heard_ = io::MonotonicNow();
    qp_.OnPacket(heard_, packet, memory_);
  }

  // Everything that can be done now. The loop ends a while after the last packet.
  void Work() {
    const Nanos now = io::MonotonicNow();
    roce::Completion done;
    while (qp_.NextCompletion(&done)) Take(done);
    if (heard_ != 0) Post();
    qp_.Poll(now, memory_, *this);
    port_.Flush();
    const bool quiet = exchange_.done() && now - heard_ > kSecond;
    if (quiet || failed_ || now - begun_ > 25 * kSecond) return loop_.Stop();
    loop_.SetTimer(1, std::min(std::max(qp_.next_deadline(), now), now + 10 * kMillisecond));
  }

  void Send(const roce::Packet& packet) override {
    if (Loses()) return;
    const roce::FrameAddress address{.dst = peer_mac_, .src = kMac, .ip_id = ip_id_++, .vlan = {}};
    frame_.resize(roce::FrameBytes(packet));
    roce::WriteFrame(address, packet, frame_);
    port_.Send(frame_);
  }

  int Report() const {
    const bool ok = exchange_.done() && exchange_.wrong() == 0 && !failed_;
    const roce::QpCounters& c = qp_.counters();
    std::printf(
        "%s lost %d sent %lu repeated %lu timeouts %lu naks %lu/%lu rnr_naks %lu/%lu duplicates %lu\n",
        ok ? "ok" : "failed", lost_, c.packets_sent, c.packets_repeated, c.timeouts, c.naks_received,
        c.naks_sent, c.rnr_naks_received, c.rnr_naks_sent, c.duplicates);
    return ok ? 0 : 1;
  }

 private:
  // Not while this end still refuses: with losses and RNR NAKs of ours at once an rdma_rxe host has completed
  // a Read with wrong bytes. Presumably as docs/adr/0007-a-stream-out-of-step-is-ended.md has it; not proved.
  bool Loses() {
    if (qp_.counters().rnr_naks_sent < kRefusals) return false;
    const bool loses = random_() % 1000 < options_.loss_per_mille;
    lost_ += loses;
    return loses;
  }

  void AnswerArp(const roce::Arp& arp) {
    if (arp.op != roce::ArpOp::kRequest || Raw(arp.target_ip) != options_.address) return;
    frame_.resize(roce::kMaxArpFrameBytes);
    port_.Send(std::span(frame_).first(roce::WriteArp(roce::ArpReplyTo(arp, kMac), frame_)));
  }

  void Take(const roce::Completion& done) {
    if (!done.ok()) {
      std::printf("transport_end: completion with %s\n", roce::Name(done.status));
      failed_ = true;
    } else if (done.is_recv()) {
      exchange_.OnReceived(done.bytes, done.has_imm, done.imm);
    } else {
      exchange_.OnCompleted(static_cast<int>(done.wr_id));
    }
  }

  static roce::SgeList OneSge(Exchange::Area area, int slot, uint32_t bytes) {
    roce::SgeList list;
    list.count = 1;
    list.sge[0] = {Exchange::OffsetOf(area, slot), bytes, kKey};
    return list;
  }

  void Post() {
    while (exchange_.may_receive(qp_.counters().rnr_naks_sent)) {
      qp_.PostRecv({.sges = OneSge(Exchange::kRecv, exchange_.PostReceive(), kSlot)});
    }
    while (exchange_.may_post()) {
      const int k = exchange_.Post();
      const Op op = OpOf(k);
      roce::SendWr wr{.wr_id = static_cast<uint64_t>(k), .inline_bytes = {}, .imm = static_cast<uint32_t>(k)};
      wr.opcode = op == Op::kSend      ? roce::WrOpcode::kSend
                  : op == Op::kSendImm ? roce::WrOpcode::kSendImm
                  : op == Op::kWrite   ? roce::WrOpcode::kWrite
                                       : roce::WrOpcode::kRead;
      wr.sges = OneSge(op == Op::kRead ? Exchange::kIn : Exchange::kOut, k, BytesOf(k));
      wr.remote_address =
          options_.peer_memory + Exchange::OffsetOf(op == Op::kRead ? Exchange::kOut : Exchange::kTarget, k);
      wr.rkey = options_.peer_rkey;
      failed_ |= qp_.PostSend(wr) != roce::PostResult::kOk;
    }
  }

  const Options& options_;
  io::PcapPort& port_;
  io::EventLoop& loop_;
  std::mt19937_64 random_;
  FlatMemory memory_;
  Exchange exchange_;
  roce::QueuePair qp_;
  roce::MacAddress peer_mac_{};
  std::vector<uint8_t> frame_;
  Nanos begun_ = io::MonotonicNow(), heard_ = 0;
  uint16_t ip_id_ = 0;
  int lost_ = 0;
  bool failed_ = false;
};

int Run(const Options& options) {
  auto port = io::PcapPort::Open(options.interface, size_t{8} << 20);
  if (!port.ok()) {
    std::printf("transport_end: %s\n", std::string(port.status().message()).c_str());
    return 1;
  }
  io::EventLoop loop(0);
  End end(options, **port, loop);
  loop.Watch((*port)->fd(), [&](Nanos) {
    const auto handler = [](void* user, std::span<const uint8_t> frame) {
      static_cast<End*>(user)->OnFrame(frame);
    };
    const auto count = (*port)->Receive(64, handler, &end);
    end.Work();
    return count.ok() && *count > 0;
  });
  loop.OnTimer([&](Nanos, uint64_t) { end.Work(); });
  end.Work();
  loop.Run();
  return end.Report();
}

}  // namespace
}  // namespace epic::rxe_peer

int main(int argc, char** argv) {
  epic::rxe_peer::Options options;
  CLI::App app("The transport's end of an exchange with an rdma_rxe host; needs CAP_NET_RAW");
  app.add_option("--interface", options.interface, "where the peer is")->required();
  app.add_option("--address", options.address, "own IPv4 address as a number")->required();
  app.add_option("--peer-address", options.peer_address, "the peer's, as a number")->required();
  app.add_option("--peer-mac", options.peer_mac, "aa:bb:cc:dd:ee:ff")->required();
  app.add_option("--peer-qpn", options.peer_qpn)->required();
  app.add_option("--peer-rkey", options.peer_rkey)->required();
  app.add_option("--peer-memory", options.peer_memory, "where its memory begins")->required();
  app.add_option("--loss", options.loss_per_mille, "frames lost in each direction, of a thousand");
  app.add_option("--seed", options.seed, "of the losses");
  CLI11_PARSE(app, argc, argv);
  return epic::rxe_peer::Run(options);
}
