#include "commlib/host_links.h"

#include <absl/cleanup/cleanup.h>
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
static_assert(kGrhBytes == verbs::kGrhBytes);

uint64_t KeyOf(const verbs::DatagramSource& source) { return uint64_t{Raw(source.ip)} << 32 | source.qpn; }

}  // namespace

HostLinks::HostLinks(std::shared_ptr<verbs::Device> device, std::shared_ptr<verbs::CompletionQueue> cq,
                     const verbs::ConnectInfo& connect, GroupCalls* calls, std::optional<Datagrams> datagrams)
    : device_(std::move(device)),
      cq_(std::move(cq)),
      connect_(connect),
      calls_(*calls),
      datagrams_(std::move(datagrams)) {}

Error HostLinks::Create(std::shared_ptr<verbs::Device> device, std::shared_ptr<verbs::CompletionQueue> cq,
                        uint32_t rank, uint32_t world_size, const verbs::ConnectInfo& connect,
                        GroupCalls* calls, std::optional<Datagrams>* datagrams,
                        std::unique_ptr<HostLinks>* links) {
  std::unique_ptr<HostLinks> result(new HostLinks(std::move(device), std::move(cq), connect, calls,
                                                  std::exchange(*datagrams, std::nullopt)));
  const absl::Cleanup give_back = [&] {
    if (result) *datagrams = std::move(result->datagrams_);
  };
  for (const uint32_t peer : PeersOf(rank, world_size)) result->links_.push_back({.connection = peer});
  if (result->datagrams_) {
    for (const uint32_t end : FetchRingOf(rank, world_size)) result->links_.push_back({.connection = end});
  }
  uint32_t room = 0;
  for (const Link& link : result->links_) room += result->SendsOn(link) + result->RecvsOn(link);
  if (result->datagrams_) room += 2 * calls->datagram_depth();
  if (Error e = result->cq_->Grow(result->cq_->room() + room); !e.ok()) return e;
  const std::span<uint8_t> memory = calls->hosts_memory();
  if (Error e =
          verbs::Memory::Register(result->device_, memory.data(), memory.size(), true, &result->own_memory_,
                                  /*remote_reads=*/result->datagrams_.has_value());
      !e.ok()) {
    return e;
  }
  calls->SetOwnMemory(
      {.address = reinterpret_cast<uintptr_t>(memory.data()), .rkey = result->own_memory_->rkey()});
  if (Error e = result->JoinGroup(); !e.ok()) return e;
  *links = std::move(result);
  return {};
}

Error HostLinks::JoinGroup() {
  if (!datagrams_) return {};
  const std::vector<verbs::DatagramSource>& ends = datagrams_->info.ends;
  for (uint32_t rank = 0; rank < ends.size(); ++rank) rank_of_source_.emplace(KeyOf(ends[rank]), rank);
  const MulticastInfo& info = datagrams_->info;
  const auto here = std::ranges::count(ends, device_->ip(), &verbs::DatagramSource::ip);
  return datagrams_->qp->Join(
      {.address = info.address, .qkey = info.qkey, .super_frames = info.super_frames, .alone = here == 1});
}

// The uppermost bit of a Q_Key is never set: verbs would take the queue pair's own (ibv_post_send).
Error HostLinks::SetEpoch(uint32_t epoch) {
  return datagrams_->qp->SetQkey((datagrams_->info.qkey + epoch) & 0x7fffffff);
}

HostLinks::Link* HostLinks::LinkOf(uint32_t connection) {
  const auto at = std::ranges::find(links_, connection, &Link::connection);
  return at == links_.end() ? nullptr : &*at;
}

uint32_t HostLinks::SendsOn(const Link& link) const {
  return IsOfFetchRing(link.connection) ? HostMulticast::kFetchSends : kHostQueueDepth;
}
uint32_t HostLinks::RecvsOn(const Link& link) const {
  return IsOfFetchRing(link.connection) ? calls_.fetch_depth() : kHostQueueDepth;
}

std::string HostLinks::NameOf(const Link& link) const {
  const uint32_t rank = RankAt(link.connection);
  if (!link.remote) return fmt::format("rank {}", rank);
  return fmt::format("rank {} ({})", rank, verbs::ToString(link.remote->ip));
}

std::string HostLinks::NameOf(uint32_t connection) const {
  if (connection == kDatagrams) return "the queue pair for datagrams";
  return "the connection with " + NameOf(*std::ranges::find(links_, connection, &Link::connection));
}

int HostLinks::Post(WorkBatch* batch, size_t* unposted) {
  if (batch->connection() == kDatagrams) return batch->Post(datagrams_->qp.get(), unposted);
  return batch->Post(LinkOf(batch->connection())->qp.get(), unposted);
}

Error HostLinks::MakeEnd(Link* link, std::vector<PeerEndInfo>* tell) {
  std::unique_ptr<verbs::QueuePair> qp;
  const bool fetches = IsOfFetchRing(link->connection);
  if (Error e = verbs::QueuePair::Create(device_, cq_, SendsOn(*link), RecvsOn(*link), &qp,
                                         fetches ? verbs::Reads::kBothWays : verbs::Reads::kNone);
      !e.ok())
    return {e.code(), fmt::format("for the connection with {}: {}", NameOf(*link), e.message())};
  link->qp = std::move(qp);
  link->psn = static_cast<uint32_t>(random_()) & kPsnMask;
  tell->push_back(
      {.rank = RankAt(link->connection), .qpn = link->qp->qpn(), .psn = link->psn, .fetches = fetches});
  return {};
}

