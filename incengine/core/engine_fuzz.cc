// Packets and timers as bytes, against a root and a leaf of each mode: no input may break an invariant, read
// or write outside the arena, or make the engine send without bound. Each step takes a few bytes of the
// input.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/fuzz_input.h"
#include "incengine/core/engine.h"
#include "protocol/control.h"

namespace epic::engine {
namespace {

constexpr uint32_t kPsn = 0xffffe0;
constexpr Ipv4 kAddress{99};
constexpr size_t kMaxSendsPerStep = 2 * 16 * 4;
// In mode I all that is in the rings of three endpoints, each message in up to two packets.
constexpr size_t kMaxSendsPerStepTerminated = 3 * 2 * 40;
// Steps from here on are packets by a port that is not the edge's, but for the last, which is time.
constexpr uint8_t kByWrongPort = 0xf0;

// Also follows each endpoint's PSNs, as its peer would: mode I's queue pairs do not show theirs.
class Sink final : public Effects {
 public:
  void Send(PortId port, const OutPacket& out) override {
    ++sends;
    // Touch every byte, so that AddressSanitizer sees what would be serialised.
    for (const uint8_t byte : out.packet.payload) sum = static_cast<uint8_t>(sum + byte);
    if (out.packet.bth.opcode == roce::Opcode::kRcAck) {
      next_in[port] = out.packet.bth.psn + (roce::IsAck(out.packet.aeth.syndrome) ? 1 : 0);
    } else if (out.packet.bth.psn.DistanceFrom(next_out[port]) >= 0) {
      next_out[port] = out.packet.bth.psn + 1;
    }
  }
  void SetTimer(TimerId, Nanos deadline) override { timer = std::min(timer, deadline); }
  void Drop(PortId, DropReason) override {}

  size_t sends = 0;
  uint8_t sum = 0;
  Nanos timer = kNever;
  std::array<Psn, 3> next_in = {Psn(kPsn), Psn(kPsn), Psn(kPsn)};  // from the peer at the port
  std::array<Psn, 3> next_out = next_in;                           // to it
};

constexpr uint32_t kWorldSize = 3;

EndpointConfig MakeEndpoint(uint32_t number, bool host) {
  return {.local_qpn = Qpn{0x100 + number},
          .remote_ip = Ipv4{1 + number},
          .remote_qpn = Qpn{0x11 + number},
          .port = static_cast<PortId>(number),
          .in_psn = Psn(kPsn),
          .out_psn = Psn(kPsn),
          .is_host = host,
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
  return {ep.in.WireOf(child ? ep.up_epsn : ctx.results_end), ep.out.WireOf(ctx.results_end),
          static_cast<uint64_t>(ep.in.next_invocation())};
}

// One packet from an endpoint: mostly near what is due, sometimes anything.
roce::Packet MakePacket(FuzzInput& in, const Engine& engine, const Sink& sink, uint32_t from,
                        std::vector<uint8_t>* payload) {
  roce::Packet p;
  p.src_ip = Ipv4{1 + from};
  p.dst_ip = kAddress;
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
      if (Reduces(header.collective)) header.op = static_cast<ReduceOp>(1 + in.Next() % 3);
      header.type = static_cast<DataType>(1 + in.Next() % 5);
      header.count = in.Next() * 8;
      header.root = in.Next() % 4;
      header.parts = HasPartPerRank(header.collective) ? kWorldSize : 1 + in.Next() / 250;
    }
    if (kind & 0x10) header.status = static_cast<ControlStatus>(in.Next() % 5);
    if (kind & 0x20) header.flags = kInlinedFlag;
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

void Run(const uint8_t* data, size_t size) {
  FuzzInput in(data, size);
  Engine engine(kAddress, 4, 1 << 16);
  constexpr std::array kModes = {Mode::kAugmented, Mode::kTranslated, Mode::kTerminated};
  GroupConfig config{.group_id = 1,
                     .mode = kModes[in.Next() % kModes.size()],
                     .world_size = kWorldSize,
                     .path_mtu = 256,
                     .message_packets = 2,
                     .window_messages = 4,
                     .slots = 16,
                     .children = {MakeEndpoint(0, true), MakeEndpoint(1, in.Next() & 1)},
                     .prompt_ns = kMillisecond};
  if (in.Next() & 1) {
    config.parent = MakeEndpoint(2, false);
  } else {
    config.children[1].ranks = {1, 2};
    config.children[1].is_host = false;
  }
  EPIC_CHECK(engine.Install(config).ok());
  Sink sink;
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
      const roce::Packet packet = MakePacket(in, engine, sink, from, &payload);
      if (step >= kByWrongPort) {
        engine.OnPacket(now, static_cast<PortId>(from + 1), packet, sink);
        EPIC_CHECK(sink.sends == 0);
        continue;
      }
      // Taken, as far as the peer knows, until an answer says otherwise.
      if (packet.bth.opcode != roce::Opcode::kRcAck && packet.bth.psn == sink.next_in[from])
        sink.next_in[from] = packet.bth.psn + 1;
      engine.OnPacket(now, static_cast<PortId>(from), packet, sink);
    }
    const Context& ctx = engine.groups().at(1);
    EPIC_CHECK(sink.sends <= (ctx.terminated ? kMaxSendsPerStepTerminated : kMaxSendsPerStep));
    if (ctx.terminated) continue;
    for (const auto& child : ctx.children) {
      EPIC_CHECK(ctx.results_end <= child.up_epsn);
      // Of a switch it steps over what needs no acknowledgement.
      EPIC_CHECK(!child.config.is_host || child.down_acked_end <= ctx.results_end);
    }
  }
}

}  // namespace
}  // namespace epic::engine

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  epic::engine::Run(data, size);
  return 0;
}
