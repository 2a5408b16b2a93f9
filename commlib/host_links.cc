#include "commlib/host_links.h"

#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "commlib/core/host_peers.h"

namespace epic::internal {
namespace {

constexpr uint32_t kPsnMask = (1u << 24) - 1;

}  // namespace

HostLinks::HostLinks(std::shared_ptr<verbs::Device> device, std::shared_ptr<verbs::CompletionQueue> cq,
                     const verbs::ConnectInfo& connect, GroupCalls* calls)
    : device_(std::move(device)), cq_(std::move(cq)), connect_(connect), calls_(*calls) {}

Error HostLinks::Create(std::shared_ptr<verbs::Device> device, std::shared_ptr<verbs::CompletionQueue> cq,
                        uint32_t rank, uint32_t world_size, const verbs::ConnectInfo& connect,
                        GroupCalls* calls, std::unique_ptr<HostLinks>* links) {
  std::unique_ptr<HostLinks> result(new HostLinks(std::move(device), std::move(cq), connect, calls));
  for (const uint32_t peer : PeersOf(rank, world_size)) result->links_.push_back({.rank = peer});
  const auto room = static_cast<uint32_t>(result->links_.size()) * 2 * kHostQueueDepth;
  if (Error e = result->cq_->Grow(result->cq_->room() + room); !e.ok()) return e;
  const std::span<uint8_t> memory = calls->hosts_memory();
  if (Error e =
          verbs::Memory::Register(result->device_, memory.data(), memory.size(), true, &result->own_memory_);
      !e.ok()) {
    return e;
  }
  *links = std::move(result);
  return {};
}

HostLinks::Link* HostLinks::LinkWith(uint32_t rank) {
  const auto at = std::ranges::find(links_, rank, &Link::rank);
  return at == links_.end() ? nullptr : &*at;
}

std::string HostLinks::NameOf(const Link& link) const {
  if (!link.remote) return fmt::format("rank {}", link.rank);
  return fmt::format("rank {} ({})", link.rank, verbs::ToString(link.remote->ip));
}

std::string HostLinks::NameOf(uint32_t rank) const {
  return NameOf(*std::ranges::find(links_, rank, &Link::rank));
}

Error HostLinks::MakeEnd(Link* link, std::vector<PeerEndInfo>* tell) {
  std::unique_ptr<verbs::QueuePair> qp;
  if (Error e = verbs::QueuePair::Create(device_, cq_, kHostQueueDepth, kHostQueueDepth, &qp); !e.ok())
    return {e.code(), fmt::format("for the connection with {}: {}", NameOf(*link), e.message())};
  link->qp = std::move(qp);
  link->psn = static_cast<uint32_t>(random_()) & kPsnMask;
  tell->push_back({.rank = link->rank, .qpn = link->qp->qpn(), .psn = link->psn});
  return {};
}

Error HostLinks::MakeEnds(const std::vector<uint32_t>& wanted, std::vector<PeerEndInfo>* tell) {
  for (const uint32_t rank : wanted) {
    Link* const link = LinkWith(rank);
    EPIC_CHECK(link != nullptr);
    if (link->qp) continue;
    if (Error e = MakeEnd(link, tell); !e.ok()) return e;
  }
  return {};
}

Error HostLinks::OnPeerEnd(const PeerEndInfo& end, std::vector<PeerEndInfo>* tell,
                           std::optional<Connecting>* connect) {
  Link* const link = LinkWith(end.rank);
  // The same end may only get ready, and that once.
  if (link == nullptr || (end.ready ? !link->remote || link->ready : link->remote.has_value())) {
    return {ErrorCode::kInternal,
            fmt::format("rank {} has told of an end of a connection that does not fit", end.rank)};
  }
  if (end.ready) {
    link->ready = true;
    if (link->connected) calls_.SetReady(link->rank);
    return {};
  }
  link->remote = end;
  if (!link->qp) {
    if (Error e = MakeEnd(link, tell); !e.ok()) return e;
  }
  link->connecting = true;
  verbs::ConnectInfo info = connect_;
  info.name = fmt::format("rank {}", link->rank);
  info.remote_ip = end.ip;
  info.remote_qpn = end.qpn;
  info.recv_psn = end.psn;
  info.send_psn = link->psn;
  info.super_frames = end.super_frames;
  connect->emplace(Connecting{.rank = link->rank, .qp = link->qp, .info = info});
  return {};
}

void HostLinks::OnConnected(const Connecting& connecting, std::vector<PeerEndInfo>* tell) {
  Link* const link = LinkWith(connecting.rank);
  link->connecting = false;
  link->connected = true;
  calls_.SetConnected(link->rank);
  if (link->ready) calls_.SetReady(link->rank);
  tell->push_back({.rank = link->rank, .qpn = link->qp->qpn(), .psn = link->psn, .ready = true});
}

bool HostLinks::OnCompletion(const ibv_wc& completion, Error* error) {
  const auto link = std::ranges::find_if(
      links_, [&](const Link& one) { return one.connected && one.qp->qpn() == completion.qp_num; });
  if (link == links_.end()) return false;
  if (completion.status == IBV_WC_SUCCESS) {
    std::optional<uint32_t> imm;
    if ((completion.wc_flags & IBV_WC_WITH_IMM) != 0) imm = ntohl(completion.imm_data);
    calls_.OnComplete(link->rank, completion.wr_id, completion.byte_len, imm);
    return true;
  }
  calls_.OnFlushed(link->rank);
  if (!calls_.failed()) {
    *error = {ErrorCode::kTransport, fmt::format("the connection with {} failed: {}: {}", NameOf(*link),
                                                 (completion.wr_id & 1) != 0 ? "receive" : "send",
                                                 ibv_wc_status_str(completion.status))};
  }
  return true;
}

void HostLinks::ToError() {
  for (const Link& link : links_) {
    if (link.connected) link.qp->ToError();
  }
}

void HostLinks::DestroyQps() {
  for (const Link& link : links_) {
    if (link.qp && !link.connecting) link.qp->DestroyQp();
  }
}

}  // namespace epic::internal
