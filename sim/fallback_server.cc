#include "sim/fallback_server.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "incengine/state/connect.h"

namespace epic::sim {
namespace {

// More than a leg ever has under way.
constexpr uint32_t kMessages = 128;

// The other end of the leg.
engine::EndpointConfig Turned(engine::EndpointConfig end, Ipv4 switch_ip) {
  std::swap(end.local_qpn, end.remote_qpn);
  std::swap(end.in_psn, end.out_psn);
  end.remote_ip = switch_ip;
  return end;
}

}  // namespace

FallbackServer::FallbackServer(const engine::GroupConfig& group, Ipv4 switch_ip)
    : bytes_(size_t{4} * group.path_mtu),
      qp_(engine::Connect(group, Turned(*group.server, switch_ip), group.server->remote_ip,
                          {.sends = kMessages, .receives = kMessages}, {})),
      sums_({.world_size = group.world_size,
             .path_mtu = group.path_mtu,
             .message_packets = group.message_packets,
             .slots = group.slots}),
      memory_(2 * kMessages * bytes_) {
  for (uint32_t number = 0; number < kMessages; ++number) PostReceive(number);
}

void FallbackServer::PostReceive(uint32_t number) {
  roce::RecvWr wr;
  wr.wr_id = number;
  wr.sges.count = 1;
  wr.sges.sge[0] = {number * bytes_, static_cast<uint32_t>(bytes_), 1};
  EPIC_CHECK(qp_.PostRecv(wr) == roce::PostResult::kOk);
}

void FallbackServer::Poll(Nanos now, roce::PacketSink& sink) {
  do {
    qp_.Poll(now, *this, sink);
    for (roce::Completion done; qp_.NextCompletion(&done);) {
      if (done.is_recv() && done.ok()) Take(done);
    }
  } while (qp_.next_deadline() <= now);
}

void FallbackServer::Take(const roce::Completion& done) {
  const auto kind = static_cast<LegMessage>(done.imm >> 28);
  if (kind == LegMessage::kPart || kind == LegMessage::kLast) ++parts_;
  const auto message = std::span(memory_).subspan(done.wr_id * bytes_, done.bytes);
  if (const std::string_view wrong = sums_.Take(done.imm, message); !wrong.empty()) {
    if (wrong_.empty()) wrong_ = wrong;
    return void(qp_.Modify({.state = roce::QpState::kErr}));
  }
  PostReceive(static_cast<uint32_t>(done.wr_id));
  for (fallback::Sums::Fetched sum; sums_.NextFetched(&sum);) {
    const size_t at = (kMessages + sent_++ % kMessages) * bytes_;
    std::ranges::copy(sum.bytes, memory_.begin() + static_cast<ptrdiff_t>(at));
    roce::SendWr wr{.opcode = roce::WrOpcode::kSendImm, .sges = {}, .inline_bytes = {}};
    wr.imm = sum.immediate;
    wr.sges.count = 1;
    wr.sges.sge[0] = {at, static_cast<uint32_t>(sum.bytes.size()), 1};
    EPIC_CHECK(qp_.PostSend(wr) == roce::PostResult::kOk);
  }
}

std::optional<std::span<uint8_t>> FallbackServer::Map(roce::Access, uint32_t, uint64_t address,
                                                      uint32_t length) {
  return std::span(memory_).subspan(address, length);
}

}  // namespace epic::sim
