#include "sim/path_rank.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "commlib/core/slices.h"
#include "sim/own_memory.h"

namespace epic::sim {

int PathRank::Start(const ControlHeader& header, const RankBuffers& buffers, bool by_hosts) {
  EPIC_CHECK(host_.alive() && (by_hosts || !config_.agrees_by_exchange));
  const auto call = static_cast<int>(calls_.size());
  calls_.emplace_back();
  ++unfinished_;
  held_.push_back({.call = calls_.size() - 1, .header = header, .buffers = buffers, .by_hosts = by_hosts});
  BeginHeld();
  return call;
}

// Behind a request nothing begins, on neither way, until it has been answered: which way its call goes
// decides what comes next there.
void PathRank::BeginHeld() {
  for (; !held_.empty() && !asking_; held_.pop_front()) Begin(held_.front());
}

void PathRank::Begin(const Held& held) {
  if (held.by_hosts) return StartByHosts(held);
  Invocation next{.call = held.call, .header = held.header, .buffers = held.buffers};
  if (has_block_ && CallBytes(held.header) > 0) {
    asking_ = held;
    next.header.flags |= kRequestFlag;
    next.buffers = {.registered = true};
  }
  waiting_.push_back(next);
}

void PathRank::OnDecided(bool granted) {
  const Held asked = *asking_;
  asking_.reset();
  if (granted) {
    Invocation next{.call = asked.call, .header = asked.header, .buffers = asked.buffers};
    next.header.flags |= kGrantedFlag;
    waiting_.push_back(next);
  } else {
    StartByHosts(asked);
  }
  BeginHeld();
}

// As the library cuts calls, and in the order in which it makes them.
void PathRank::StartByHosts(const Held& held) {
  const ControlHeader& header = held.header;
  const RankBuffers& buffers = held.buffers;
  CopyOwnPart(header, config_.rank, buffers.send.data(), buffers.recv.data());
  const uint64_t element = ElementBytes(header.type);
  const uint64_t most = element == 0 ? 1 : path_.MostBytes(header) / element / header.parts;
  Call& call = calls_[held.call];
  call.by_hosts = true;
  call.slices = SlicesOf(header.count, most);
  for (uint64_t at = 0; at < call.slices; ++at) {
    const uint64_t offset = SliceAt(header.count, most, at).first * element;
    HostCall slice{.header = HeaderOfSlice(header, most, at),
                   .send = At(buffers.send.data(), offset),
                   .recv = At(buffers.recv.data(), offset)};
    if (HasPartPerRank(header.collective)) slice.part_stride = header.count * element;
    const OpId op = path_.Post(slice);
    on_path_.push_back(held.call);
    if (config_.agrees_by_exchange) continue;
    slice.header.flags |= kByHostsFlag | AlgorithmFlags(config_.algorithm);
    waiting_.push_back(
        {.call = held.call, .header = slice.header, .buffers = {.registered = true}, .op = op});
  }
}

void PathRank::SetConnected(int peer) {
  path_.SetConnected(static_cast<uint32_t>(peer));
  untold_.push_back(peer);
}

bool PathRank::HasNews() const {
  if (!path_.failed() && !host_.alive()) return true;
  return !agreeing_.empty() && host_.state(agreeing_.front().at_host) != CallState::kRunning;
}

void PathRank::OnCompletion(Nanos, int peer, const roce::Completion& c) {
  if (!c.ok()) {
    // A connection that fails before its group has: nobody else ends it.
    path_.Abort();
    return path_.OnFlushed();
  }
  path_.OnComplete(static_cast<uint32_t>(peer), c.wr_id, c.bytes,
                   c.has_imm ? std::optional(c.imm) : std::nullopt);
}

void PathRank::Poll(Nanos now, Peers& peers) {
  TakeReplies(now);
  if (!host_.alive()) path_.Abort();
  PostWork(peers);
  if (host_.alive()) MakeInvocations();
  if (path_.failed() && !std::exchange(closed_, true)) peers.Close();
  if (path_.failed() && path_.posted() == 0) path_.OnDrained();
  TakeFinished(now);
  if (!path_.failed()) Ask();
}

// What has come of agreements, and of calls by the network.
void PathRank::TakeReplies(Nanos now) {
  while (!agreeing_.empty() && host_.state(agreeing_.front().at_host) != CallState::kRunning) {
    const Invocation ended = agreeing_.front();
    agreeing_.pop_front();
    const epic::Outcome outcome = host_.outcome(ended.at_host);
    if (IsRequest(ended.header) && (outcome == epic::Outcome::kOk || outcome == epic::Outcome::kBusy)) {
      OnDecided(outcome == epic::Outcome::kOk);
      continue;
    }
    if (ended.op && outcome == epic::Outcome::kOk) {
      path_.Agreed(*ended.op);
    } else {
      End(ended.call, outcome, now);
    }
    // The group has ended, on both ways.
    if (outcome != epic::Outcome::kOk) path_.Abort();
  }
}

// None before those in front of it: the switches have them in this order.
void PathRank::MakeInvocations() {
  for (; !waiting_.empty() && (!waiting_.front().op || path_.MayAgree(*waiting_.front().op));
       waiting_.pop_front()) {
    Invocation next = waiting_.front();
    next.at_host = host_.Start(next.header, next.buffers.send, next.buffers.recv, next.buffers.registered);
    agreeing_.push_back(next);
  }
}

void PathRank::PostWork(Peers& peers) {
  for (HostPath::Request request; path_.NextRequest(&request);) {
    const auto sges = SgesOf(request.address, request.length);
    const auto peer = static_cast<int>(request.peer);
    const auto result = request.is_recv ? peers.PostRecv(peer, {.wr_id = request.wr_id, .sges = sges})
                                        : peers.PostSend(peer, {.wr_id = request.wr_id,
                                                                .opcode = roce::WrOpcode::kSendImm,
                                                                .sges = sges,
                                                                .imm = request.imm});
    EPIC_CHECK(result == roce::PostResult::kOk);
  }
}

void PathRank::TakeFinished(Nanos now) {
  while (const auto finished = path_.NextFinished()) {
    const size_t call = on_path_.front();
    on_path_.pop_front();
    if (finished->outcome != epic::Outcome::kOk) {
      End(call, finished->outcome, now);
    } else if (--calls_[call].slices == 0) {
      End(call, epic::Outcome::kOk, now);
    }
  }
  if (!closed_) return;
  // What the switches have not been told of.
  for (; !waiting_.empty(); waiting_.pop_front()) End(waiting_.front().call, path_.failure(), now);
  for (; !held_.empty(); held_.pop_front()) End(held_.front().call, path_.failure(), now);
}

// Of a call's slices that fail the first counts.
void PathRank::End(size_t call, epic::Outcome outcome, Nanos now) {
  Call& of = calls_[call];
  if (of.state != CallState::kRunning) return;
  of.state = outcome == epic::Outcome::kOk ? CallState::kDone : CallState::kFailed;
  of.outcome = outcome;
  finished_at_ = now;
  --unfinished_;
}

void PathRank::Ask() {
  for (const uint32_t peer : path_.Wanted()) {
    if (std::ranges::find(asked_, peer) != asked_.end()) continue;
    asked_.push_back(peer);
    asks_.connect(static_cast<int>(peer));
  }
  for (const int peer : std::exchange(untold_, {})) asks_.tell(peer);
}

}  // namespace epic::sim
