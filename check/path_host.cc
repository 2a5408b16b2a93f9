#include "check/path_host.h"

#include <algorithm>

#include "base/check.h"
#include "commlib/core/host_peers.h"
#include "sim/own_memory.h"

namespace epic::check {

PathHost::PathHost(const System& system, int node)
    : system_(system), node_(node), path_(system.PathOf(node)) {
  for (PortId port = 0; port < system.ports(node); ++port)
    queue_pairs_.push_back(system.PeerQueuePair(node, port));
  const std::vector<uint32_t> peers =
      PeersOf(static_cast<uint32_t>(node), static_cast<uint32_t>(system.hosts()));
  for (const uint32_t peer : peers) path_.SetConnected(peer);
  PostWork();
  for (const uint32_t peer : peers) path_.SetReady(peer);
}

void PathHost::Start(const uint8_t* send, uint8_t* recv) {
  path_.Post({.header = system_.CallOf(calls_++, static_cast<uint32_t>(node_)), .send = send, .recv = recv});
}

void PathHost::OnPacket(Nanos now, PortId port, const roce::Packet& packet, roce::PacketSink& sink) {
  roce::QueuePair& qp = queue_pairs_[port];
  sim::OwnMemory memory(/*peers=*/nullptr);
  qp.OnPacket(now, packet, memory);
  // That a receive is missing must never happen (docs/PROTOCOL.md, section 11.2).
  EPIC_CHECK(qp.counters().ack_beyond == 0 && qp.counters().not_ours == 0);
  EPIC_CHECK(qp.state() == roce::QpState::kRts);
  qp.Poll(now, memory, sink);
  EPIC_CHECK(qp.counters().rnr_naks_sent == 0);
}

void PathHost::Run(Nanos now, roce::PacketSink& sink) {
  sim::OwnMemory memory(/*peers=*/nullptr);
  do {
    while (TakeCompletions()) {
    }
    PostWork();
    for (roce::QueuePair& qp : queue_pairs_) qp.Poll(now, memory, sink);
    if (path_.failed()) return Leave();
    while (const auto finished = path_.NextFinished()) ended_.push_back(*finished);
  } while (next_deadline() <= now);
}

// False if there was none.
bool PathHost::TakeCompletions() {
  bool any = false;
  for (PortId port = 0; port < queue_pairs_.size(); ++port) {
    const Edge& edge = system_.EdgeAt(node_, port);
    const auto peer = static_cast<uint32_t>(edge.child == node_ ? edge.parent : edge.child);
    for (roce::Completion c; queue_pairs_[port].NextCompletion(&c); any = true) {
      EPIC_CHECK(c.ok());
      path_.OnComplete(peer, c.wr_id, c.bytes, c.has_imm ? std::optional(c.imm) : std::nullopt);
    }
  }
  return any;
}

void PathHost::PostWork() {
  for (HostPath::Request request; path_.NextRequest(&request);) Post(request);
}

void PathHost::Post(const HostPath::Request& request) {
  PortId port = 0;
  while (system_.EdgeAt(node_, port).child != static_cast<int>(request.peer) &&
         system_.EdgeAt(node_, port).parent != static_cast<int>(request.peer))
    ++port;
  const roce::SgeList sges = sim::SgesOf(request.address, request.length);
  roce::QueuePair& qp = queue_pairs_[port];
  const roce::PostResult result = request.is_recv ? qp.PostRecv({.wr_id = request.wr_id, .sges = sges})
                                                  : qp.PostSend({.wr_id = request.wr_id,
                                                                 .opcode = roce::WrOpcode::kSendImm,
                                                                 .sges = sges,
                                                                 .imm = request.imm});
  EPIC_CHECK(result == roce::PostResult::kOk);
}

void PathHost::Abort() {
  path_.Abort();
  Leave();
}

// All that is posted comes back, and every call ends.
void PathHost::Leave() {
  for (roce::QueuePair& qp : queue_pairs_) {
    EPIC_CHECK(qp.Modify({.state = roce::QpState::kErr}) == roce::ModifyResult::kOk);
    for (roce::Completion c; qp.NextCompletion(&c);) path_.OnFlushed();
  }
  EPIC_CHECK(path_.posted() == 0);
  path_.OnDrained();
  while (const auto finished = path_.NextFinished()) ended_.push_back(*finished);
  has_left_ = true;
}

Nanos PathHost::next_deadline() const {
  Nanos next = kNever;
  for (const roce::QueuePair& qp : queue_pairs_) next = std::min(next, qp.next_deadline());
  return has_left_ ? kNever : next;
}

bool PathHost::is_released() const {
  if (has_left_) return true;
  const HostPathConfig config = system_.PathOf(node_);
  const size_t receives = CubePeersOf(config.rank, config.world_size).size();
  return path_.idle() && path_.posted() == static_cast<int64_t>(receives);
}

}  // namespace epic::check
