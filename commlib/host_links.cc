#include "commlib/host_links.h"

#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "commlib/core/slices.h"
#include "protocol/flow.h"

namespace epic::internal {
namespace {

constexpr uint32_t kPsnMask = (1u << 24) - 1;
constexpr size_t kBatch = 16;

// That the switches see to the order is nothing that the hosts tell one another.
ControlHeader AsHostsHave(ControlHeader header) {
  header.flags &= ~kByHostsFlag;
  return header;
}

}  // namespace

// Requests in one direction of one connection, to be posted together.
struct HostLinks::Batch {
  Link* link = nullptr;
  bool is_recv = false;
  size_t count = 0;
  std::array<ibv_sge, kBatch> sges;
  std::array<ibv_send_wr, kBatch> sends;
  std::array<ibv_recv_wr, kBatch> recvs;
};

HostLinks::HostLinks(std::shared_ptr<verbs::Device> device, std::shared_ptr<verbs::CompletionQueue> cq,
                     const HostPathConfig& config, const verbs::ConnectInfo& connect)
    : device_(std::move(device)), cq_(std::move(cq)), config_(config), connect_(connect), path_(config) {
  for (const uint32_t rank : PeersOf(config.rank, config.world_size)) links_.push_back({.rank = rank});
}

Error HostLinks::Create(std::shared_ptr<verbs::Device> device, std::shared_ptr<verbs::CompletionQueue> cq,
                        const HostPathConfig& config, const verbs::ConnectInfo& connect,
                        std::unique_ptr<HostLinks>* links) {
  std::unique_ptr<HostLinks> result(new HostLinks(std::move(device), std::move(cq), config, connect));
  const auto room = static_cast<uint32_t>(result->links_.size()) * 2 * kHostQueueDepth;
  if (Error e = result->cq_->Grow(result->cq_->room() + room); !e.ok()) return e;
  const std::span<uint8_t> memory = result->path_.memory();
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

OpId HostLinks::Post(const HostCall& slice, const std::shared_ptr<Call>& call) {
  calls_.push_back(call);
  HostCall ours = slice;
  ours.header = AsHostsHave(slice.header);
  return path_.Post(ours);
}

uint64_t HostLinks::MostBytes(const ControlHeader& header) const {
  return path_.MostBytes(AsHostsHave(header));
}

uint64_t HostLinks::MostElements(const ControlHeader& header) const {
  return std::max<uint64_t>(1, MostBytes(header) / ElementBytes(header.type) / header.parts);
}

Error HostLinks::CheckLength(const ControlHeader& header) const {
  if (CallBytes(header) == 0 || SlicesOf(header.count, MostElements(header)) <= kMaxSlices) return {};
  return {ErrorCode::kInvalidArgument,
          fmt::format("count {}: a call is made in at most {} invocations, of {} elements each here; ring "
                      "instead of doubling takes longer ones",
                      header.count, kMaxSlices, MostElements(header))};
}

bool HostLinks::NeedsBuffers(const ControlHeader& header) const {
  if (CallBytes(header) == 0) return false;
  const ControlHeader slice = HeaderOfSlice(header, MostElements(header), 0);
  return !IsInlinedByHosts(slice, config_.world_size, config_.algorithm, config_.inline_bytes);
}

const Call* HostLinks::CallOf(OpId op) const {
  const bool ours = op >= first_call_ && op < first_call_ + static_cast<OpId>(calls_.size());
  return ours ? calls_[static_cast<size_t>(op - first_call_)].get() : nullptr;
}

std::optional<HostLinks::Ended> HostLinks::NextFinished() {
  const auto finished = path_.NextFinished();
  if (!finished) return std::nullopt;
  Ended ended{.call = std::move(calls_.front()), .outcome = finished->outcome};
  calls_.pop_front();
  ++first_call_;
  return ended;
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

Error HostLinks::MakeEnds(std::vector<PeerEndInfo>* tell) {
  for (const uint32_t rank : path_.Wanted()) {
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
    if (link->connected) path_.SetReady(link->rank);
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
  path_.SetConnected(link->rank);
  if (link->ready) path_.SetReady(link->rank);
  tell->push_back({.rank = link->rank, .qpn = link->qp->qpn(), .psn = link->psn, .ready = true});
}

ibv_sge HostLinks::SgeOf(const HostPath::Request& request) const {
  const verbs::Memory* memory = own_memory_.get();
  if (request.where != HostWhere::kOwn) {
    const Call* const call = CallOf(request.op);
    memory = (request.where == HostWhere::kSend ? call->send_memory : call->recv_memory).get();
  }
  return {
      .addr = reinterpret_cast<uintptr_t>(request.address), .length = request.length, .lkey = memory->lkey()};
}

Error HostLinks::Flush(Batch* batch) {
  if (batch->count == 0) return {};
  verbs::QueuePair& qp = *batch->link->qp;
  int error = 0;
  if (batch->is_recv) {
    ibv_recv_wr* left = nullptr;
    error = qp.PostRecvs(batch->recvs.data(), &left);
    for (; error != 0 && left != nullptr; left = left->next) path_.OnFlushed();
  } else {
    ibv_send_wr* left = nullptr;
    error = qp.PostSends(batch->sends.data(), &left);
    for (; error != 0 && left != nullptr; left = left->next) path_.OnFlushed();
  }
  batch->count = 0;
  if (error == 0) return {};
  return {ErrorCode::kTransport, fmt::format("cannot post to the connection with {}: {}",
                                             NameOf(*batch->link), std::strerror(error))};
}

Error HostLinks::PostWork() {
  Batch batch;
  HostPath::Request request;
  while (path_.NextRequest(&request)) {
    const bool fits = batch.count > 0 && batch.count < kBatch && batch.link->rank == request.peer &&
                      batch.is_recv == request.is_recv;
    if (!fits) {
      if (Error e = Flush(&batch); !e.ok()) {
        path_.OnFlushed();  // this one
        return e;
      }
      batch.link = LinkWith(request.peer);
      batch.is_recv = request.is_recv;
    }
    const size_t at = batch.count++;
    ibv_sge* const sge = &batch.sges[at];
    *sge = SgeOf(request);
    if (request.is_recv) {
      batch.recvs[at] = {.wr_id = request.wr_id, .next = nullptr, .sg_list = sge, .num_sge = 1};
      if (at > 0) batch.recvs[at - 1].next = &batch.recvs[at];
    } else {
      ibv_send_wr& wr = batch.sends[at];
      wr = {};
      wr.wr_id = request.wr_id;
      wr.sg_list = sge;
      wr.num_sge = 1;
      wr.opcode = IBV_WR_SEND_WITH_IMM;
      wr.send_flags = IBV_SEND_SIGNALED;
      wr.imm_data = htonl(request.imm);
      if (at > 0) batch.sends[at - 1].next = &wr;
    }
  }
  return Flush(&batch);
}

bool HostLinks::OnCompletion(const ibv_wc& completion, Error* error) {
  const auto link = std::ranges::find_if(
      links_, [&](const Link& one) { return one.connected && one.qp->qpn() == completion.qp_num; });
  if (link == links_.end()) return false;
  if (completion.status == IBV_WC_SUCCESS) {
    std::optional<uint32_t> imm;
    if ((completion.wc_flags & IBV_WC_WITH_IMM) != 0) imm = ntohl(completion.imm_data);
    path_.OnComplete(link->rank, completion.wr_id, completion.byte_len, imm);
    return true;
  }
  path_.OnFlushed();
  if (!path_.failed()) {
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
