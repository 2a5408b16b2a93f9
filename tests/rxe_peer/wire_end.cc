#include "tests/rxe_peer/wire_end.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "io/clock.h"
#include "roce/frame_testing.h"
#include "tests/rxe_peer/ends.h"

namespace epic::rxe_peer {
namespace {

constexpr roce::MacAddress kMac = {0x02, 0xe0, 0, 0, 0, 1};

}  // namespace

void EndOptions::AddTo(const Command& line) {
  line.Add("--interface", &interface, "where the peer is").Required();
  line.Add("--address", &address, "own IPv4 address as a number").Required();
  line.Add("--peer-address", &peer_address, "the peer's, as a number").Required();
  line.Add("--peer-mac", &peer_mac, "aa:bb:cc:dd:ee:ff").Required();
  line.Add("--peer-qpn", &peer_qpn).Required();
}

void ExchangeOptions::AddTo(const Command& line) {
  end.AddTo(line);
  line.Add("--peer-rkey", &peer_rkey).Required();
  line.Add("--peer-memory", &peer_memory, "where its memory begins").Required();
  line.Add("--loss", &loss_per_mille, "frames lost in each direction, of a thousand");
  line.Add("--seed", &seed, "of the losses");
}

std::optional<std::span<uint8_t>> FlatMemory::Map(roce::Access, uint32_t key, uint64_t address,
                                                  uint32_t length) {
  if (key != kOurRkey || address > bytes.size() || length > bytes.size() - address) return std::nullopt;
  return std::span(bytes).subspan(address, length);
}

WireEnd::WireEnd(const EndOptions& options, roce::Memory& memory, io::PcapPort& port, io::EventLoop& loop)
    : options_(options),
      memory_(memory),
      port_(port),
      loop_(loop),
      // As rdma_rxe has it: a guest on a busy machine may stand still for longer than seven repetitions take.
      qp_({.local_ip = Ipv4{options.address},
           .local_qpn = Qpn{kOurQpn},
           .policy = {.retry_7_is_forever = true}}) {
  unsigned byte[6] = {};
  std::sscanf(options.peer_mac.c_str(), "%x:%x:%x:%x:%x:%x", byte, byte + 1, byte + 2, byte + 3, byte + 4,
              byte + 5);
  for (size_t i = 0; i < 6; ++i) peer_mac_[i] = static_cast<uint8_t>(byte[i]);
  qp_.Modify(
      {.state = roce::QpState::kInit, .remote_read = true, .remote_write = true, .remote_atomic = true});
  qp_.Modify({.state = roce::QpState::kRtr,
              .remote_ip = Ipv4{options.peer_address},
              .remote_qpn = Qpn{options.peer_qpn},
              .path_mtu = kPathMtu,
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

void WireEnd::OnFrame(std::span<const uint8_t> frame) {
  if (const auto arp = roce::ParseArp(frame)) return AnswerArp(*arp);
  roce::FrameAddress address;
  roce::Packet packet;
  if (roce::ParseFrame(frame, &address, &packet) != roce::ParseResult::kOk) return;
  heard_ = true;
  Hear(packet);
}

void WireEnd::Hear(const roce::Packet& packet) { qp_.OnPacket(io::MonotonicNow(), packet, memory_); }

void WireEnd::Work() {
  const Nanos now = io::MonotonicNow();
  Use(qp_);
  qp_.Poll(now, memory_, *this);
  port_.sender().Flush();
  loop_.SetTimer(1, std::min(std::max(qp_.next_deadline(), now), now + kMillisecond));
}

std::vector<uint8_t> WireEnd::FrameOf(const roce::Packet& packet) {
  std::vector<uint8_t> frame(roce::FrameBytes(packet));
  roce::WriteFrame({.dst = peer_mac_, .src = kMac, .ip_id = ip_id_++, .vlan = {}}, packet, frame);
  return frame;
}

void WireEnd::AnswerArp(const roce::Arp& arp) {
  if (arp.op != roce::ArpOp::kRequest || Raw(arp.target_ip) != options_.address) return;
  std::vector<uint8_t> frame(roce::kMaxArpFrameBytes);
  port_.sender().Send(std::span(frame).first(roce::WriteArp(roce::ArpReplyTo(arp, kMac), frame)));
}

int RunEnd(const std::string& interface,
           const std::function<std::unique_ptr<WireEnd>(io::PcapPort&, io::EventLoop&)>& make) {
  auto port = io::PcapPort::Open(interface, size_t{8} << 20);
  if (!port.ok()) {
    std::printf("%s\n", std::string(port.status().message()).c_str());
    return 1;
  }
  io::EventLoop loop(0);
  const std::unique_ptr<WireEnd> end = make(**port, loop);
  loop.Watch((*port)->fds().front(), [&](Nanos) {
    const auto handler = [](void* user, const io::ReceivedFrame& frame) {
      static_cast<WireEnd*>(user)->OnFrame(frame.bytes);
    };
    const auto count = (*port)->Receive(64, handler, end.get());
    end->Work();
    return count.ok() && *count > 0;
  });
  loop.Watch(STDIN_FILENO, [&](Nanos) {
    char byte = 0;
    if (read(STDIN_FILENO, &byte, 1) <= 0) loop.Stop();
    return false;
  });
  loop.OnTimer([&](Nanos, uint64_t) { end->Work(); });
  end->Work();
  std::printf("there\n");
  std::fflush(stdout);
  loop.Run();
  return end->Report();
}

}  // namespace epic::rxe_peer
