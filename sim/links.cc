#include "sim/links.h"

#include <algorithm>

#include "base/check.h"
#include "roce/super_frame.h"

namespace epic::sim {
namespace {

// The head of the frame that a packet would have alone. What joins is decided by heads, so that the payload
// is left out, and with it the work of its ICRC.
roce::FramePieces HeadOf(const Links::Outgoing& out) {
  roce::Packet bare = out.packet;
  bare.payload = {};
  roce::FramePieces head;
  roce::WritePieces({.dst = {}, .src = {}, .ip_id = out.ip_id, .vlan = {}}, bare, nullptr, &head);
  return head;
}

}  // namespace

std::optional<SuperFrameLinks> SuperFrameLinksNamed(std::string_view name) {
  if (name == "none") return SuperFrameLinks::kNone;
  if (name == "all") return SuperFrameLinks::kAll;
  if (name == "switches") return SuperFrameLinks::kSwitches;
  if (name == "hosts") return SuperFrameLinks::kHosts;
  return std::nullopt;
}

Links::Links(const Config& config, int nodes, Choices& choices, EventQueue& events)
    : config_(config), choices_(choices), events_(events), links_(static_cast<size_t>(nodes)) {}

PortId Links::Connect(int child, int parent, bool super_frames) {
  auto& up = links_[static_cast<size_t>(child)];
  auto& down = links_[static_cast<size_t>(parent)];
  const auto child_port = static_cast<PortId>(up.size());
  const auto parent_port = static_cast<PortId>(down.size());
  down.push_back({.peer = child, .peer_port = child_port, .super_frames = super_frames});
  up.push_back({.peer = parent, .peer_port = parent_port, .super_frames = super_frames});
  return parent_port;
}

void Links::Send(Picos now, int node, PortId port, const Outgoing& out) {
  Link& link = links_[static_cast<size_t>(node)][port];
  if (!out.joins) {
    if (link.open) Launch(now, link, *std::exchange(link.open, std::nullopt));
    const uint32_t alone = Begin(link);
    Add(alone, node, link.peer, out);
    return Launch(now, link, alone);
  }
  EPIC_CHECK(link.super_frames);
  const roce::FramePieces head = HeadOf(out);
  const size_t bytes = roce::FrameBytes(out.packet);
  if (!link.open) {
    collecting_.emplace_back(node, port);
  } else if (Joins(link, head, bytes)) {
    link.open_bytes += bytes - roce::kSuperFrameHeadBytes;
    return Add(*link.open, node, link.peer, out);
  } else {
    Launch(now, link, *link.open);
  }
  link.open = Begin(link);
  link.first = head;
  link.open_bytes = link.first_bytes = bytes;
  Add(*link.open, node, link.peer, out);
}

bool Links::Joins(const Link& link, const roce::FramePieces& head, size_t bytes) {
  return roce::JoinsSuperFrame({.first = link.first.head(),
                                .packet_bytes = link.first_bytes - roce::kSuperFrameHeadBytes,
                                .bytes = link.open_bytes,
                                .packets = frames_[*link.open].count_},
                               head.head(), bytes);
}

void Links::Flush(Picos now) {
  for (const auto& [node, port] : collecting_) {
    Link& link = links_[static_cast<size_t>(node)][port];
    if (link.open) Launch(now, link, *std::exchange(link.open, std::nullopt));
  }
  collecting_.clear();
}

uint32_t Links::Begin(const Link& link) {
  const uint32_t number = frames_.Take();
  LinkFrame& frame = frames_[number];
  frame.count_ = 0;
  frame.to_port_ = link.peer_port;
  frame.arrivals_ = 0;
  return number;
}

void Links::Add(uint32_t number, int node, int peer, const Outgoing& out) {
  LinkFrame& frame = frames_[number];
  if (frame.count_ == frame.packets_.size()) frame.packets_.emplace_back();
  LinkFrame::Part& part = frame.packets_[frame.count_++];
  part.seen = {.number = packets_++, .from = node, .to = peer, .group = out.group};
  part.packet = out.packet;
  part.payload.assign(out.packet.payload.begin(), out.packet.payload.end());
  part.packet.payload = part.payload;
  part.arrives = true;
}

// Asks what becomes of the frame. Its packets have come to the places where they stay.
Fate Links::Decide(LinkFrame& frame) {
  for (size_t k = 0; k < frame.count_; ++k) {
    LinkPacket& seen = frame.packets_[k].seen;
    seen.packet = &frame.packets_[k].packet;
    seen.frame = frame.first().number;
    seen.packets = static_cast<int>(frame.count_);
  }
  return rule_ ? rule_(frame.first()) : Fate::kDeliver;
}

// What it means for each packet.
void Links::ShareOut(Fate fate, LinkFrame& frame) {
  const size_t count = frame.count_;
  const bool one = fate == Fate::kCut || fate == Fate::kCorrupt;
  const size_t at = one && count > 1 ? choices_.Below(count) : 0;
  for (size_t k = 0; k < count; ++k) {
    LinkFrame::Part& part = frame.packets_[k];
    Fate own = fate;
    if (fate == Fate::kCut && k < at) own = Fate::kDeliver;
    if (fate == Fate::kCorrupt && k != at) own = Fate::kDeliver;
    if (fate == Fate::kFlip && k > 0) own = Fate::kDeliver;
    part.arrives = own != Fate::kDrop && own != Fate::kCut && own != Fate::kCorrupt;
    if (own == Fate::kFlip && !part.payload.empty()) part.payload.back() ^= 1;
    if (send_watch_) send_watch_(part.seen, own);
  }
}

void Links::Launch(Picos now, Link& link, uint32_t number) {
  LinkFrame& frame = frames_[number];
  if (frame.count_ > 1) ++super_frames_;
  const Fate fate = Decide(frame);
  ShareOut(fate, frame);
  Picos left_at = now;
  bool arrives = false;
  for (size_t k = 0; k < frame.count_; ++k) {
    const LinkFrame::Part& part = frame.packets_[k];
    left_at = link.clock.Take(now, WireBytes(part.packet), config_.bits_per_second);
    arrives = arrives || part.arrives;
  }
  if (!arrives) return frames_.GiveBack(number);
  const auto arrives_at = [&](Picos time) {
    ++frame.arrivals_;
    events_.AddPacket(std::max(time, now), number);
  };
  // Links keep their order, unless the rule holds a frame back.
  const Picos delay = ToPicos(config_.delay_ns);
  Picos arrival = std::max(left_at + delay, link.last_arrival);
  if (fate == Fate::kDelay) {
    arrival += static_cast<Picos>(1 + choices_.Below(16)) * delay;
  } else {
    if (fate == Fate::kHold) arrival += static_cast<Picos>(1 + choices_.Below(64)) * delay;
    link.last_arrival = arrival;
  }
  arrives_at(arrival);
  if (fate == Fate::kDuplicate) arrives_at(arrival + delay);
  if (fate == Fate::kLinger)
    arrives_at(arrival + ToPicos(1 + static_cast<Nanos>(
                                         choices_.Below(static_cast<uint64_t>(config_.packet_life_ns)))));
}

void Links::Arrived(uint32_t number) {
  if (--frames_[number].arrivals_ == 0) frames_.GiveBack(number);
}

}  // namespace epic::sim
