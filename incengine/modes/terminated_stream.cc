// Places in the stream of messages, and what lies there.
#include <algorithm>
#include <array>

#include "incengine/modes/terminated.h"

namespace epic::engine::terminated {

int64_t PacketsOf(const Context& ctx, const Message& message) {
  return std::max<int64_t>(1, (int64_t{message.bytes} + ctx.config.path_mtu - 1) / ctx.config.path_mtu);
}

bool IsTracked(const StreamPlace& place) {
  return !place.control && !SendersReceive(place.header.collective);
}

uint32_t BytesOf(const Context& ctx, const StreamPlace& place) {
  const uint64_t most = TerminatedMessageBytes(ctx.config);
  const uint64_t begin = static_cast<uint64_t>(place.data.message) * most;
  return static_cast<uint32_t>(std::min(most, place.layout.part_bytes - begin));
}

namespace {

// To the next message of data that the stream carries, and behind the last one to the next control packet.
template <typename Carried>
void StepData(const Context& ctx, StreamPlace& place, const Carried& carried) {
  if (StepToNext(place.layout, ctx.config.message_packets, carried(place), &place.data)) return;
  const Index next = place.control_index + place.layout.indices();
  place = StreamPlace{.invocation = place.invocation + 1, .control_index = next};
}

// From a control packet to what follows it.
template <typename Carried>
void OpenData(const Context& ctx, StreamPlace& place, const ControlHeader& header, const Carried& carried) {
  place.control = false;
  place.header = header;
  place.layout = LayoutOf(header, ctx.config.path_mtu, ctx.config.message_packets);
  StepData(ctx, place, carried);
}

// Of a place's invocation, whether the stream carries a part.
auto CarriedUp(const Context& ctx) {
  return
      [&ctx](const StreamPlace& p) { return [&](int64_t part) { return Sends(p.header, part, ctx.ranks); }; };
}
auto CarriedDown(const Context& ctx) {
  return [&ctx](const StreamPlace& p) {
    return [&](int64_t part) { return Receives(p.header, part, ctx.ranks); };
  };
}

}  // namespace

void OpenDataUp(const Context& ctx, StreamPlace& place, const ControlHeader& header) {
  OpenData(ctx, place, header, CarriedUp(ctx));
}
void OpenDataDown(const Context& ctx, StreamPlace& place, const ControlHeader& header) {
  OpenData(ctx, place, header, CarriedDown(ctx));
}
void StepUp(const Context& ctx, StreamPlace& place) { StepData(ctx, place, CarriedUp(ctx)); }
void StepDown(const Context& ctx, StreamPlace& place) { StepData(ctx, place, CarriedDown(ctx)); }

uint64_t ReceiversOf(const Context& ctx, const StreamPlace& place) {
  if (place.control) return ctx.all_children();
  uint64_t outs = 0;
  for (size_t c = 0; c < ctx.children.size(); ++c) {
    if (Receives(place.header, place.data.part, ctx.children[c].config.ranks)) outs |= uint64_t{1} << c;
  }
  return outs;
}

uint64_t ControlBytesOf(const ControlHeader& header) {
  const bool alone = header.status != ControlStatus::kOk || !IsInlined(header);
  return kControlBytes + (alone ? 0 : CallBytes(header));
}

std::optional<ControlHeader> ControlOf(ModeCall& call, const Message& message, bool described) {
  if (!message.control) return std::nullopt;
  const auto header = HeaderOf(call.Bytes(message.at, message.bytes));
  if (!header || header->priority != 0) return std::nullopt;
  const size_t descriptor = described && HasDescriptor(*header) ? kDescriptorBytes : 0;
  if (message.bytes != ControlBytesOf(*header) + descriptor && !IsLengthUnknown(*header)) return std::nullopt;
  return header;
}

void WriteControl(ModeCall& call, const ControlHeader& header, Message* message) {
  std::array<uint8_t, kControlBytes> bytes;
  Encode(header, bytes);
  std::ranges::copy(bytes, call.Bytes(message->at, kControlBytes).begin());
  message->bytes = kControlBytes;
  message->control = true;
  message->imm = static_cast<uint32_t>(header.invocation);
}

ControlHeader Aborted(const StreamPlace& place, uint32_t culprit) {
  ControlHeader header = place.header;
  if (place.control) header = ControlHeader{};
  header.invocation = static_cast<uint64_t>(place.invocation);
  header.status = ControlStatus::kAborted;
  header.field = ControlField::kNone;
  header.culprit = culprit;
  return header;
}

}  // namespace epic::engine::terminated
