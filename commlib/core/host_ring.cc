#include "commlib/core/host_ring.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "base/check.h"
#include "reduce/reduce.h"

namespace epic {
namespace {

// What goes along a chain is cut into some pieces even where it would be one message: ranks behind the first
// work only when something has come. But not into smaller ones than these. Around the ring all work at once,
// and a message costs as much as tens of KiB of data.
constexpr uint64_t kLeastPieceBytes = 16 * 1024;
constexpr uint64_t kPiecesAtLeast = 4;

bool IsChain(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kReduce;
}

int64_t StepsOf(Collective collective, uint32_t world_size) {
  if (IsChain(collective)) return 1;
  const int64_t around = int64_t{world_size} - 1;
  return collective == Collective::kAllReduce ? 2 * around : around;
}

// Elements of the largest block.
uint64_t LargestBlock(const ControlHeader& header, uint32_t world_size) {
  return header.collective == Collective::kAllReduce ? CeilDiv(header.count, world_size) : header.count;
}

}  // namespace

uint64_t MostRingBytes(const HostRingConfig& config, const ControlHeader& header) {
  const uint64_t element = ElementBytes(header.type);
  if (element == 0) return kMaxBytes;
  const auto pieces =
      static_cast<uint64_t>(config.most_messages / StepsOf(header.collective, config.world_size));
  const uint64_t blocks = IsChain(header.collective) ? 1 : config.world_size;
  uint64_t block = config.message_bytes / element * pieces;
  if (Reduces(header.collective))
    block = std::min(block, config.staging_bytes / element / std::max<uint64_t>(blocks - 1, 1));
  return std::min(block, kMaxBytes / element / blocks) * element * blocks;
}

void HostRing::Clear() { *this = HostRing(config_); }

void HostRing::Begin(const HostCall& call) {
  Clear();
  call_ = call;
  const ControlHeader& header = call.header;
  const uint32_t n = config_.world_size;
  EPIC_CHECK(CallBytes(header) <= MostRingBytes(config_, header));
  element_bytes_ = std::max(ElementBytes(header.type), 1u);
  const uint64_t block = LargestBlock(header, n);
  if (block == 0) return;
  const int64_t steps = StepsOf(header.collective, n);
  is_chain_ = IsChain(header.collective);
  first_step_ = header.collective == Collective::kAllGather ? int64_t{n} - 1 : 0;
  block_bytes_ = block * element_bytes_;
  const uint64_t message_elements = config_.message_bytes / element_bytes_;
  uint64_t wanted = CeilDiv(block, message_elements);
  if (is_chain_) wanted = std::max(wanted, std::min(CeilDiv(block_bytes_, kLeastPieceBytes), kPiecesAtLeast));
  const uint64_t piece =
      CeilDiv(block, std::min(wanted, static_cast<uint64_t>(config_.most_messages / steps)));
  piece_bytes_ = piece * element_bytes_;
  pieces_ = static_cast<int64_t>(CeilDiv(block, piece));
  end_ = steps * pieces_;
  lag_ = is_chain_ ? 0 : pieces_;
  sends_ = receives_ = true;
  if (is_chain_) {
    const uint32_t first = header.collective == Collective::kReduce ? header.root + 1 : header.root;
    const uint32_t at = (config_.rank + 2 * n - first) % n;
    receives_ = at != 0;
    sends_ = at != n - 1;
  }
  if (!receives_) posted_ = received_ = end_;
  if (!sends_) sent_ = end_;
  SkipEmpty();
}

uint32_t HostRing::BlockOf(int64_t step) const {
  if (is_chain_) return 0;
  const int64_t n = config_.world_size;
  return static_cast<uint32_t>((int64_t{config_.rank} - step - 1 + 2 * n) % n);
}
uint32_t HostRing::SentBlock(int64_t message) const { return BlockOf(StepOf(message)); }
uint32_t HostRing::ReceivedBlock(int64_t message) const { return BlockOf(StepOf(message) + 1); }

uint64_t HostRing::BlockElements(uint32_t block) const {
  const uint64_t count = call_.header.count, n = config_.world_size;
  if (call_.header.collective != Collective::kAllReduce) return count;
  return count / n + (block < count % n ? 1 : 0);
}

uint64_t HostRing::BlockOffset(uint32_t block) const {
  const uint64_t count = call_.header.count, n = config_.world_size;
  if (is_chain_) return 0;
  if (call_.header.collective != Collective::kAllReduce) return block * call_.stride();
  return (block * (count / n) + std::min<uint64_t>(block, count % n)) * element_bytes_;
}

HostRing::Range HostRing::RangeOf(int64_t message, uint32_t block) const {
  const uint64_t bytes = BlockElements(block) * element_bytes_;
  const uint64_t begin = static_cast<uint64_t>(message % pieces_) * piece_bytes_;
  if (begin >= bytes) return {};
  return {.offset = begin, .length = static_cast<uint32_t>(std::min(piece_bytes_, bytes - begin))};
}

uint64_t HostRing::StagingOffset(int64_t message) const {
  return static_cast<uint64_t>(message / pieces_) * block_bytes_ +
         static_cast<uint64_t>(message % pieces_) * piece_bytes_;
}

bool HostRing::Combines(int64_t message) const {
  return Reduces(call_.header.collective) && (is_chain_ || StepOf(message) < int64_t{config_.world_size} - 1);
}

// What is sent first is this rank's own; of the others it is what came a round before.
HostPiece HostRing::SendPiece(int64_t message) const {
  const uint32_t block = SentBlock(message);
  const Range range = RangeOf(message, block);
  if (is_chain_ ? !receives_ : message < pieces_) {
    const bool is_part = call_.header.collective == Collective::kAllGather;
    const uint64_t begin = is_part ? 0 : BlockOffset(block);
    return {.where = HostWhere::kSend, .offset = begin + range.offset, .length = range.length};
  }
  const int64_t from = message - lag_;
  const bool is_result = !Combines(from) || (!is_chain_ && StepOf(from) + 2 == int64_t{config_.world_size});
  if (is_result)
    return {.where = HostWhere::kRecv, .offset = BlockOffset(block) + range.offset, .length = range.length};
  return {.where = HostWhere::kOwn, .offset = StagingOffset(from), .length = range.length};
}

HostPiece HostRing::ReceivePiece(int64_t message) const {
  const uint32_t block = ReceivedBlock(message);
  const Range range = RangeOf(message, block);
  if (Combines(message))
    return {.where = HostWhere::kOwn, .offset = StagingOffset(message), .length = range.length};
  return {.where = HostWhere::kRecv, .offset = BlockOffset(block) + range.offset, .length = range.length};
}

// At most as many as there are messages, in a whole call.
void HostRing::SkipEmpty() {
  while (posted_ < end_ && RangeOf(posted_, ReceivedBlock(posted_)).length == 0) ++posted_;
  while (received_ < end_ && RangeOf(received_, ReceivedBlock(received_)).length == 0) ++received_;
  while (sent_ < end_ && RangeOf(sent_, SentBlock(sent_)).length == 0) ++sent_;
}

bool HostRing::NextReceive(HostPiece* piece) {
  if (posted_ == end_) return false;
  *piece = ReceivePiece(posted_++);
  SkipEmpty();
  return true;
}

uint32_t HostRing::ExpectedBytes() const {
  return received_ == end_ ? 0 : RangeOf(received_, ReceivedBlock(received_)).length;
}

void HostRing::OnReceived(uint8_t* staging) {
  const int64_t message = received_++;
  SkipEmpty();
  if (!Combines(message)) return;
  const uint32_t block = ReceivedBlock(message);
  const Range range = RangeOf(message, block);
  uint8_t* const incoming = staging + StagingOffset(message);
  uint8_t* out = incoming;
  if (is_chain_ ? !sends_ : StepOf(message) + 2 == int64_t{config_.world_size}) {
    const bool is_part = call_.header.collective == Collective::kReduceScatter;
    out = call_.recv + (is_part ? 0 : BlockOffset(block)) + range.offset;
  }
  Combine(call_.header.op, call_.header.type, {out, range.length}, incoming,
          call_.send + BlockOffset(block) + range.offset);
}

bool HostRing::NextSend(HostPiece* piece) {
  if (sent_ == end_) return false;
  const bool needs = is_chain_ ? receives_ : sent_ >= pieces_;
  if (needs && received_ <= sent_ - lag_) return false;
  *piece = SendPiece(sent_++);
  SkipEmpty();
  return true;
}

}  // namespace epic
