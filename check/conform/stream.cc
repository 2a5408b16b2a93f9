#include "check/conform/stream.h"

#include <algorithm>

namespace epic::conform {

void Stream::Append(Run run) {
  run.position = length_;
  run.messages_before = messages_;
  runs_.push_back(run);
  length_ += run.length;
  messages_ += static_cast<uint32_t>(run.length / run.part_packets * run.part_messages);
}

void Stream::Open(const Call& call, const std::vector<int64_t>& parts) {
  Append({.call = call.number,
          .index = call.control_index,
          .length = call.layout.control_packets,
          .part_packets = call.layout.control_packets});
  const int64_t packets = call.layout.part_packets;
  const int64_t turn = call.layout.turn_packets > 0 ? call.layout.turn_packets : packets;
  for (int64_t first = 0; first < packets; first += turn)
    OpenTurn(call, parts, first, std::min(turn, packets - first));
  next_index_ = call.end();
}

void Stream::OpenTurn(const Call& call, const std::vector<int64_t>& parts, int64_t first, int64_t packets) {
  const Index begin = call.data_index() + call.layout.parts * first;
  const int64_t messages = (packets + message_packets_ - 1) / message_packets_;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0 && parts[i] == parts[i - 1] + 1) {  // goes on where the part before it ends
      runs_.back().length += packets;
      length_ += packets;
      messages_ += static_cast<uint32_t>(messages);
    } else {
      Append({.call = call.number,
              .index = begin + parts[i] * packets,
              .length = packets,
              .part_packets = packets,
              .part_messages = messages});
    }
  }
}

void Stream::Forget(int64_t call) {
  while (!runs_.empty() && runs_.front().call < call) runs_.pop_front();
}

const Stream::Run* Stream::Find(int64_t position) const {
  auto it =
      std::ranges::partition_point(runs_, [&](const Run& r) { return r.position + r.length <= position; });
  return it != runs_.end() && it->position <= position ? &*it : nullptr;
}

std::optional<Index> Stream::IndexAt(int64_t position) const {
  if (position == length_) return next_index_;
  const Run* run = Find(position);
  if (run == nullptr) return std::nullopt;
  return run->index + (position - run->position);
}

std::optional<int64_t> Stream::PositionAt(Index index) const {
  const auto it =
      std::ranges::partition_point(runs_, [&](const Run& r) { return r.index + r.length <= index; });
  if (it == runs_.end() || it->index > index) return std::nullopt;
  return it->position + (index - it->index);
}

std::optional<uint32_t> Stream::MessagesBefore(int64_t position) const {
  if (position == length_) return messages_ & Psn::kMask;
  const Run* run = Find(position);
  if (run == nullptr) return std::nullopt;
  const int64_t before = position - run->position;
  const int64_t whole = before / run->part_packets * run->part_messages;
  const int64_t rest = before % run->part_packets / message_packets_;
  return (run->messages_before + static_cast<uint32_t>(whole + rest)) & Psn::kMask;
}

}  // namespace epic::conform