Error HostLinks::MakeEnds(const std::vector<uint32_t>& wanted, std::vector<PeerEndInfo>* tell) {
  for (const uint32_t connection : wanted) {
    Link* const link = LinkOf(connection);
    EPIC_CHECK(link != nullptr);
    if (link->qp) continue;
    if (Error e = MakeEnd(link, tell); !e.ok()) return e;
  }
  return {};
}

Error HostLinks::OnPeerEnd(const PeerEndInfo& end, std::vector<PeerEndInfo>* tell,
                           std::optional<Connecting>* connect) {
  Link* const link = LinkOf(end.rank + (end.fetches ? kFetchRing : 0));
  // Who has been away says all of it again.
  const bool is_same =
      link != nullptr && link->remote && link->remote->qpn == end.qpn && link->remote->psn == end.psn;
  const bool is_again = is_same && (!end.ready || link->ready);
  if (is_again) return {};
  // The same end may only get ready, and that once.
  if (link == nullptr || (end.ready ? !link->remote || link->ready : link->remote.has_value())) {
    return {ErrorCode::kInternal,
            fmt::format("rank {} has told of an end of a connection that does not fit", end.rank)};
  }
  if (end.ready) {
    link->ready = true;
    if (link->connected) calls_.SetReady(link->connection);
    return {};
  }
  link->remote = end;
  if (!link->qp) {
    if (Error e = MakeEnd(link, tell); !e.ok()) return e;
  }
  link->connecting = true;
  verbs::ConnectInfo info = connect_;
  info.name = fmt::format("rank {}", end.rank);
  info.remote_ip = end.ip;
  info.remote_qpn = end.qpn;
  info.recv_psn = end.psn;
  info.send_psn = link->psn;
  info.super_frames = end.super_frames;
  connect->emplace(Connecting{.connection = link->connection, .qp = link->qp, .info = info});
  return {};
}

void HostLinks::OnConnected(const Connecting& connecting, std::vector<PeerEndInfo>* tell) {
  Link* const link = LinkOf(connecting.connection);
  link->connecting = false;
  link->connected = true;
  calls_.SetConnected(link->connection);
  if (link->ready) calls_.SetReady(link->connection);
  tell->push_back({.rank = RankAt(link->connection),
                   .qpn = link->qp->qpn(),
                   .psn = link->psn,
                   .ready = true,
                   .fetches = IsOfFetchRing(link->connection)});
}

// What bears no number is nobody's.
void HostLinks::OnDatagram(const ibv_wc& completion) {
  const uint8_t* const grh = calls_.DatagramAt(completion.wr_id);
  std::optional<uint32_t> from;
  const auto source = verbs::SourceOf(completion, grh);
  if (source && (completion.wc_flags & IBV_WC_WITH_IMM) != 0) {
    const auto found = rank_of_source_.find(KeyOf(*source));
    if (found != rank_of_source_.end()) from = found->second;
  }
  const uint32_t bytes = completion.byte_len - std::min(completion.byte_len, kGrhBytes);
  calls_.OnDatagram(completion.wr_id, from, bytes, ntohl(completion.imm_data));
}

bool HostLinks::OnCompletion(const ibv_wc& completion, Error* error) {
  if (datagrams_ && datagrams_->qp->exists() && completion.qp_num == datagrams_->qp->qpn()) {
    OnCompletionOf(kDatagrams, completion, error);
    return true;
  }
  const auto link = std::ranges::find_if(
      links_, [&](const Link& one) { return one.connected && one.qp->qpn() == completion.qp_num; });
  if (link == links_.end()) return false;
  OnCompletionOf(link->connection, completion, error);
  return true;
}

void HostLinks::OnCompletionOf(uint32_t connection, const ibv_wc& completion, Error* error) {
  const bool is_recv = (completion.wr_id & 1) != 0;
  if (completion.status == IBV_WC_SUCCESS) {
    if (connection == kDatagrams && is_recv) return OnDatagram(completion);
    std::optional<uint32_t> imm;
    if ((completion.wc_flags & IBV_WC_WITH_IMM) != 0) imm = ntohl(completion.imm_data);
    return calls_.OnComplete(connection, completion.wr_id, completion.byte_len, imm);
  }
  calls_.OnFlushed(connection);
  if (calls_.failed()) return;
  *error = {ErrorCode::kTransport, fmt::format("{} failed: {}: {}", NameOf(connection),
                                               is_recv                     ? "receive"
                                               : IsOfFetchRing(connection) ? "send or read"
                                                                           : "send",
                                               ibv_wc_status_str(completion.status))};
}

void HostLinks::ToError() {
  for (const Link& link : links_) {
    if (link.connected) link.qp->ToError();
  }
  if (datagrams_) datagrams_->qp->ToError();
}

void HostLinks::DestroyQps() {
  for (const Link& link : links_) {
    if (link.qp && !link.connecting) link.qp->DestroyQp();
  }
  if (datagrams_) datagrams_->qp->DestroyQp();
}

}  // namespace epic::internal
