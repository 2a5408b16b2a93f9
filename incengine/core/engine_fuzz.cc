// Packets and timers as bytes, against a root and a leaf: no input may break an invariant, read or write
// outside the arena, or make the engine send without bound. Each step takes a few bytes of the input.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/fuzz_input.h"
#include "incengine/core/engine.h"
#include "protocol/control.h"

namespace epic::engine {
namespace {

constexpr uint32_t kPsn = 0xffffe0;
constexpr size_t kMaxSendsPerStep = 2 * 16 * 4;

class Sink final : public Effects {
 public:
  void Send(PortId, const OutPacket& out) override {
    ++sends;
    // Touch every byte, so that AddressSanitizer sees what would be serialised.
    for (const uint8_t byte : out.packet.payload) sum = static_cast<uint8_t>(sum + byte);
  }
  void SetTimer(TimerId, Nanos deadline) override { timer = std::min(timer, deadline); }
  void Drop(PortId, DropReason) override {}

  size_t sends = 0;
  uint8_t sum = 0;
  Nanos timer = kNever;
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

// One packet from an endpoint: mostly near what is due, sometimes anything.
roce::Packet MakePacket(FuzzInput& in, const Engine& engine, uint32_t from, std::vector<uint8_t>* payload) {
  const Context& ctx = engine.groups().at(1);
  roce::Packet p;
  p.src_ip = Ipv4{1 + from};
  p.bth.dest_qp = Qpn{0x100 + from};
  const uint8_t kind = in.Next();
  p.bth.ack_req = kind & 0x80;
  const auto& ep = from < ctx.children.size() ? ctx.children[from] : ctx.parent;
  const auto offset = static_cast<int8_t>(in.Next());
  if ((kind & 0x3) == 0) {
    p.bth.opcode = roce::Opcode::kRcAck;
    p.aeth.syndrome = in.Next();
    p.bth.psn = ep.out.WireOf(ctx.results_end) + offset / 8;
    return p;
  }
  const Index due = from < ctx.children.size() ? ep.up_epsn : ctx.results_end;
  p.bth.psn = ep.in.WireOf(due) + offset / 16;
  if ((kind & 0x3) == 1) {
    p.bth.opcode = roce::Opcode::kRcSendOnlyImm;
    ControlHeader header{.invocation = static_cast<uint64_t>(ep.in.next_invocation())};
    if (kind & 4) {
      header.collective = static_cast<Collective>(1 + in.Next() % 6);
      if (Reduces(header.collective)) header.op = static_cast<ReduceOp>(1 + in.Next() % 3);
      header.type = static_cast<DataType>(1 + in.Next() % 5);
      header.count = in.Next() * 8;
      header.root = in.Next() % 4;
      header.parts = HasPartPerRank(header.collective) ? kWorldSize : 1 + in.Next() / 250;
    }
    if (kind & 0x10) header.status = static_cast<ControlStatus>(in.Next() % 5);
    payload->resize(kControlBytes);
    Encode(header, std::span<uint8_t, kControlBytes>(payload->data(), kControlBytes));
  } else {
    p.bth.opcode = static_cast<roce::Opcode>(in.Next() % 6);
    payload->assign(kind & 8 ? in.Next() * 2u : 256, in.Next());
  }
  p.payload = *payload;
  return p;
}

void Run(const uint8_t* data, size_t size) {
  FuzzInput in(data, size);
  Engine engine(Ipv4{99}, 4, 1 << 16);
  GroupConfig config{.group_id = 1,
                     .mode = in.Next() & 1 ? Mode::kTranslated : Mode::kAugmented,
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
      engine.OnPacket(now, 0, MakePacket(in, engine, step % 3, &payload), sink);
    }
    EPIC_CHECK(sink.sends <= kMaxSendsPerStep);
    const Context& ctx = engine.groups().at(1);
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
