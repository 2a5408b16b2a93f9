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
      exchange_(config.rank, config.world_size, config.exchanges ? config.inline_bytes : 0),
      ring_(RingConfig()) {
  const uint64_t least = kMostElementBytes * config.world_size;
  EPIC_CHECK(config.rank < config.world_size && config.message_bytes >= kMostElementBytes);
  EPIC_CHECK(config.staging_bytes >= least && config.inline_bytes >= least);
  memory_.resize(exchange_.memory_bytes() + config.staging_bytes);
  const std::vector<uint32_t> cube = CubePeersOf(config.rank, config.world_size);
  for (const uint32_t peer : PeersOf(config.rank, config.world_size)) {
    const bool exchanges = config.exchanges && std::ranges::binary_search(cube, peer);
    connections_.push_back({.peer = peer, .exchanges = exchanges});
  }
  next_ = IndexOf((config.rank + 1) % config.world_size);
  previous_ = IndexOf((config.rank + config.world_size - 1) % config.world_size);
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
  if (!config_.exchanges || config_.algorithm != Algorithm::kDoubling)
    return MostRingBytes(RingConfig(), header);
  if (header.type == DataType::kNone) return kMaxBytes;
  const uint64_t elements = uint64_t{ElementBytes(header.type)} * std::max(header.parts, 1u);
  return config_.inline_bytes / elements * elements;
}

OpId HostPath::Post(const Call& call) {
  const uint32_t n = config_.world_size;
  ControlHeader header = call.header;
  EPIC_CHECK(WrongField(header, n) == ControlField::kNone);
  EPIC_CHECK(!Reduces(header.collective) || CanReduce(header.op, header.type));
  EPIC_CHECK(CallBytes(header) <= MostBytes(header));
  const OpId op = first_op_ + static_cast<OpId>(calls_.size());
  header.invocation = static_cast<uint64_t>(op);
  header.flags &= ~(kInlinedFlag | kAlgorithmFlags);
  if (config_.exchanges) {
    header.flags |= AlgorithmFlags(config_.algorithm);
    if (IsInlinedByHosts(header, n, config_.algorithm, config_.inline_bytes)) header.flags |= kInlinedFlag;
  }
  calls_.push_back(call);
  calls_.back().header = header;
  Advance();
  return op;
}

bool HostPath::Needs(size_t connection, bool is_ring) const {
  return connections_[connection].exchanges || (is_ring && (connection == next_ || connection == previous_));
}

bool HostPath::IsConnected(bool is_ring) const {
  for (size_t i = 0; i < connections_.size(); ++i) {
    if (!connections_[i].connected && Needs(i, is_ring)) return false;
  }
  return true;
}

std::vector<uint32_t> HostPath::Wanted() const {
  std::vector<uint32_t> wanted;
  if (failed() || calls_.empty()) return wanted;
  const bool is_ring = std::ranges::any_of(calls_, [this](const Call& call) { return IsRing(call); });
  for (size_t i = 0; i < connections_.size(); ++i) {
    if (!connections_[i].connected && Needs(i, is_ring)) wanted.push_back(connections_[i].peer);
  }
  return wanted;
}

void HostPath::SetConnected(uint32_t peer) {
  Connection& to = To(peer);
  if (to.connected) return;
  to.connected = true;
  if (to.exchanges) ++unopened_;
  Advance();
}

void HostPath::SetReady(uint32_t peer) { To(peer).ready = true; }

void HostPath::Agreed(OpId op) {
  if (failed()) return;
  EPIC_CHECK(!config_.exchanges && op == first_op_ && phase_ == Phase::kExchange);
  phase_ = Phase::kData;
  Advance();
}

bool HostPath::MayAgree(OpId op) const {
  return op < first_op_ || (op == first_op_ && phase_ >= Phase::kExchange);
}

void HostPath::Begin() {
  const Call& call = calls_.front();
  if (IsRing(call)) {
    ring_.Begin(call);
  } else {
    ring_.Clear();
  }
  if (config_.exchanges) exchange_.Begin(call, first_op_, memory_.data());
  ahead_ = 0;
  phase_ = Phase::kPost;
}

// What follows from what has happened, up to where something is to be posted or to come.
void HostPath::Advance() {
  while (!failed() && !calls_.empty()) {
    if (phase_ == Phase::kConnect) {
      if (IsConnected(IsRing(calls_.front()))) Begin();
      return;
    }
    if (phase_ == Phase::kPost) return;
    if (phase_ == Phase::kExchange) {
      if (!config_.exchanges) return;
      if (!exchange_.Proceed(memory_.data())) return Fail(Outcome::kProtocol);
      if (!exchange_.done()) return;
      phase_ = Phase::kData;
    }
    if (unacked_ > 0) return;
    if (!Agrees()) return Refuse();
    if (!ring_.done()) return;
    EndCall();
  }
}

void HostPath::Refuse() {
  failure_reply_ = exchange_.header();
  Fail(Outcome::kRefused);
}

