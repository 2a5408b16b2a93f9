// What comes in, as far as it allows the switch to send something.
#include <algorithm>

#include "check/conform/group.h"

namespace epic::conform {
namespace {

// Twice what a switch keeps (docs/PROTOCOL.md, section 2).
constexpr int64_t kKeptCalls = 64;

bool IsSend(roce::Opcode opcode) { return opcode <= roce::Opcode::kRcSendOnlyImm; }

PacketBytes BytesOf(const roce::Packet& packet) { return {packet.payload.begin(), packet.payload.end()}; }

}  // namespace

void GroupModel::OnIn(size_t number, const roce::Packet& packet) {
  if (stopped_ || (packet.bth.pkey & 0x7fff) != 0x7fff) return;
  End& end = ends_[number];
  end.congested |= (packet.tos & 3) == 3;
  const roce::Opcode opcode = packet.bth.opcode;
  if (opcode == roce::Opcode::kRcAck) return TakeAeth(end, packet);
  if (!IsSend(opcode)) {
    if (opcode == roce::Opcode::kCnp) return;
    end.misfit = true;
    ending_ |= Terminated();
    return;
  }
  const int64_t position = end.in.PositionOf(packet.bth.psn, end.taken);
  if (position != end.taken) return;
  const bool fits =
      !(Terminated() && end.misfit) &&
      (is_parent(number) ? TakeResult(position, packet) : TakeContribution(number, position, packet));
  // A queue pair takes what is in order, whatever the mode makes of it.
  if (fits || Terminated()) ++end.taken;
  if (!fits && Terminated()) end.misfit = ending_ = true;
  if (fits) StepOverUnreceived();
}

void GroupModel::OpenCall(const ControlHeader& header) {
  Call call{.number = calls_opened_++,
            .header = header,
            .control_index = calls_.empty() ? 0 : calls_.back().end(),
            .layout = {}};
  if (CanServe(header, config_)) call.layout = LayoutOf(header, config_.path_mtu, config_.message_packets);
  calls_.push_back(call);
  std::vector<uint32_t> below;
  for (const auto& child : config_.children)
    below.insert(below.end(), child.ranks.begin(), child.ranks.end());
  std::ranges::sort(below);
  for (size_t e = 0; e < ends_.size(); ++e) {
    const std::vector<uint32_t>& ranks = is_parent(e) ? below : ends_[e].config.ranks;
    std::vector<int64_t> sent, received;
    for (int64_t part = 0; part < call.layout.parts && call.layout.part_packets > 0; ++part) {
      if (Sends(header, part, ranks)) sent.push_back(part);
      if (Receives(header, part, ranks)) received.push_back(part);
    }
    ends_[e].in.Open(call, is_parent(e) ? received : sent);
    ends_[e].out.Open(call, is_parent(e) ? sent : received);
    ends_[e].in.Forget(call.number - kKeptCalls);
    ends_[e].out.Forget(call.number - kKeptCalls);
  }
  while (calls_.front().number < call.number - kKeptCalls) calls_.pop_front();
  items_.erase(items_.begin(), items_.lower_bound(calls_.front().control_index));
}

// An acknowledgement from the peer (docs/PROTOCOL.md 5.3, PROTOCOL-MODE-III.md "ACK, NAK, RNR NAK").
void GroupModel::TakeAeth(End& end, const roce::Packet& packet) {
  const bool negative = !roce::IsAck(packet.aeth.syndrome);
  if (negative) end.last_negative = packet.aeth.syndrome;
  // Between mode II's switches a NAK asks for something and acknowledges nothing.
  if (negative && Translated() && !end.config.is_host) return;
  const int64_t named = end.out.PositionOf(packet.bth.psn, end.acked);
  const int64_t acked = negative ? named - 1 : named;
  if (acked >= end.sent) return;
  end.acked = std::max(end.acked, acked + 1);
}

bool GroupModel::TakeContribution(size_t child, int64_t position, const roce::Packet& packet) {
  End& end = ends_[child];
  const auto index = end.in.IndexAt(position);
  if (!index) return false;
  const Call* call = CallOf(*index);
  if (call == nullptr || *index == call->control_index) return TakeControl(child, *index, packet);
  if (Augmented() && *index >= UpStart() + config_.slots) return false;
  if (failed_ || (call->InControl(*index) && Disagrees(*call))) return false;
  const bool too_early = IsTracked(*call, *index) && call->number >= replies_;
  if (too_early && !Terminated()) return false;
  const Shape shape = ShapeOf(*call, *index);
  if (packet.bth.opcode != shape.opcode || packet.payload.size() != shape.bytes) {
    end.misfit = true;
    return false;
  }
  items_[*index].from.push_back({child, BytesOf(packet)});
  return true;
}

// Have headers that differ come for the call, or one with a bad status?
bool GroupModel::Disagrees(const Call& call) const {
  const auto it = items_.find(call.control_index);
  if (it == items_.end()) return false;
  const Item& item = it->second;
  const auto& sent = item.result ? item.result : item.sum;
  if (!sent && item.from.empty()) return false;
  const auto header = HeaderOf(sent ? *sent : MergedControl(item.from, first_rank_, config_));
  return header && header->status != ControlStatus::kOk;
}

bool GroupModel::TakeControl(size_t child, Index index, const roce::Packet& packet) {
  End& end = ends_[child];
  const Call* call = CallOf(index);
  const int64_t number = call != nullptr ? call->number : calls_opened_;
  const auto header = HeaderOf(packet.payload);
  Call own;  // its length is what its own header says
  if (header && header->status == ControlStatus::kOk)
    own.layout = LayoutOf(*header, config_.path_mtu, config_.message_packets);
  Shape shape = ShapeOf(own, 0);
  // Of a type that the switch does not know, any length.
  const bool any_length = header && IsLengthUnknown(*header);
  const bool goes_on = any_length && packet.bth.opcode == roce::Opcode::kRcSendFirst;
  if (goes_on) {
    shape = {roce::Opcode::kRcSendFirst, config_.path_mtu};
  } else if (any_length) {
    shape.bytes = static_cast<uint32_t>(packet.payload.size());
  }
  if (!header || packet.bth.opcode != shape.opcode || packet.payload.size() != shape.bytes ||
      header->invocation != static_cast<uint64_t>(number) ||
      (end.config.is_host && header->status != ControlStatus::kOk)) {
    end.misfit = true;
    return false;
  }
  // No more data after a bad reply.
  if (failed_ && packet.payload.size() > kControlBytes && !Terminated()) return false;
  if (call == nullptr) OpenCall(*header);
  // A message of another length than the reference's: what follows lies elsewhere.
  end.misfit |= goes_on || own.layout.control_packets != CallOf(index)->layout.control_packets;
  items_[index].from.push_back({child, BytesOf(packet)});
  return true;
}

bool GroupModel::TakeResult(int64_t position, const roce::Packet& packet) {
  End& end = parent();
  const auto index = end.in.IndexAt(position);
  const Call* call = index ? CallOf(*index) : nullptr;
  if (call == nullptr) return false;
  // No result can exist without this switch's part.
  const auto own = end.out.PositionAt(*index);
  if (own && *own >= end.sent) return false;
  const Shape shape = ShapeOf(*call, *index, packet);
  if (packet.bth.opcode != shape.opcode || packet.payload.size() != shape.bytes) return false;
  if (Augmented() && *index >= DownStart() + config_.slots) return false;
  if (*index == call->control_index) {
    const auto header = HeaderOf(packet.payload);
    if (!header || header->invocation != static_cast<uint64_t>(call->number)) return false;
    failed_ |= header->status != ControlStatus::kOk;
  }
  // A header alone ends a message where more of it is due.
  parent().misfit |= *index == call->control_index && packet.payload.size() == kControlBytes &&
                     call->layout.control_packets > 1;
  // A result proves that the parent has what this switch sent.
  if (Augmented() && own) end.acked = std::max(end.acked, *own + 1);
  items_[*index].result = BytesOf(packet);
  return true;
}

// At the root: a result that no rank receives is complete without a packet that says so.
void GroupModel::StepOverUnreceived() {
  while (is_root()) {
    const auto it = items_.find(results_end_);
    if (it == items_.end()) return;
    for (size_t c = 0; c < children(); ++c) {
      if (ends_[c].out.PositionAt(results_end_)) return;
      if (ends_[c].in.PositionAt(results_end_) &&
          std::ranges::none_of(it->second.from, [&](const Contribution& f) { return f.child == c; })) {
        return;
      }
    }
    ++results_end_;
  }
}

}  // namespace epic::conform
