#include "commlib/core/host_path.h"

#include <algorithm>

#include "base/check.h"
#include "commlib/core/rank_calls.h"
#include "reduce/reduce.h"

namespace epic {
namespace {

// The receives of an exchange and of the next one are beside those of the data.
constexpr int64_t kMostMessages = kHostQueueDepth - 2;

constexpr uint64_t kMostElementBytes = 8;

}  // namespace

HostPath::HostPath(const HostPathConfig& config)
    : config_(config),
      exchange_(config.rank, config.world_size, config.inline_bytes),
      ring_(RingConfig()),
      multicast_(MulticastConfig(), exchange_.memory_bytes() + config.staging_bytes) {
  const uint64_t least = kMostElementBytes * config.world_size;
  EPIC_CHECK(config.rank < config.world_size && config.message_bytes >= kMostElementBytes);
  EPIC_CHECK(config.staging_bytes >= least && config.inline_bytes >= least);
  EPIC_CHECK(config.chunk_bytes > 0
                 ? config.algorithm == Algorithm::kMulticast || config.algorithm == Algorithm::kAuto
                 : config.algorithm != Algorithm::kMulticast);
  memory_.resize(exchange_.memory_bytes() + config.staging_bytes + multicast_.memory_bytes());
  const std::vector<uint32_t> cube = CubePeersOf(config.rank, config.world_size);
  for (const uint32_t peer : PeersOf(config.rank, config.world_size)) {
    connections_.push_back({.peer = peer, .in_cube = std::ranges::binary_search(cube, peer)});
  }
  const uint32_t next = (config.rank + 1) % config.world_size;
  const uint32_t previous = (config.rank + config.world_size - 1) % config.world_size;
  if (config.chunk_bytes > 0) {
    for (const uint32_t end : FetchRingOf(config.rank, config.world_size))
      connections_.push_back({.peer = end});
    right_ = IndexOf(kFetchRing + next);
    left_ = IndexOf(kFetchRing + previous);
    datagrams_ = {.peer = kDatagrams, .connected = true, .ready = true};
  }
  next_ = IndexOf(next);
  previous_ = IndexOf(previous);
}

HostMulticastConfig HostPath::MulticastConfig() const {
  return {.rank = config_.rank,
          .world_size = config_.world_size,
          .chunk_bytes = config_.chunk_bytes,
          .receive_bytes = config_.receive_bytes,
          .staging_chunks = config_.staging_chunks,
          .tokens = config_.tokens,
          .addresses = config_.addresses,
          .read_bytes = config_.message_bytes,
          .empty_reads = config_.empty_reads};
}

HostRingConfig HostPath::RingConfig() const {
  return {.rank = config_.rank,
          .world_size = config_.world_size,
          .message_bytes = config_.message_bytes,
          .staging_bytes = config_.staging_bytes,
          .most_messages = kMostMessages};
}

size_t HostPath::IndexOf(uint32_t peer) const {
  const auto at = std::ranges::lower_bound(connections_, peer, {}, &Connection::peer);
  EPIC_CHECK(at != connections_.end() && at->peer == peer);
  return static_cast<size_t>(at - connections_.begin());
}

uint64_t HostPath::MostBytes(const ControlHeader& header) const {
  return MostBytesBy(AlgorithmOf(header.collective, CallBytes(header)), header);
}

uint64_t HostPath::MostBytesBy(Algorithm algorithm, const ControlHeader& header) const {
  if (IsByMulticast(header, algorithm)) return MostMulticastBytes(MulticastConfig(), header);
  if (algorithm != Algorithm::kDoubling) return MostRingBytes(RingConfig(), header);
  if (header.type == DataType::kNone) return kMaxBytes;
  const uint64_t elements = uint64_t{ElementBytes(header.type)} * std::max(header.parts, 1u);
  return config_.inline_bytes / elements * elements;
}

OpId HostPath::Post(const HostCall& call) {
  const uint32_t n = config_.world_size;
  ControlHeader header = call.header;
  EPIC_CHECK(WrongField(header, n) == ControlField::kNone);
  EPIC_CHECK(!Reduces(header.collective) || CanReduce(header.op, header.type));
  const uint64_t call_bytes = call.call_bytes != 0 ? call.call_bytes : CallBytes(header);
  const Algorithm algorithm = AlgorithmOf(header.collective, call_bytes);
  EPIC_CHECK(CallBytes(header) <= MostBytesBy(algorithm, header));
  const OpId op = first_op_ + static_cast<OpId>(calls_.size());
  header.invocation = static_cast<uint64_t>(op);
  header.flags &= ~(kInlinedFlag | kAlgorithmFlags);
  header.flags |= AlgorithmFlags(algorithm);
  if (IsInlinedByHosts(header, n, algorithm, config_.inline_bytes)) header.flags |= kInlinedFlag;
  calls_.push_back(call);
  calls_.back().header = header;
  Advance();
  return op;
}

bool HostPath::Needs(const HostCall& call, size_t connection) const {
  const bool in_ring = connection == next_ || connection == previous_;
  if (IsOfFetchRing(connections_[connection].peer)) return IsMulticast(call);
  return (HasExchange(call) && connections_[connection].in_cube) || (IsRing(call) && in_ring);
}

bool HostPath::IsConnected(const HostCall& call) const {
  for (size_t i = 0; i < connections_.size(); ++i) {
    if (!connections_[i].connected && Needs(call, i)) return false;
  }
  return true;
}

std::vector<uint32_t> HostPath::Wanted() const {
  std::vector<uint32_t> wanted;
  if (failed()) return wanted;
  for (size_t i = 0; i < connections_.size(); ++i) {
    const auto needs = [this, i](const HostCall& call) { return Needs(call, i); };
    if (!connections_[i].connected && std::ranges::any_of(calls_, needs))
      wanted.push_back(connections_[i].peer);
  }
  return wanted;
}

std::vector<uint32_t> HostPath::Awaited() const {
  std::vector<uint32_t> peers;
  if (failed() || calls_.empty()) return peers;
  const HostCall& call = calls_.front();
  const auto expected = phase_ == Phase::kExchange ? exchange_.AwaitedPeer() : std::nullopt;
  for (size_t i = 0; i < connections_.size(); ++i) {
    const Connection& at = connections_[i];
    bool is_awaited = false;
    switch (phase_) {
      case Phase::kConnect:
        is_awaited = !at.connected && Needs(call, i);
        break;
      case Phase::kPost:
      case Phase::kAgree:
        break;
      case Phase::kExchange:
        is_awaited = at.peer == expected || (at.peer == exchange_.NextPeer() && !at.ready);
        break;
      case Phase::kData:
        is_awaited =
            (i == previous_ && ring_.ExpectedBytes() > 0) || at.sends_done < at.sends ||
            (i == next_ && !ring_.done() && !at.ready) || (i == previous_ && multicast_.AwaitsLeft()) ||
            (i == next_ && multicast_.AwaitsRight()) || (i == left_ && IsMulticast(call) && !at.ready);
        break;
    }
    if (is_awaited) peers.push_back(RankAt(at.peer));
  }
  std::ranges::sort(peers);
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

void HostPath::SetConnected(uint32_t peer) {
  Connection& to = To(peer);
  if (to.connected) return;
  to.connected = true;
  if (config_.agrees_by_exchange && to.in_cube) ++unopened_;
  Advance();
}

void HostPath::SetReady(uint32_t peer) { To(peer).ready = true; }

void HostPath::Agreed(OpId op) {
  if (failed()) return;
  EPIC_CHECK(op == first_op_ && phase_ == Phase::kAgree);
  phase_ = HasExchange(calls_.front()) ? Phase::kExchange : Phase::kData;
  Advance();
}

bool HostPath::MayAgree(OpId op) const {
  return op < first_op_ || (op == first_op_ && phase_ >= Phase::kAgree);
}

void HostPath::Begin() {
  const HostCall& call = calls_.front();
  if (IsRing(call)) {
    ring_.Begin(call);
  } else {
    ring_.Clear();
  }
  if (IsMulticast(call)) multicast_.Begin(call);
  if (HasExchange(call)) exchange_.Begin(call, exchange_number_, memory_.data());
  ahead_ = 0;
  phase_ = Phase::kPost;
}

// What follows from what has happened, up to where something is to be posted or to come.
void HostPath::Advance() {
  while (!failed() && !calls_.empty()) {
    if (phase_ == Phase::kConnect) {
      if (IsConnected(calls_.front())) Begin();
      return;
    }
    if (phase_ == Phase::kPost || phase_ == Phase::kAgree) return;
    if (phase_ == Phase::kExchange) {
      if (!exchange_.Proceed(memory_.data())) return Fail(Outcome::kProtocol);
      if (!exchange_.done()) return;
      phase_ = Phase::kData;
    }
    if (unacked_ > 0) return;
    if (!Agrees()) return Refuse();
    if (!IsDataDone()) return;
    EndCall();
  }
}

void HostPath::Refuse() {
  failure_reply_ = exchange_.header();
  Fail(Outcome::kRefused);
}

bool HostPath::Agrees() const {
  if (phase_ != Phase::kData) return false;
  return !HasExchange(calls_.front()) || exchange_.header().status == ControlStatus::kOk;
}

void HostPath::EndCall() {
  const HostCall& call = calls_.front();
  const uint64_t bytes = RecvBytes(call.header, config_.rank);
  // Quantised data are the caller's to divide.
  const bool averages = (call.header.flags & kAverageFlag) != 0 && !IsQuantised(call.header);
  if (averages && Reduces(call.header.collective) && bytes > 0)
    ScaleToAverage(call.header.type, {call.recv, bytes}, config_.world_size);
  if (HasExchange(call)) ++exchange_number_;
  multicast_.Clear();
  finished_.push_back({.op = first_op_++});
  calls_.pop_front();
  phase_ = Phase::kConnect;
}

uint8_t* HostPath::Address(const HostPiece& piece) {
  const HostCall& call = calls_.front();
  if (piece.where == Where::kOwn) return staging() + piece.offset;
  // What is sent is only read.
  return (piece.where == Where::kRecv ? call.recv : const_cast<uint8_t*>(call.send)) + piece.offset;
}

bool HostPath::Give(Connection* on, bool is_recv, Where where, uint8_t* address, uint32_t length,
                    Request* request, HostVerb verb) {
  uint64_t& number = is_recv ? on->recvs : on->sends;
  *request = {.peer = on->peer,
              .is_recv = is_recv,
              .verb = verb,
              .imm = on->messages,
              .wr_id = number << 1 | (is_recv ? 1 : 0),
              .op = first_op_,
              .where = where,
              .address = address,
              .length = length};
  ++number;
  ++posted_;
  if (is_recv) return true;
  ++unacked_;
  if (verb == HostVerb::kSend) ++on->messages;
  return true;
}

bool HostPath::GiveExchangeReceive(Connection* on, Request* request) {
  const int64_t number = on->exchange_recvs++;
  return Give(on, true, Where::kOwn, memory_.data() + exchange_.ReceivePlace(on->peer, number),
              exchange_.message_bytes(), request);
}

bool HostPath::NextRequest(Request* request) {
  if (failed()) return false;
  if (unopened_ > 0) {
    const auto is_unopened = [](const Connection& c) {
      return c.in_cube && c.connected && c.exchange_recvs == 0;
    };
    --unopened_;
    return GiveExchangeReceive(&*std::ranges::find_if(connections_, is_unopened), request);
  }
  if (config_.chunk_bytes > 0 && NextMulticastReceive(request)) return true;
  if (multicast_.changes_key()) return false;
  if (phase_ == Phase::kPost) {
    if (NextReceive(request)) return true;
    phase_ = config_.agrees_by_exchange ? Phase::kExchange : Phase::kAgree;
    Advance();
  }
  return NextSend(request);
}

// Data first: the next exchange comes behind them. Where somebody else makes the ranks agree, nobody sends
// what belongs to a call before all have posted for it, and what comes next may be data: nothing is posted
// ahead.
bool HostPath::NextReceive(Request* request) {
  HostPiece piece;
  if (ring_.NextReceive(&piece))
    return Give(&connections_[previous_], true, piece.where, Address(piece), piece.length, request);
  if (!HasExchange(calls_.front())) return false;
  const int64_t recvs = exchange_number_ + (config_.agrees_by_exchange ? 2 : 1);
  for (; ahead_ < connections_.size(); ++ahead_) {
    Connection& connection = connections_[ahead_];
    if (connection.in_cube && connection.exchange_recvs < recvs)
      return GiveExchangeReceive(&connection, request);
  }
  return false;
}

bool HostPath::NextSend(Request* request) {
  if (phase_ == Phase::kExchange) {
    const auto peer = exchange_.NextPeer();
    if (!peer || !To(*peer).ready) return false;
    const HostExchange::Message message = exchange_.Send(memory_.data());
    Give(&To(*peer), false, Where::kOwn, memory_.data() + message.place, message.length, request);
    Advance();
    return true;
  }
  if (!Agrees()) return false;
  if (NextMulticastSend(request)) return true;
  HostPiece piece;
  Connection& to = connections_[next_];
  if (!to.ready || !ring_.NextSend(&piece)) return false;
  return Give(&to, false, piece.where, Address(piece), piece.length, request);
}

void HostPath::OnComplete(uint32_t peer, uint64_t wr_id, uint32_t bytes, std::optional<uint32_t> imm) {
  --posted_;
  if (failed()) return;
  Connection& on = peer == kDatagrams ? datagrams_ : To(peer);
  const bool is_recv = (wr_id & 1) != 0;
  uint64_t& done = is_recv ? on.recvs_done : on.sends_done;
  // A reliable connection completes in the order of posting; anything else is a broken driver.
  if (wr_id >> 1 != done || done == (is_recv ? on.recvs : on.sends)) return Fail(Outcome::kDisorder);
  ++done;
  if (!is_recv) {
    --unacked_;
    if (peer == kDatagrams) multicast_.OnDatagramSent();
    if (IsOfFetchRing(peer)) multicast_.OnFetchSent(&on == &connections_[left_]);
  } else if (imm != static_cast<uint32_t>(done - 1) || !OnReceived(&on, bytes)) {
    culprit_ = RankAt(peer);
    return Fail(Outcome::kProtocol);
  }
  Advance();
}

// The exchange of this invocation, its data, the exchange of the next one; or one of the first two.
bool HostPath::OnReceived(Connection* from, uint32_t bytes) {
  if (IsOfFetchRing(from->peer))
    return multicast_.OnMessage(from == &connections_[left_], bytes, first_op_, memory_);
  const bool is_first =
      config_.agrees_by_exchange && from->in_cube && from->exchange_recvs_done == exchange_number_;
  const bool is_previous = from == &connections_[previous_];
  const uint32_t expected = is_previous && !is_first ? ring_.ExpectedBytes() : 0;
  if (expected > 0) {
    if (bytes != expected) return false;
    ring_.OnReceived(staging());
    return true;
  }
  exchange_.OnMessage(from->peer, from->exchange_recvs_done++, bytes);
  return true;
}

void HostPath::Abort() {
  if (failed()) return;
  const bool is_refused = phase_ == Phase::kData && !Agrees();
  return is_refused ? Refuse() : Fail(Outcome::kAborted);
}

void HostPath::OnDrained() {
  EPIC_CHECK(failed());
  if (!calls_.empty() && Agrees() && IsDataDone()) EndCall();
  for (; !calls_.empty(); calls_.pop_front())
    finished_.push_back({.op = first_op_++, .outcome = *failure_, .reply = failure_reply_});
}

std::optional<Finished> HostPath::NextFinished() {
  if (finished_.empty()) return std::nullopt;
  const Finished done = finished_.front();
  finished_.pop_front();
  return done;
}

}  // namespace epic
