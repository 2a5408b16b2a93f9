#include "incengine/modules/transmit.h"

#include <bit>

#include "base/check.h"
#include "incengine/modules/position.h"
#include "roce/opcode.h"

namespace epic::engine {
namespace {

OutPacket MakePacket(Endpoint& ep, Env& env) {
  OutPacket out;
  out.dst_mac = ep.config.remote_mac;
  out.ip_id = ep.ip_id++;
  out.super_frames = ep.config.super_frames;
  out.packet.src_ip = LocalAddress(ep.config, env.address);
  out.packet.dst_ip = ep.config.remote_ip;
  out.packet.udp_src_port = ep.udp_src_port;
  out.packet.bth.dest_qp = ep.config.remote_qpn;
  ++ep.counters.packets_out;
  return out;
}

OutPacket MakeDataPacket(const Context& ctx, Endpoint& ep, const Position& position, Index index,
                         std::span<const uint8_t> payload, bool ack_req, Env& env) {
  OutPacket out = MakePacket(ep, env);
  // A header alone is a whole message, whatever the call was: its status is not OK.
  const bool alone = position.header() && payload.size() == kControlBytes;
  out.packet.bth.opcode = alone ? roce::Opcode::kRcSendOnlyImm : OpcodeAt(ctx, position);
  out.packet.bth.psn = ep.out.WireOf(index);
  out.packet.bth.ack_req = ack_req;
  if (roce::Info(out.packet.bth.opcode).imm)
    out.packet.imm = static_cast<uint32_t>(position.invocation->number);
  out.packet.payload = payload;
  return out;
}

}  // namespace

void SendData(Context& ctx, Endpoint& ep, Index index, std::span<const uint8_t> payload, bool ack_req,
              Env& env) {
  const auto position = Locate(ctx, index);
  EPIC_CHECK(position.has_value());
  const OutPacket out = MakeDataPacket(ctx, ep, *position, index, payload, ack_req, env);
  env.effects.Send(ep.config.port, out);
}

void ReplicateData(Context& ctx, uint64_t outs, Index index, std::span<const uint8_t> payload, bool ack_req,
                   Env& env) {
  const auto position = Locate(ctx, index);
  EPIC_CHECK(position.has_value());
  ctx.counters.replicated_packets += static_cast<uint64_t>(std::popcount(outs));
  for (bool first = true; outs != 0; outs &= outs - 1, first = false) {
    Endpoint& child = ctx.children[static_cast<size_t>(std::countr_zero(outs))];
    OutPacket out = MakeDataPacket(ctx, child, *position, index, payload, ack_req, env);
    out.same_payload = !first;
    env.effects.Send(child.config.port, out);
  }
}

void SendAeth(Endpoint& ep, uint8_t syndrome, Index index, Index completed_to, Env& env) {
  OutPacket out = MakePacket(ep, env);
  out.packet.bth.opcode = roce::Opcode::kRcAck;
  out.packet.bth.psn = ep.in.WireOf(index);
  out.packet.aeth.syndrome = syndrome;
  out.packet.aeth.msn = ep.in.MsnAfter(completed_to);
  env.effects.Send(ep.config.port, out);
}

void SendMade(Endpoint& ep, const roce::Packet& packet, Env& env) {
  OutPacket out{.dst_mac = ep.config.remote_mac, .ip_id = ep.ip_id++, .packet = packet};
  out.packet.udp_src_port = ep.udp_src_port;
  out.super_frames = ep.config.super_frames;
  ++ep.counters.packets_out;
  env.effects.Send(ep.config.port, out);
}

void SendAck(Endpoint& ep, Index index, Env& env) { SendAeth(ep, roce::kSyndromeAck, index, index, env); }

void SendNak(Endpoint& ep, Index index, Env& env) {
  ++ep.counters.naks_sent;
  SendAeth(ep, roce::kSyndromeNakSequence, index, index - 1, env);
}

void SendRnrNak(Endpoint& ep, Index index, uint8_t timer_code, Env& env) {
  ++ep.counters.rnr_naks_sent;
  SendAeth(ep, static_cast<uint8_t>(roce::kSyndromeRnrNak | timer_code), index, index - 1, env);
}

}  // namespace epic::engine
