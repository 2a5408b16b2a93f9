#include "fallback/sums.h"

#include <algorithm>
#include <utility>

#include "reduce/reduce.h"

namespace epic::fallback {
namespace {

// A switch keeps so many of a group, of which the oldest may still be repeated and none before it.
constexpr size_t kKeptCalls = 2 * static_cast<size_t>(kMaxOpenInvocations);

// Far beyond what a group ever counts to, so that indices of its calls can be added to it.
constexpr Index kMostIndex = Index{1} << 62;

// What an accumulator of the type is made of.
DataType AccumulatorType(DataType type) { return AccumulatorFactor(type) == 1 ? type : DataType::kFloat32; }

// Bytes of the data at an index, on the wire; without the header that may be in front of them.
size_t WireBytes(const DataLayout& layout, uint32_t path_mtu, Index in_call) {
  if (in_call >= layout.control_packets)
    return DataPacketBytes(layout, path_mtu, in_call - layout.control_packets);
  return ControlPacketBytes(layout, path_mtu, in_call) - HeaderBytesIn(in_call);
}

}  // namespace

std::string_view Sums::Take(uint32_t immediate, std::span<const uint8_t> bytes) {
  const auto kind = static_cast<LegMessage>(immediate >> 28);
  if (kind == LegMessage::kOpen) return Open(bytes);
  if (kind != LegMessage::kPart && kind != LegMessage::kLast && kind != LegMessage::kFetch) return "kind";
  Index index = 0;
  const LegCall* const call = CallOf(immediate & kLegIndexMask, &index);
  if (call == nullptr) return "index";
  if (kind != LegMessage::kFetch) return Add(*call, index, kind == LegMessage::kLast, bytes);
  if (!bytes.empty()) return "length";
  const auto it = sums_.find(index);
  if (it == sums_.end() || !it->second.whole) return "order";
  fetched_.push_back({LegImmediate(LegMessage::kSum, index), std::move(it->second.bytes)});
  sums_.erase(it);
  return {};
}

bool Sums::NextFetched(Fetched* out) {
  if (fetched_.empty()) return false;
  *out = std::move(fetched_.front());
  fetched_.pop_front();
  return true;
}

std::string_view Sums::Open(std::span<const uint8_t> bytes) {
  const auto open = DecodeOpen(bytes);
  if (!open) return "header";
  const ControlHeader& header = open->header;
  const ControlField wrong =
      WrongField(header, group_.world_size, uint64_t{group_.message_packets} * group_.path_mtu);
  if (wrong != ControlField::kNone || header.status != ControlStatus::kOk) return "header";
  const bool reduces = Reduces(header.collective);
  if (reduces && !CanReduce(header.op, header.type)) return "header";
  if (reduces && AccumulatorFactor(header.type) > group_.accumulator_mtus) return "header";
  const DataLayout layout = LayoutOf(header, group_.path_mtu, group_.message_packets);
  if (open->control_index > kMostIndex) return "control_index";
  if (!calls_.empty() &&
      open->control_index < calls_.back().open.control_index + calls_.back().layout.indices()) {
    return "control_index";
  }
  calls_.push_back({.open = *open, .layout = layout});
  if (calls_.size() > kKeptCalls) calls_.pop_front();
  return {};
}

const Sums::LegCall* Sums::CallOf(uint32_t low, Index* index) const {
  for (const LegCall& call : calls_) {
    const Index first = call.open.control_index;
    const auto in_call = static_cast<Index>((low - static_cast<uint32_t>(first)) & kLegIndexMask);
    if (in_call >= call.layout.indices()) continue;
    *index = first + in_call;
    return &call;
  }
  return nullptr;
}

std::string_view Sums::Add(const LegCall& call, Index index, bool last, std::span<const uint8_t> bytes) {
  const ControlHeader& header = call.open.header;
  const bool reduces = Reduces(header.collective);
  const size_t wire = WireBytes(call.layout, group_.path_mtu, index - call.open.control_index);
  if (wire == 0) return "index";
  if (bytes.size() != (reduces ? AccumulatorBytes(header.op, header.type, wire) : wire)) return "length";
  const bool first = !sums_.contains(index);
  if (first && sums_.size() >= group_.slots) return "slots";
  Sum& sum = sums_[index];
  if (sum.whole) return "order";
  if (first) {
    sum.bytes.assign(bytes.begin(), bytes.end());
  } else if (reduces) {
    Accumulate(header.op, AccumulatorType(header.type), sum.bytes, bytes);
  } else {
    Merge(sum.bytes, bytes);
  }
  if (!last) return {};
  sum.whole = true;
  if (!reduces) return {};
  std::vector<uint8_t> stored(wire);
  Store(header.op, header.type, sum.bytes, stored);
  sum.bytes = std::move(stored);
  return {};
}

}  // namespace epic::fallback
