#include "commlib/core/host_multicast.h"

#include <algorithm>
#include <cstring>

#include "base/ceil_div.h"
#include "base/check.h"

namespace epic {
namespace {

bool HasOnePart(Collective collective) { return collective == Collective::kBroadcast; }

// Little-endian, as octets of a message on the fetch ring have it.
template <typename T>
void Put(uint8_t* at, T value) {
  for (size_t i = 0; i < sizeof value; ++i) at[i] = static_cast<uint8_t>(value >> 8 * i);
}
template <typename T>
T Get(const uint8_t* at) {
  T value = 0;
  for (size_t i = 0; i < sizeof value; ++i) value = static_cast<T>(value | T{at[i]} << 8 * i);
  return value;
}

}  // namespace

uint64_t MostMulticastBytes(const HostMulticastConfig& config, const ControlHeader& header) {
  const uint64_t element = ElementBytes(header.type);
  if (element == 0) return kMaxBytes;
  const uint64_t parts = HasOnePart(header.collective) ? 1 : config.world_size;
  const uint64_t part = kMostChunks / parts * config.chunk_bytes / element;
  return std::min(part, kMaxBytes / element / parts) * element * parts;
}

uint32_t HostMulticast::FetchReceives(const HostMulticastConfig& config) {
  return 2 * (config.world_size + config.tokens);
}

HostMulticast::HostMulticast(const HostMulticastConfig& config, uint64_t memory_begin)
    : config_(config), memory_begin_(memory_begin) {
  if (config.chunk_bytes == 0) return;
  config_.receive_bytes = std::max(config.receive_bytes, config.chunk_bytes);
  EPIC_CHECK(config.tokens >= 1 && config.tokens <= kMostTokens && config.addresses >= 1);
  EPIC_CHECK(config.staging_chunks > 0 && config.read_bytes >= config.chunk_bytes);
}

uint64_t HostMulticast::memory_bytes() const {
  if (config_.chunk_bytes == 0) return 0;
  return FetchSendPlace(sides(), 0) - memory_begin_;
}

uint64_t HostMulticast::ReceivePlace(uint64_t number) const {
  return memory_begin_ + number % config_.staging_chunks * (kGrhBytes + config_.receive_bytes);
}
uint64_t HostMulticast::FetchReceivePlace(size_t side, uint64_t number) const {
  const uint64_t begin =
      memory_begin_ + uint64_t{config_.staging_chunks} * (kGrhBytes + config_.receive_bytes);
  const uint64_t receives = FetchReceives(config_);
  return begin + (side * receives + number % receives) * kRingMessageBytes;
}
uint64_t HostMulticast::FetchSendPlace(size_t side, uint64_t number) const {
  return FetchReceivePlace(sides(), 0) + (side * kFetchSends + number % kFetchSends) * kRingMessageBytes;
}

std::optional<uint32_t> HostMulticast::PartAt(uint32_t distance) const {
  if (is_broadcast()) return distance == DistanceOf(call_->header.root) ? std::optional(0u) : std::nullopt;
  return (config_.rank + config_.world_size - distance) % config_.world_size;
}

uint64_t HostMulticast::PlaceOf(uint32_t part, uint32_t chunk) const {
  return (is_broadcast() ? 0 : part * call_->stride()) + uint64_t{chunk} * config_.chunk_bytes;
}

uint32_t HostMulticast::BytesOf(uint32_t chunk, uint32_t count) const {
  const uint64_t begin = uint64_t{chunk} * config_.chunk_bytes;
  return static_cast<uint32_t>(std::min(uint64_t{count} * config_.chunk_bytes, call_->part_bytes() - begin));
}

int64_t HostMulticast::VisitsOf(uint32_t token) const {
  if (slice_ == 0) return 0;
  const int64_t slices = CeilDiv(part_chunks_, slice_);
  return token < slices ? CeilDiv(slices - token, int64_t{tokens_in_use_}) : 0;
}

bool HostMulticast::EndsHere(uint32_t token) const {
  const uint32_t last = (StartOf(token) + config_.world_size - 1) % config_.world_size;
  return config_.rank == last && tokens_[token].visits == VisitsOf(token);
}

void HostMulticast::Begin(const HostCall& call) {
  EPIC_CHECK(config_.chunk_bytes > 0 && CallBytes(call.header) > 0);
  EPIC_CHECK(CallBytes(call.header) <= MostMulticastBytes(config_, call.header));
  call_ = call;
  is_open_ = true;
  parts_ = is_broadcast() ? 1 : config_.world_size;
  part_chunks_ = static_cast<uint32_t>(CeilDiv(call.part_bytes(), uint64_t{config_.chunk_bytes}));
  has_own_ = !is_broadcast() || call.header.root == config_.rank;
  chunks_.Reset(parts_, part_chunks_);
  if (has_own_) chunks_.SetPart(is_broadcast() ? 0 : config_.rank);
  counts_.expected += uint64_t{parts_ - (has_own_ ? 1 : 0)} * part_chunks_;
  const bool fits = uint64_t{parts_} * part_chunks_ <= config_.staging_chunks;
  // So many that slices of one chunk have room; there is room for one token's in each group.
  tokens_in_use_ = config_.tokens;
  while (tokens_in_use_ > 1 && (tokens_in_use_ + 1) * parts_ > config_.staging_chunks) --tokens_in_use_;
  is_beside_ = (tokens_in_use_ + 1) * parts_ <= config_.staging_chunks;
  const uint32_t under_way = tokens_in_use_ + (is_beside_ ? 1 : 0);  // slices of each part
  slice_ = fits ? 0 : std::max(1u, config_.staging_chunks / (under_way * parts_));
  own_next_ = own_given_ = own_sent_ = own_before_ = 0;
  own_end_ = fits && has_own_ ? part_chunks_ : 0;
  tokens_ = {};
  here_.clear();
  is_slice_open_ = false;
  for (uint32_t token = 0; token < tokens_in_use_; ++token) {
    if (StartOf(token) == config_.rank && VisitsOf(token) > 0) EPIC_CHECK(OnToken(token));
  }
  whole_ = said_ = heard_ = -1;
  awaits_ack_ = right_done_ = said_done_ = false;
  read_distance_ = 1;
  read_chunk_ = 0;
  reads_.clear();
  empty_reads_left_ = 0;
  AdvanceWhole();
}

bool HostMulticast::NextReceive(MulticastWork* work) {
  if (!is_open_ || changes_key_) return false;
  if (call_ && epoch_ != static_cast<uint32_t>(call_->header.invocation >> 16)) {
    epoch_ = static_cast<uint32_t>(call_->header.invocation >> 16);
    changes_key_ = true;
    *work = {.kind = MulticastWork::Kind::kQkey, .epoch = epoch_};
    return true;
  }
  if (recvs_ - recvs_done_ < config_.staging_chunks) {
    *work = {.kind = MulticastWork::Kind::kDatagramRecv,
             .offset = ReceivePlace(recvs_++),
             .length = kGrhBytes + config_.receive_bytes};
    return true;
  }
  for (size_t side = 0; side < sides(); ++side) {
    Fetch& fetch = fetches_[side];
    if (fetch.recvs - fetch.recvs_done == FetchReceives(config_)) continue;
    *work = {.kind = MulticastWork::Kind::kMessageRecv,
             .to_left = side == 0,
             .offset = FetchReceivePlace(side, fetch.recvs++),
             .length = kRingMessageBytes};
    return true;
  }
  return false;
}

bool HostMulticast::NextSend(bool left_ready, bool right_ready, std::span<uint8_t> memory,
                             MulticastWork* work) {
  if (!call_) return false;
  if (NextDatagram(work)) return true;
  const bool to_left = left_ready && fetches_[Side(true)].unacked.size() < kFetchSends;
  const bool to_right = right_ready && fetches_[Side(false)].unacked.size() < kFetchSends;
  return (to_right && NextToken(memory, work)) || (to_left && NextRead(work)) ||
         (to_right && NextWord(memory, work)) || (to_left && NextDone(memory, work));
}

bool HostMulticast::NextDatagram(MulticastWork* work) {
  if (own_next_ == own_end_ || own_given_ - own_sent_ == config_.staging_chunks) return false;
  const uint32_t chunk = own_next_++;
  ++own_given_;
  const uint32_t first = is_broadcast() ? 0 : config_.rank * part_chunks_;
  *work = {.kind = MulticastWork::Kind::kDatagram,
           .group = static_cast<uint32_t>(uint64_t{chunk} * config_.addresses / part_chunks_),
           .imm = static_cast<uint32_t>(call_->header.invocation) << 16 | (first + chunk),
           .where = HostWhere::kSend,
           .offset = uint64_t{chunk} * config_.chunk_bytes,
           .length = BytesOf(chunk)};
  SettleTokens();
  return true;
}

// A token whose last visit this is goes as soon as nothing is to be sent by it: this may be the last that
// happens in this call.
void HostMulticast::SettleTokens() {
  while (!here_.empty()) {
    if (!is_slice_open_) OpenSlice();
    if (!IsSliceGiven() || !EndsHere(here_.front())) return;
    TakeToken();
  }
}

void HostMulticast::OpenSlice() {
  is_slice_open_ = true;
  if (!has_own_) return;
  const uint32_t token = here_.front();
  const auto slice = static_cast<uint64_t>(token + (tokens_[token].visits - 1) * tokens_in_use_);
  own_next_ = static_cast<uint32_t>(std::min<uint64_t>(slice * slice_, part_chunks_));
  own_end_ = static_cast<uint32_t>(std::min<uint64_t>((slice + 1) * slice_, part_chunks_));
  own_before_ = own_given_ + (is_beside_ ? 0 : own_end_ - own_next_);
}

void HostMulticast::TakeToken() {
  tokens_[here_.front()].is_here = false;
  here_.pop_front();
  is_slice_open_ = false;
}

// A NIC sends of its queue pairs by turns, so that a token overtakes the slice which is posted with it. That
// one has room; if it did not wait for the slices before, they would pile up here while it comes again and
// again.
bool HostMulticast::NextToken(std::span<uint8_t> memory, MulticastWork* work) {
  if (!MayPassToken()) return false;
  Say(Message::kToken, here_.front(), false, memory, work);
  TakeToken();
  SettleTokens();
  return true;
}

bool HostMulticast::AwaitsToken() const {
  if (!here_.empty()) return false;
  for (uint32_t token = 0; token < tokens_in_use_; ++token) {
    if (tokens_[token].visits < VisitsOf(token)) return true;
  }
  return false;
}

bool HostMulticast::OnToken(uint32_t token) {
  if (token >= tokens_in_use_ || tokens_[token].is_here) return false;
  if (tokens_[token].visits == VisitsOf(token)) return false;
  ++tokens_[token].visits;
  tokens_[token].is_here = true;
  here_.push_back(token);
  SettleTokens();
  return true;
}

// The own part is not said to be whole before it has been sent: who asked for it now would read what is on
// its way.
void HostMulticast::AdvanceWhole() {
  for (; whole_ + 1 < int64_t{config_.world_size}; ++whole_) {
    const auto part = PartAt(static_cast<uint32_t>(whole_ + 1));
    if (!part) continue;
    if (!chunks_.IsWhole(*part)) return;
    if (OwnerOf(*part) == config_.rank && own_sent_ < part_chunks_) return;
  }
}

bool HostMulticast::NextWord(std::span<uint8_t> memory, MulticastWork* work) {
  if (awaits_ack_ || right_done_) return false;
  AdvanceWhole();
  const int64_t least = is_broadcast() ? DistanceOf(call_->header.root) : 0;
  const int64_t distance = std::min(whole_, int64_t{config_.world_size} - 2);
  if (distance < least || distance <= said_) return false;
  said_ = distance;
  awaits_ack_ = true;
  Say(Message::kWhole, static_cast<uint32_t>(distance), false, memory, work);
  return true;
}

bool HostMulticast::NextDone(std::span<uint8_t> memory, MulticastWork* work) {
  if (said_done_ || !chunks_.all_whole() || !reads_.empty()) return false;
  if (empty_reads_left_ > 0) {
    --empty_reads_left_;
    fetches_[Side(true)].unacked.push_back(Sent::kEmptyRead);
    *work = {.kind = MulticastWork::Kind::kRead,
             .to_left = true,
             .remote_address = left_own_.address,
             .rkey = left_own_.rkey};
    return true;
  }
  said_done_ = true;
  Say(Message::kDone, 0, true, memory, work);
  return true;
}

void HostMulticast::Say(Message kind, uint32_t number, bool to_left, std::span<uint8_t> memory,
                        MulticastWork* work) {
  Fetch& fetch = fetches_[Side(to_left)];
  const uint64_t place = FetchSendPlace(Side(to_left), fetch.messages++);
  uint8_t* const at = memory.subspan(place, kRingMessageBytes).data();
  std::memset(at, 0, kRingMessageBytes);
  at[0] = static_cast<uint8_t>(kind);
  Put(at + 2, static_cast<uint16_t>(number));
  Put(at + 4, static_cast<uint32_t>(call_->header.invocation));
  if (kind == Message::kWhole) {
    Put(at + 8, call_->readable.address);
    Put(at + 16, call_->readable.rkey);
    Put(at + 20, own_.rkey);
    Put(at + 24, own_.address);
  }
  const Sent sent = kind == Message::kToken   ? Sent::kToken
                    : kind == Message::kWhole ? Sent::kWhole
                                              : Sent::kDone;
  fetch.unacked.push_back(sent);
  *work = {.kind = MulticastWork::Kind::kMessage,
           .to_left = to_left,
           .offset = place,
           .length = kRingMessageBytes};
}

bool HostMulticast::NextRead(MulticastWork* work) {
  if (reads_.size() == kFetchReads) return false;
  const int64_t end = std::min(heard_ + 1, int64_t{config_.world_size} - 1);
  for (; read_distance_ <= end; ++read_distance_, read_chunk_ = 0) {
    const auto part = PartAt(read_distance_);
    if (!part) continue;
    const ChunkMap::Run run =
        chunks_.NextMissing(*part, read_chunk_, config_.read_bytes / config_.chunk_bytes);
    if (run.count == 0) continue;
    read_chunk_ = run.first + run.count;
    reads_.push_back({.part = *part, .run = run});
    empty_reads_left_ = config_.empty_reads;
    fetches_[Side(true)].unacked.push_back(Sent::kRead);
    const uint64_t place = PlaceOf(*part, run.first);
    *work = {.kind = MulticastWork::Kind::kRead,
             .to_left = true,
             .where = HostWhere::kRecv,
             .offset = place,
             .length = BytesOf(run.first, run.count),
             .remote_address = left_address_ + place,
             .rkey = left_rkey_};
    return true;
  }
  return false;
}

void HostMulticast::OnDatagram(std::optional<uint32_t> from, uint32_t imm, uint32_t bytes,
                               std::span<const uint8_t> memory) {
  const uint64_t place = ReceivePlace(recvs_done_++) + kGrhBytes;
  if (!from) return void(++counts_.stranger);
  if (*from == config_.rank) return;  // a NIC that gives back what it sends
  if (!call_ || changes_key_ || imm >> 16 != (call_->header.invocation & 0xffff))
    return void(++counts_.stale);
  const uint32_t part = (imm & 0xffff) / part_chunks_, chunk = (imm & 0xffff) % part_chunks_;
  if (part >= parts_ || OwnerOf(part) != *from) return void(++counts_.alien);
  if (bytes != BytesOf(chunk)) return void(++counts_.length);
  if (chunks_.Has(part, chunk)) return void(++counts_.again);
  std::memcpy(call_->recv + PlaceOf(part, chunk), memory.subspan(place, bytes).data(), bytes);
  chunks_.Set(part, chunk);
  ++counts_.came;
}

bool HostMulticast::OnMessage(bool from_left, uint32_t bytes, int64_t invocation,
                              std::span<const uint8_t> memory) {
  const size_t side = Side(from_left);
  const uint8_t* const at =
      memory.subspan(FetchReceivePlace(side, fetches_[side].recvs_done++), kRingMessageBytes).data();
  if (bytes != kRingMessageBytes || at[1] != 0) return false;
  const auto age = static_cast<int32_t>(static_cast<uint32_t>(invocation) - Get<uint32_t>(at + 4));
  if (age > 0) return true;  // it was not needed
  if (age < 0 || !call_) return false;
  const uint32_t number = Get<uint16_t>(at + 2);
  const bool has_memory =
      std::any_of(at + 8, at + kRingMessageBytes, [](uint8_t octet) { return octet != 0; });
  const bool is_pair = config_.world_size == 2;
  switch (Message{at[0]}) {
    case Message::kToken:
      return (from_left || is_pair) && !has_memory && OnToken(number);
    case Message::kWhole: {
      const bool expects = !is_broadcast() || !has_own_;
      if (!(from_left || is_pair) || !expects) return false;
      if (number + 2 > config_.world_size || number <= heard_) return false;
      heard_ = number;
      left_address_ = Get<uint64_t>(at + 8);
      left_rkey_ = Get<uint32_t>(at + 16);
      left_own_ = {.address = Get<uint64_t>(at + 24), .rkey = Get<uint32_t>(at + 20)};
      return true;
    }
    case Message::kDone:
      if ((from_left && !is_pair) || number != 0 || has_memory || right_done_) return false;
      right_done_ = true;
      return true;
  }
  return false;
}

void HostMulticast::OnFetchSent(bool to_left) {
  std::deque<Sent>& unacked = fetches_[Side(to_left)].unacked;
  const Sent sent = unacked.front();
  unacked.pop_front();
  if (sent == Sent::kWhole) awaits_ack_ = false;
  if (sent != Sent::kRead) return;
  const Read read = reads_.front();
  reads_.pop_front();
  for (uint32_t i = 0; i < read.run.count; ++i) {
    if (chunks_.Set(read.part, read.run.first + i)) ++counts_.read;
  }
}

bool HostMulticast::done() const {
  if (!call_) return true;
  if (!right_done_ || !said_done_ || !here_.empty()) return false;
  if (has_own_ && own_given_ < part_chunks_) return false;
  return !AwaitsToken();
}

}  // namespace epic
