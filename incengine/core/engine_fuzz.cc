// Packets, super-frames and timers as bytes, against a root and a leaf of each mode: no input may break an
// invariant, read or write outside the arena, or make the engine send without bound. A super-frame comes
// through the switch, whole or cut or damaged or with a wrong length of its packets, and must do what its
// packets do one after the other in frames of their own. Each step takes a few bytes of the input.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/fuzz_input.h"
#include "incengine/core/engine_block_testing.h"
#include "incengine/core/engine_fuzz_testing.h"
#include "incengine/core/switch.h"
#include "protocol/control.h"
#include "roce/super_frame.h"
#include "roce/view.h"

namespace epic::engine {
namespace {

constexpr uint32_t kPsn = 0xffffe0;
constexpr Ipv4 kAddress{99};
constexpr roce::MacAddress kMac = {0x02, 0, 0, 0, 0xff, 1};
constexpr roce::MacAddress kPeerMac = {0x02, 0, 0, 0xff, 0, 2};
constexpr roce::MacAddress kOtherMac = {0x02, 0, 0, 0xff, 0, 3};
constexpr size_t kMaxSendsPerStep = 2 * 16 * 4;
// In mode I all that is in the rings of three endpoints, each message in up to two packets.
constexpr size_t kMaxSendsPerStepTerminated = 3 * 2 * 40;
// Steps from here on are super-frames.
constexpr uint8_t kSuperFrames = 0xe0;
constexpr size_t kMostPackets = 12;  // of one
// And from here on packets that are no endpoint's, but for the last, which is time: by a port that is not the
// edge's, to the switch where the endpoint bears a host's address, or to a host that it does not bear.
constexpr uint8_t kByWrongPort = 0xf0;
constexpr uint8_t kToOwn = 4, kToThird = 8;  // of such a step
constexpr Ipv4 kThird{77};

constexpr uint32_t kWorldSize = 3;

EndpointConfig MakeEndpoint(uint32_t number, bool host) {
  return {.local_qpn = Qpn{0x100 + number},
          .remote_ip = Ipv4{1 + number},
          .remote_qpn = Qpn{0x11 + number},
          .remote_mac = kPeerMac,
          .port = static_cast<PortId>(number),
          .in_psn = Psn(kPsn),
          .out_psn = Psn(kPsn),
          .is_host = host,
          .super_frames = number != 0,
          .ranks = {number}};
}

// Where a peer's stream stands: the PSNs due from it and to it, and the invocation that it opens next.
struct Due {
  Psn in;
  Psn out;
  uint64_t invocation = 0;
};

Due DueOf(const Context& ctx, const Sink& sink, uint32_t from, uint8_t kind) {
  if (ctx.terminated) {
    const auto open = static_cast<uint64_t>(ctx.terminated->up.invocation);
    return {sink.next_in[from], sink.next_out[from], open + (kind >> 6 & 1)};
  }
  const bool child = from < ctx.children.size();
  const Endpoint& ep = child ? ctx.children[from] : ctx.parent;
  return {ep.in.WireOf(child ? ep.progress.up_epsn : ctx.results_end), ep.out.WireOf(ctx.results_end),
          static_cast<uint64_t>(ep.in.next_invocation())};
}

// A number from 1 to `all`, mostly one of the first, as it was when there were no others: inputs that were
// kept mean what they did.
uint8_t NumberOf(uint8_t byte, size_t first, size_t all) {
  return static_cast<uint8_t>(1 + (byte < 160 ? byte % first : byte % all));
}

// One packet from an endpoint: mostly near what is due, sometimes anything.
roce::Packet MakePacket(FuzzInput& in, const Engine& engine, const Sink& sink, uint32_t from,
                        std::vector<uint8_t>* payload) {
  roce::Packet p;
  p.src_ip = Ipv4{1 + from};
  const GroupConfig& config = engine.groups().at(1).config;
  p.dst_ip = from < config.children.size() ? LocalAddress(config.children[from], kAddress) : kAddress;
  p.bth.dest_qp = Qpn{0x100 + from};
  const uint8_t kind = in.Next();
  p.bth.ack_req = kind & 0x80;
  const Due due = DueOf(engine.groups().at(1), sink, from, kind);
  const auto offset = static_cast<int8_t>(in.Next());
  if ((kind & 0x3) == 0) {
    p.bth.opcode = roce::Opcode::kRcAck;
    p.aeth.syndrome = in.Next();
    p.bth.psn = due.out + offset / 8;
    return p;
  }
  p.bth.psn = due.in + offset / 16;
  if ((kind & 0x3) == 1) {
    p.bth.opcode = roce::Opcode::kRcSendOnlyImm;
    ControlHeader header{.invocation = due.invocation};
    if (kind & 4) {
      header.collective = static_cast<Collective>(1 + in.Next() % 6);
      if (Reduces(header.collective))
        header.op = static_cast<ReduceOp>(NumberOf(in.Next(), 3, kReduceOps.size()));
      header.type = static_cast<DataType>(NumberOf(in.Next(), 5, kDataTypes.size()));
      header.count = in.Next() * 8;
      header.root = in.Next() % 4;
      header.parts = HasPartPerRank(header.collective) ? kWorldSize : 1 + in.Next() / 250;
    }
    const bool has_block = engine.groups().at(1).config.block != 0;
    if (kind & 0x10) header.status = static_cast<ControlStatus>(in.Next() % (has_block ? 6 : 5));
    if (has_block && (kind & 0x80)) {
      const uint8_t ask = in.Next();
      header.flags = (ask & 1) != 0 ? kRequestFlag | uint32_t{ask} >> 6 << kSlicesLeftShift : kGrantedFlag;
      if (IsRequest(header)) header.window = ask >> 1 & 7;
    }
    if (kind & 0x20) header.flags |= kInlinedFlag;
    const bool has_turns = header.collective == Collective::kAllGather || (kind & 0x18) == 0x18;
    if ((kind & 0x40) && has_turns) header.turn = in.Next() % 4;
    payload->assign(kControlBytes, 0);
    Encode(header, std::span<uint8_t, kControlBytes>(payload->data(), kControlBytes));
    // Of inlined data as many as the header says, and the first packet of a message if they are many.
    if (IsInlined(header) && header.status == ControlStatus::kOk) {
      payload->resize(std::min<uint64_t>(kControlBytes + CallBytes(header), 256), in.Next());
      if (kControlBytes + CallBytes(header) > 256) p.bth.opcode = roce::Opcode::kRcSendFirst;
    }
  } else {
    p.bth.opcode = static_cast<roce::Opcode>(in.Next() % 6);
    payload->assign(kind & 8 ? in.Next() * 2u : 256, in.Next());
  }
  p.payload = *payload;
  return p;
}

struct SuperFrame {
  std::vector<uint8_t> bytes;
  size_t segment_bytes = 0;
  size_t packets = 0;
  bool by_wrong_port = false;
};

void Append(const roce::Packet& packet, SuperFrame* frame) {
  roce::FramePieces pieces;
  const auto id = static_cast<uint16_t>(0xfffe + frame->packets);
  // What is to another host's address goes to that host's MAC address.
  const roce::MacAddress& to = packet.dst_ip == kAddress ? kMac : kOtherMac;
  roce::WritePieces({.dst = to, .src = kPeerMac, .ip_id = id, .vlan = {}}, packet, nullptr, &pieces);
  const std::vector<uint8_t> alone = roce::Join(pieces);
  const bool is_first = frame->packets++ == 0;
  if (is_first) frame->segment_bytes = alone.size() - roce::kSuperFrameHeadBytes;
  frame->bytes.insert(frame->bytes.end(), alone.begin() + (is_first ? 0 : roce::kSuperFrameHeadBytes),
                      alone.end());
}

// The packet behind another one of the same sender: mostly the next, and as long as the first.
roce::Packet Follow(FuzzInput& in, const roce::Packet& before, size_t segment_bytes,
                    std::vector<uint8_t>* payload) {
  roce::Packet p = before;
  const uint8_t kind = in.Next();
  p.bth.ack_req = kind & 0x80;
  if (!(kind & 0x40)) p.bth.psn = before.bth.psn + 1;
  if (before.bth.opcode == roce::Opcode::kRcAck) {
    p.aeth.syndrome = in.Next();
    return p;
  }
  p.bth.opcode = static_cast<roce::Opcode>(kind % 6);
  const size_t around = roce::Info(p.bth.opcode).header_bytes + roce::kIcrcBytes;
  const size_t bytes = segment_bytes > around ? segment_bytes - around : 0;
  payload->assign(kind & 0x20 ? std::min<size_t>(bytes, in.Next()) : bytes, kind);
  p.payload = *payload;
  return p;
}

// What becomes of it on its way: mostly nothing.
void Distort(FuzzInput& in, SuperFrame* frame) {
  const uint8_t how = in.Next();
  frame->by_wrong_port = how & 0x80;
  const auto number = [&in] {
    const size_t high = in.Next();
    return high << 8 | in.Next();
  };
  switch (how & 7) {
    case 3:
      frame->segment_bytes = 0;
      break;
    case 4:
      frame->segment_bytes = number();
      break;
    case 5:
      frame->bytes.resize(number() % frame->bytes.size());
      break;
    case 6: {
      const size_t bit = number() % (8 * frame->bytes.size());
      frame->bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
      break;
    }
    case 7:
      frame->segment_bytes = frame->bytes.size() + 1;
      break;
    default:
      break;
  }
}

// Several packets of an endpoint, of which `first` is the first. Its peer has sent them, whatever arrives.
SuperFrame MakeSuperFrame(FuzzInput& in, const roce::Packet& first, Sink& sink, uint32_t from) {
  SuperFrame frame;
  std::vector<uint8_t> payload;
  roce::Packet packet = first;
  for (size_t left = 1 + in.Next() % kMostPackets;; --left) {
    if (packet.bth.opcode != roce::Opcode::kRcAck && packet.bth.psn == sink.next_in[from])
      sink.next_in[from] = packet.bth.psn + 1;
    Append(packet, &frame);
    if (left == 1) break;
    packet = Follow(in, packet, frame.segment_bytes, &payload);
  }
  roce::MakeSuperFrameHead(frame.bytes.size() - roce::kSuperFrameHeadBytes, frame.bytes);
  Distort(in, &frame);
  return frame;
}

// What the switch does when its packets come in frames of their own.
Frames OneByOne(Switch& a_switch, Nanos now, PortId port, const SuperFrame& frame) {
  Frames frames;
  roce::SuperFrameView view;
  if (roce::SuperFrameView::Of(frame.bytes, frame.segment_bytes, &view) != roce::ParseResult::kOk)
    return frames;
  std::vector<uint8_t> alone(frame.bytes.size());
  for (size_t k = 0; k < view.packets(); ++k) {
    const size_t bytes = view.Write(k, alone);
    if (bytes > 0) a_switch.OnFrame(now, port, std::span(alone).first(bytes), frames);
  }
  return frames;
}

// A packet to a host whose address no endpoint bears, in a frame to that host: passed on as it is, and
// nothing of the groups changes.
void OnFrameToThird(Switch& a_switch, Nanos now, PortId port, roce::Packet packet) {
  packet.dst_ip = kThird;
  SuperFrame frame;
  Append(packet, &frame);
  Frames frames;
  const uint64_t before = a_switch.counters().roce_packets;
  a_switch.OnFrame(now, port, frame.bytes, frames);
  EPIC_CHECK(frames.timers.empty() && a_switch.counters().roce_packets == before);
  for (const Frames::Sent& sent : frames.sent)
    EPIC_CHECK(sent.port != port && !sent.joins && sent.frame == frame.bytes);
}

// What leaves by one port keeps its order; a flooded super-frame leaves by one port after the other.
std::vector<Frames::Sent> ByPort(std::vector<Frames::Sent> sent) {
  std::ranges::stable_sort(sent, {}, &Frames::Sent::port);
  return sent;
}

// The sink is told of the engine's packets, as if they had come from it alone.
void OnSuperFrame(Switch& a_switch, Nanos now, uint32_t from, const SuperFrame& frame, Sink& sink) {
  const auto port = static_cast<PortId>(frame.by_wrong_port ? from + 1 : from);
  Switch copy = a_switch;
  Frames frames;
  a_switch.OnSuperFrame(now, port, frame.bytes, frame.segment_bytes, frames);
  const Frames expected = OneByOne(copy, now, port, frame);
  EPIC_CHECK(ByPort(frames.sent) == ByPort(expected.sent) && frames.timers == expected.timers);
  EPIC_CHECK(a_switch.counters().engine_drops == copy.counters().engine_drops);
  for (const Nanos deadline : frames.timers) sink.SetTimer(TimerId{1}, deadline);
  for (const Frames::Sent& sent : frames.sent) {
    const auto ethernet = roce::EthernetView::Of(sent.frame);
    EPIC_CHECK(ethernet.has_value());
    // One whose damage made it another's has been passed on.
    if (ethernet->src() != kMac) continue;
    EPIC_CHECK(!frame.by_wrong_port && sent.joins == (sent.port != 0));
    roce::FrameAddress address;
    OutPacket out;
    EPIC_CHECK(roce::ParseFrame(sent.frame, &address, &out.packet) == roce::ParseResult::kOk);
    sink.Send(sent.port, out);
  }
}

// After a step in which so many packets came, or the time.
void CheckGroup(const Engine& engine, size_t sends, size_t packets) {
  const bool terminated = engine.groups().at(1).terminated.has_value();
  EPIC_CHECK(sends <= packets * (terminated ? kMaxSendsPerStepTerminated : kMaxSendsPerStep));
  engine.CheckInvariants();
}

void Run(const uint8_t* data, size_t size) {
  FuzzInput in(data, size);
  Switch a_switch({.address = kAddress, .mac = kMac, .port_count = 4, .arena_bytes = 1 << 16});
  Engine& engine = a_switch.engine();
  // Mostly the first three, from the last on, as the corpus has them.
  const uint8_t which = in.Next();
  const size_t among = which < 160 ? 3 : kModesOfOwnMemory.size();
  const ModeInfo& row = kModesOfOwnMemory[among - 1 - which % among];
  const Mode mode = row.mode;
  GroupConfig config{{.group_id = 1,
                      .mode = mode,
                      .world_size = kWorldSize,
                      .path_mtu = 256,
                      .message_packets = 2,
                      .window_messages = 4,
                      .slots = 16,
                      .prompt_ns = kMillisecond}};
  config.children = {MakeEndpoint(0, true), {}};
  const uint8_t how = in.Next();
  config.children[1] = MakeEndpoint(1, how & 1);
  if (in.Next() & 1) {
    config.parent = MakeEndpoint(2, false);
  } else {
    config.children[1].ranks = {1, 2};
    config.children[1].is_host = false;
  }
  for (uint32_t c = 0; c < 2 && row.bears_hosts; ++c) {
    if (config.children[c].is_host) config.children[c].borne_ip = Ipv4{2 - c};
  }
  if ((how & 2) != 0 && mode != Mode::kTerminated) {
    config.block = kBlock;
    config.block_bytes = ArenaBytes(config);
  }
  EPIC_CHECK(engine.Install(config).ok());
  Sink sink{Psn(kPsn)}, to_other{Psn(kPsn)};
  std::vector<uint8_t> of_other;
  if (config.block != 0 && (how & 4) != 0)
    of_other = OtherTakesBlock(config, MakeEndpoint(3, true), engine, to_other);
  Nanos now = 0;
  std::vector<uint8_t> payload;
  while (!in.empty()) {
    sink.sends = 0;
    const uint8_t step = in.Next();
    if (step == 0xff) {
      now += kMillisecond * (1 + in.Next());
      engine.OnTimer(now, TimerId{1}, sink);
    } else {
      const uint32_t from = step % 3;
      roce::Packet packet = MakePacket(in, engine, sink, from, &payload);
      if (step >= kSuperFrames && step < kByWrongPort) {
        const SuperFrame frame = MakeSuperFrame(in, packet, sink, from);
        OnSuperFrame(a_switch, now, from, frame, sink);
        CheckGroup(engine, sink.sends, frame.packets);
        CheckBlock(engine, of_other);
        continue;
      }
      if (step >= kByWrongPort) {
        if ((step & kToThird) != 0) {
          OnFrameToThird(a_switch, now, static_cast<PortId>(from), packet);
          continue;
        }
        const bool to_own = packet.dst_ip != kAddress && (step & kToOwn) != 0;
        if (to_own) packet.dst_ip = kAddress;  // where it bears another
        engine.OnPacket(now, static_cast<PortId>(to_own ? from : from + 1), packet, sink);
        EPIC_CHECK(sink.sends == 0);
        continue;
      }
      // Taken, as far as the peer knows, until an answer says otherwise.
      if (packet.bth.opcode != roce::Opcode::kRcAck && packet.bth.psn == sink.next_in[from])
        sink.next_in[from] = packet.bth.psn + 1;
      engine.OnPacket(now, static_cast<PortId>(from), packet, sink);
    }
    CheckGroup(engine, sink.sends, 1);
    CheckBlock(engine, of_other);
  }
}

}  // namespace
}  // namespace epic::engine

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  epic::engine::Run(data, size);
  return 0;
}
