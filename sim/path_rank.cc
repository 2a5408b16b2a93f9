#include "sim/path_rank.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "base/check.h"
#include "sim/own_memory.h"

namespace epic::sim {

PathRank::PathRank(const HostPathConfig& config, Host& host, Asks asks)
    : host_(host), asks_(std::move(asks)) {
  host_.AddHosts(config, [this](const GroupCalls::Request& request) { Post(request); });
}

void PathRank::SetConnected(int connection) {
  host_.core().SetConnected(static_cast<uint32_t>(connection));
  untold_.push_back(connection);
}

void PathRank::OnCompletion(Nanos, int number, const roce::Completion& c) {
  const auto connection = static_cast<uint32_t>(number);
  if (!c.ok()) {
    // A connection that fails before its group has: nobody else ends it.
    host_.core().Abort();
    return host_.core().OnFlushed(connection);
  }
  if (connection == kDatagrams && c.is_recv()) return OnDatagram(c);
  host_.core().OnComplete(connection, c.wr_id, c.bytes, c.has_imm ? std::optional(c.imm) : std::nullopt);
}

// Numbers of queue pairs are of the whole world: the address says nothing more.
void PathRank::OnDatagram(const roce::Completion& c) {
  const auto at = std::ranges::find(multicast_.members, c.src_qpn);
  const auto rank = static_cast<uint32_t>(at - multicast_.members.begin());
  const bool is_known = at != multicast_.members.end() && c.has_imm;
  host_.core().OnDatagram(c.wr_id, is_known ? std::optional(rank) : std::nullopt,
                          c.bytes - static_cast<uint32_t>(kGrhBytes), c.imm);
}

void PathRank::Poll(Nanos now, Peers& peers) {
  host_.Act(now);
  if (host_.core().failed()) {
    if (!std::exchange(closed_, true)) peers.Close();
    return;
  }
  Ask();
}

// The queue pair stands in line when the world has run the rank's peers.
void PathRank::Post(const GroupCalls::Request& request) {
  if (request.verb == HostVerb::kQkey) {
    epoch_ = request.imm;
    peers_->SetQkey(multicast_.qkey + epoch_);
    return host_.core().OnQkeySet();
  }
  const auto sges = SgesOf(request.address, request.length);
  const auto connection = static_cast<int>(request.connection);
  if (request.is_recv) {
    EPIC_CHECK(peers_->PostRecv(connection, {.wr_id = request.wr_id, .sges = sges}) == roce::PostResult::kOk);
    return;
  }
  roce::SendWr send{
      .wr_id = request.wr_id, .opcode = roce::WrOpcode::kSendImm, .sges = sges, .imm = request.imm};
  if (request.verb == HostVerb::kRead) {
    send.opcode = roce::WrOpcode::kRead;
    send.remote_address = request.remote.address;
    send.rkey = request.remote.rkey;
  }
  if (request.connection == kDatagrams) {
    send.ud = roce::UdAddress{.ip = Ipv4{Raw(multicast_.address) + request.group},
                              .qpn = roce::kMulticastQpn,
                              .qkey = multicast_.qkey + epoch_};
  }
  EPIC_CHECK(peers_->PostSend(connection, send) == roce::PostResult::kOk);
}

// Of a call that has ended the memory is the caller's, and no Read comes to it any more.
std::optional<std::span<uint8_t>> PathRank::MapForPeers(uint32_t rkey, uint64_t address, uint32_t length) {
  if (!host_.LetsRead(rkey)) return std::nullopt;
  return std::span(std::bit_cast<uint8_t*>(address), length);
}

void PathRank::Ask() {
  for (const uint32_t connection : host_.core().TakeWanted()) {
    if (std::ranges::find(asked_, connection) != asked_.end()) continue;
    asked_.push_back(connection);
    asks_.connect(static_cast<int>(connection));
  }
  for (const int connection : std::exchange(untold_, {})) asks_.tell(connection);
}

}  // namespace epic::sim