bool HostPath::Agrees() const {
  return phase_ == Phase::kData && (!config_.exchanges || exchange_.header().status == ControlStatus::kOk);
}

void HostPath::EndCall() {
  const Call& call = calls_.front();
  const uint64_t bytes = RecvBytes(call.header, config_.rank);
  if ((call.header.flags & kAverageFlag) != 0 && Reduces(call.header.collective) && bytes > 0)
    ScaleToAverage(call.header.type, {call.recv, bytes}, config_.world_size);
  finished_.push_back({.op = first_op_++});
  calls_.pop_front();
  phase_ = Phase::kConnect;
}

uint8_t* HostPath::Address(const HostPiece& piece) {
  const Call& call = calls_.front();
  if (piece.where == Where::kOwn) return staging() + piece.offset;
  // What is sent is only read.
  return (piece.where == Where::kRecv ? call.recv : const_cast<uint8_t*>(call.send)) + piece.offset;
}

bool HostPath::Give(Connection* on, bool is_recv, Where where, uint8_t* address, uint32_t length,
                    Request* request) {
  uint64_t& number = is_recv ? on->recvs : on->sends;
  *request = {.peer = on->peer,
              .is_recv = is_recv,
              .imm = static_cast<uint32_t>(number),
              .wr_id = number << 1 | (is_recv ? 1 : 0),
              .op = first_op_,
              .where = where,
              .address = address,
              .length = length};
  ++number;
  ++posted_;
  if (!is_recv) ++unacked_;
  return true;
}

bool HostPath::GiveExchangeReceive(Connection* on, Request* request) {
  const OpId invocation = on->exchange_recvs++;
  return Give(on, true, Where::kOwn, memory_.data() + exchange_.ReceivePlace(on->peer, invocation),
              exchange_.message_bytes(), request);
}

bool HostPath::NextRequest(Request* request) {
  if (failed()) return false;
  if (unopened_ > 0) {
    const auto is_unopened = [](const Connection& c) {
      return c.exchanges && c.connected && c.exchange_recvs == 0;
    };
    --unopened_;
    return GiveExchangeReceive(&*std::ranges::find_if(connections_, is_unopened), request);
  }
  if (phase_ == Phase::kPost) {
    if (NextReceive(request)) return true;
    phase_ = Phase::kExchange;
    Advance();
  }
  return NextSend(request);
}

// Data first: the next exchange comes behind them.
bool HostPath::NextReceive(Request* request) {
  HostPiece piece;
  if (ring_.NextReceive(&piece))
    return Give(&connections_[previous_], true, piece.where, Address(piece), piece.length, request);
  for (; ahead_ < connections_.size(); ++ahead_) {
    Connection& connection = connections_[ahead_];
    if (connection.exchanges && connection.exchange_recvs < first_op_ + 2)
      return GiveExchangeReceive(&connection, request);
  }
  return false;
}

bool HostPath::NextSend(Request* request) {
  if (phase_ == Phase::kExchange && config_.exchanges) {
    const auto peer = exchange_.NextPeer();
    if (!peer || !To(*peer).ready) return false;
    const HostExchange::Message message = exchange_.Send(memory_.data());
    Give(&To(*peer), false, Where::kOwn, memory_.data() + message.place, message.length, request);
    Advance();
    return true;
  }
  HostPiece piece;
  Connection& to = connections_[next_];
  if (!Agrees() || !to.ready || !ring_.NextSend(&piece)) return false;
  return Give(&to, false, piece.where, Address(piece), piece.length, request);
}

void HostPath::OnComplete(uint32_t peer, uint64_t wr_id, uint32_t bytes, std::optional<uint32_t> imm) {
  --posted_;
  if (failed()) return;
  Connection& on = To(peer);
  const bool is_recv = (wr_id & 1) != 0;
  uint64_t& done = is_recv ? on.recvs_done : on.sends_done;
  // A reliable connection completes in the order of posting; anything else is a broken driver.
  if (wr_id >> 1 != done || done == (is_recv ? on.recvs : on.sends)) return Fail(Outcome::kDisorder);
  ++done;
  if (!is_recv) {
    --unacked_;
  } else if (imm != static_cast<uint32_t>(done - 1) || !OnReceived(&on, bytes)) {
    return Fail(Outcome::kProtocol);
  }
  Advance();
}

// The exchange of this invocation, its data, the exchange of the next one.
bool HostPath::OnReceived(Connection* from, uint32_t bytes) {
  const bool is_first = from->exchanges && from->exchange_recvs_done == first_op_;
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
  const bool is_refused = config_.exchanges && phase_ == Phase::kData && !Agrees();
  return is_refused ? Refuse() : Fail(Outcome::kAborted);
}

void HostPath::OnDrained() {
  EPIC_CHECK(failed());
  if (!calls_.empty() && Agrees() && ring_.done()) EndCall();
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
