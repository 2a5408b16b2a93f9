#include "roce/packet_testing.h"

#include <algorithm>
#include <array>

namespace epic::roce::testing {
namespace {

bool SameBth(const Bth& a, const Bth& b) {
  return a.opcode == b.opcode && a.solicited == b.solicited && a.mig_req == b.mig_req && a.fecn == b.fecn &&
         a.becn == b.becn && a.pkey == b.pkey && a.dest_qp == b.dest_qp && a.ack_req == b.ack_req &&
         a.psn == b.psn;
}

std::vector<Opcode> KnownOpcodes() {
  std::vector<Opcode> known;
  for (int byte = 0; byte < 256; ++byte) {
    const auto opcode = Opcode{static_cast<uint8_t>(byte)};
    if (Info(opcode).known) known.push_back(opcode);
  }
  return known;
}

}  // namespace

bool SamePacket(const Packet& a, const Packet& b) {
  if (!SameBth(a.bth, b.bth) || a.src_ip != b.src_ip || a.dst_ip != b.dst_ip ||
      a.udp_src_port != b.udp_src_port || a.flow_label != b.flow_label || a.tos != b.tos || a.ttl != b.ttl) {
    return false;
  }
  const OpcodeInfo& info = Info(a.bth.opcode);
  if (info.aeth && (a.aeth.syndrome != b.aeth.syndrome || a.aeth.msn != b.aeth.msn)) return false;
  if (info.reth && (a.reth.virtual_address != b.reth.virtual_address || a.reth.rkey != b.reth.rkey ||
                    a.reth.dma_length != b.reth.dma_length)) {
    return false;
  }
  if (info.deth && (a.deth.qkey != b.deth.qkey || a.deth.src_qp != b.deth.src_qp)) return false;
  if (info.imm && a.imm != b.imm) return false;
  if (info.atomic_eth &&
      (a.atomic.virtual_address != b.atomic.virtual_address || a.atomic.rkey != b.atomic.rkey ||
       a.atomic.swap_or_add != b.atomic.swap_or_add || a.atomic.compare != b.atomic.compare)) {
    return false;
  }
  if (info.atomic_ack_eth && a.original != b.original) return false;
  if (info.ieth && a.invalidate_rkey != b.invalidate_rkey) return false;
  return std::ranges::equal(a.payload, b.payload);
}

Packet RandomPacket(std::mt19937_64& random, size_t max_payload, std::vector<uint8_t>* storage) {
  static const std::vector<Opcode> known = KnownOpcodes();
  const auto r32 = [&random] { return static_cast<uint32_t>(random()); };
  Packet packet;
  packet.src_ip = Ipv4{r32()};
  packet.dst_ip = Ipv4{r32()};
  packet.udp_src_port = static_cast<uint16_t>(r32());
  packet.tos = static_cast<uint8_t>(r32());
  packet.ttl = static_cast<uint8_t>(r32());
  packet.bth = {.opcode = known[r32() % known.size()],
                .solicited = r32() % 2 == 0,
                .mig_req = r32() % 2 == 0,
                .fecn = r32() % 2 == 0,
                .becn = r32() % 2 == 0,
                .pkey = static_cast<uint16_t>(r32()),
                .dest_qp = Qpn{r32() & kQpnMask},
                .ack_req = r32() % 2 == 0,
                .psn = Psn(r32())};
  packet.aeth = {static_cast<uint8_t>(r32()), r32() & 0xffffff};
  const OpcodeInfo& info = Info(packet.bth.opcode);
  packet.atomic = {random(), r32(), random(), random()};
  if (info.reth) packet.reth = {random(), r32(), r32()};
  if (info.deth) packet.deth = {r32(), Qpn{r32() & kQpnMask}};
  if (info.atomic_ack_eth) packet.original = random();
  packet.imm = r32();
  packet.invalidate_rkey = r32();
  storage->resize(info.payload ? r32() % (max_payload + 1) : 0);
  for (uint8_t& byte : *storage) byte = static_cast<uint8_t>(r32());
  packet.payload = *storage;
  return packet;
}

void MakeIpv6(std::mt19937_64& random, Packet* packet) {
  for (Ip* ip : {&packet->src_ip, &packet->dst_ip}) {
    std::array<uint8_t, Ip::kBytes> bytes;
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    bytes[0] |= 0x20;  // none of those that stand for IPv4
    *ip = Ip::Of(bytes.data());
  }
  packet->flow_label = static_cast<uint32_t>(random()) & 0xfffff;
}

FrameAddress RandomAddress(std::mt19937_64& random) {
  FrameAddress address;
  for (uint8_t& byte : address.dst) byte = static_cast<uint8_t>(random());
  for (uint8_t& byte : address.src) byte = static_cast<uint8_t>(random());
  address.ip_id = static_cast<uint16_t>(random());
  if (random() % 2 == 0) address.vlan = static_cast<uint16_t>(random());
  return address;
}

}  // namespace epic::roce::testing
