// Packets with a payload, to the parent and to children.
#include <fmt/format.h>

#include <algorithm>

#include "check/conform/group.h"

namespace epic::conform {

void GroupModel::JudgeData(size_t number, const roce::Packet& packet, Judge& judge) {
  End& end = ends_[number];
  const int64_t position = end.out.PositionOf(packet.bth.psn, end.sent);
  if (JudgeEnding(end, position, packet, judge)) return;
  if (!judge.Expect(
          Rule::kPosition, position >= 0 && position <= end.sent && position < end.out.length(),
          [&] { return fmt::format("packet {} of this direction, or one before it", end.sent); },
          [&] { return fmt::format("packet {} (PSN {})", position, packet.bth.psn.raw()); })) {
    return;
  }
  const bool up = is_parent(number);
  const auto index = end.out.IndexAt(position);
  const Call* call = index ? CallOf(*index) : nullptr;
  if (call == nullptr) return judge.NotJudged("packets repeated after 64 more calls");
  if (!JudgeShape(*call, *index, packet, judge)) return;
  if (position < end.sent) return JudgeRepeat(up, *index, packet, judge);
  end.sent = position + 1;
  const PacketBytes seen(packet.payload.begin(), packet.payload.end());
  const bool control = *index == call->control_index;
  judge.Expect(
      Rule::kFailed, packet.payload.size() == kControlBytes || !failed_,
      [] { return "no more data: a reply with a bad status has passed"; },
      [&] { return fmt::format("data of index {}", *index); });
  JudgeWindow(up, *call, *index, judge);
  Item& item = items_[*index];
  if (up) {
    JudgeSum(*call, *index, seen, judge);
    item.sum = seen;
    item.from.clear();
    return;
  }
  if (!item.result && is_root()) {
    JudgeSum(*call, *index, seen, judge);
    item.result = seen;
    item.from.clear();
  } else if (judge.Expect(
                 Rule::kResult, item.result.has_value(),
                 [&] { return fmt::format("no packet before the parent has sent index {}", *index); },
                 [] { return "a result"; })) {
    judge.Expect(
        Rule::kPayload, *item.result == seen,
        [&] { return fmt::format("the result of index {}, {}", *index, FirstByteOf(*item.result, seen)); },
        [&] { return Digits(seen); });
  }
  results_end_ = std::max(results_end_, *index + 1);
  if (control) NoteReply(*call, seen);
}

void GroupModel::NoteReply(const Call& call, const PacketBytes& payload) {
  replies_ = std::max(replies_, call.number + 1);
  const auto header = HeaderOf(payload);
  failed_ |= header && header->status != ControlStatus::kOk;
}

// Mode I: a control packet with a bad status in any place ends the stream (docs/PROTOCOL-MODE-I.md, sections
// 3 and 4). True if the packet is such a one, or comes after it.
bool GroupModel::JudgeEnding(End& end, int64_t position, const roce::Packet& packet, Judge& judge) {
  if (!Terminated()) return false;
  const PacketBytes seen(packet.payload.begin(), packet.payload.end());
  if (end.ended_at && position >= *end.ended_at) {
    judge.Expect(
        Rule::kFailed, position == *end.ended_at && seen == end.ended_with,
        [] { return "nothing after the control packet that ended the stream"; },
        [&] { return fmt::format("packet {} of this direction", position); });
    return true;
  }
  const auto header = DecodeControl(seen);
  if (!ending_ || position != end.sent || packet.bth.opcode != roce::Opcode::kRcSendOnlyImm || !header ||
      header->status == ControlStatus::kOk) {
    return false;
  }
  judge.Expect(
      Rule::kImmediate, packet.imm == static_cast<uint32_t>(header->invocation),
      [&] { return fmt::format("immediate {}", static_cast<uint32_t>(header->invocation)); },
      [&] { return fmt::format("{}", packet.imm); });
  end.ended_at = position;
  end.ended_with = seen;
  end.sent = position + 1;
  return true;
}

bool GroupModel::JudgeShape(const Call& call, Index index, const roce::Packet& packet, Judge& judge) {
  const Shape shape = ShapeOf(call, index, packet);
  const bool opcode = judge.Expect(
      Rule::kOpcode, packet.bth.opcode == shape.opcode,
      [&] { return fmt::format("opcode {:#x} at index {}", static_cast<int>(shape.opcode), index); },
      [&] { return fmt::format("{:#x}", static_cast<int>(packet.bth.opcode)); });
  const bool length = judge.Expect(
      Rule::kLength, packet.payload.size() == shape.bytes,
      [&] { return fmt::format("{} bytes at index {}", shape.bytes, index); },
      [&] { return fmt::format("{}", packet.payload.size()); });
  if (!roce::Info(shape.opcode).imm) return opcode && length;
  judge.Expect(
      Rule::kImmediate, packet.imm == static_cast<uint32_t>(call.number),
      [&] { return fmt::format("immediate {}", static_cast<uint32_t>(call.number)); },
      [&] { return fmt::format("{}", packet.imm); });
  return opcode && length;
}

void GroupModel::JudgeRepeat(bool up, Index index, const roce::Packet& packet, Judge& judge) {
  const auto it = items_.find(index);
  const std::optional<PacketBytes>* first = nullptr;
  if (it != items_.end()) first = up ? &it->second.sum : &it->second.result;
  if (first == nullptr || !*first) return judge.NotJudged("repetitions whose first sending was refused");
  const PacketBytes seen(packet.payload.begin(), packet.payload.end());
  judge.Expect(
      Rule::kRepeat, **first == seen,
      [&] { return fmt::format("index {} as it was sent first, {}", index, FirstByteOf(**first, seen)); },
      [&] { return Digits(seen); });
}

// The first sending of what this switch makes of its children's packets.
void GroupModel::JudgeSum(const Call& call, Index index, const PacketBytes& seen, Judge& judge) {
  // Mode I sums whole messages, but for a header that is alone.
  const bool alone = index == call.control_index && seen.size() == kControlBytes;
  const Index last = Terminated() && !alone ? MessageEnd(call, index) : index;
  const auto has = [&](size_t child) {
    const auto it = items_.find(last);
    return it != items_.end() &&
           std::ranges::any_of(it->second.from, [&](const Contribution& f) { return f.child == child; });
  };
  std::string missing;
  for (size_t c = 0; c < children(); ++c) {
    if (ends_[c].in.PositionAt(index) && !has(c)) missing += fmt::format(" {}", c);
  }
  if (!judge.Expect(
          Rule::kContribution, missing.empty(),
          [&] { return fmt::format("index {} of child{} before", last, missing); },
          [&] { return fmt::format("index {} sent without", index); })) {
    return;
  }
  std::vector<Contribution> from = items_[index].from;
  const bool ordered = Terminated() || config_.reproducible;
  if (Terminated() || (config_.reproducible && index != call.control_index)) {
    std::ranges::stable_sort(from, {}, &Contribution::child);
  }
  size_t before = 0;
  if (index == call.control_index) {
    before = kControlBytes;
    const PacketBytes merged = MergedControl(from, first_rank_, config_);
    const PacketBytes header(seen.begin(), seen.begin() + kControlBytes);
    const bool right = judge.Expect(
        Rule::kControl, merged == header,
        [&] { return "the merged control packet, " + FirstByteOf(merged, header); },
        [&] { return Digits(header); });
    if (!right || alone) return;
    for (Contribution& c : from) c.payload.erase(c.payload.begin(), c.payload.begin() + kControlBytes);
  }
  const PacketBytes data(seen.begin() + static_cast<int64_t>(before), seen.end());
  const std::string wrong = WrongPayload(call.header, from, data, ordered);
  judge.Expect(
      Rule::kPayload, wrong.empty(), [&] { return wrong; },
      [&] { return fmt::format("index {}: {}", index, Digits(seen)); });
}

// Mode II's root: whether a tracked result may go down while `awaited` is the first that is not acknowledged
// (docs/PROTOCOL.md 4).
void GroupModel::JudgePassing(const Call& call, Index index, Index awaited, Judge& judge) {
  const Index window = static_cast<Index>(config_.message_packets) * config_.window_messages;
  judge.Expect(
      Rule::kWindow, awaited >= call.data_index() && index < awaited + window,
      [&] { return fmt::format("an index below {} + {}, its call acknowledged", awaited, window); },
      [&] { return fmt::format("index {} of the call at {}", index, call.control_index); });
}

// Whether there was a slot for it (docs/PROTOCOL.md 4 and 5.1; PROTOCOL-MODE-III.md, "State").
void GroupModel::JudgeWindow(bool up, const Call& call, Index index, Judge& judge) {
  if (Terminated()) return judge.NotJudged("packets of mode I against its buffers, which count bytes");
  Index start = index;
  const bool needs_slot = !call.InControl(index) || call.layout.inlined_bytes > 0;
  if (Augmented()) {
    start = up ? UpStart() : DownStart();
  } else if (needs_slot && up) {
    start = std::min(parent().in.IndexAt(parent().taken).value_or(index), FirstAwaited(parent()));
  } else if (needs_slot && is_root()) {
    for (size_t c = 0; c < children(); ++c) start = std::min(start, FirstAwaited(ends_[c]));
    if (IsTracked(call, index)) JudgePassing(call, index, start, judge);
  }
  judge.Expect(
      Rule::kWindow, index < start + config_.slots,
      [&] { return fmt::format("an index below {} + {} slots", start, config_.slots); },
      [&] { return fmt::format("index {}", index); });
}

}  // namespace epic::conform
