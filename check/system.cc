#include "check/system.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "commlib/core/rank_core.h"
#include "incengine/modes/table.h"
#include "incengine/state/connect.h"

namespace epic::check {
namespace {

constexpr uint32_t kUpperQpn = 0x100;     // at the parent
constexpr uint32_t kLowerQpn = 0x10000;   // at the child
constexpr uint32_t kLifeQpns = 0x100000;  // from one life to the next
constexpr uint32_t kGroupQpns = 0x1000;   // from one group to the next
constexpr uint32_t kPeerQpns = 0x100;     // from one host to the next, which have one for each peer

// The low bytes of the value.
void PutElement(std::vector<uint8_t>& bytes, uint64_t at, uint64_t value, size_t element_bytes) {
  std::memcpy(bytes.data() + at * element_bytes, &value, element_bytes);
}

// What changes nothing.
uint64_t NeutralOf(ReduceOp op) { return op == ReduceOp::kProduct ? 1 : 0; }

uint64_t Combine(ReduceOp op, uint64_t a, uint64_t b) {
  if (op == ReduceOp::kProduct) return a * b;
  return op == ReduceOp::kBitXor ? a ^ b : a + b;
}

}  // namespace

System::System(const SystemConfig& config) : config_(config), ports_(static_cast<size_t>(nodes())) {
  if (by_hosts()) by_multicast() ? LayOutMulticast() : LayOutHosts();
  for (int group = 0; !by_hosts() && group < groups(); ++group) LayOutTree(group);
  if (has_pool()) LayOutServers();
}

std::string System::NodeName(int node) const {
  if (is_server(node)) return fmt::format("server{}", node - hosts_end());
  if (is_host(node) && groups() > 1)
    return fmt::format("host{} of group {}", RankAt(node), GroupAt(node) + 1);
  if (is_host(node)) return fmt::format("host{}", node - switches());
  return node == 0 ? "root" : fmt::format("switch{}", node);
}

size_t System::ElementBytes() const {
  // Of all calls that have elements; of barriers alone it does not matter.
  for (const ControlHeader& header : config_.calls) {
    if (header.type != DataType::kNone) return epic::ElementBytes(header.type);
  }
  return 4;
}

// A rank's contributions lie in its own lane: every hosts()-th element of a packet, others change nothing. So
// a result shows who is in it and how often, and what it is when ranks change places follows from it
// (Relabelled). Different for every call, part, packet and element of the lane, as far as the type has bits.
uint64_t System::Element(size_t call, uint32_t rank, int64_t part, uint64_t at, int group) const {
  const uint64_t elements = ElementsOfPacket();
  const uint64_t in_packet = at % elements;
  const auto lanes = static_cast<uint64_t>(hosts());
  if (in_packet % lanes != rank || in_packet >= elements / lanes * lanes)
    return NeutralOf(config_.calls[call].op);
  const uint64_t place = at / elements << 8 | in_packet / lanes;
  uint64_t x = place + (static_cast<uint64_t>(group) << 32) + (static_cast<uint64_t>(part) << 40) +
               (uint64_t{call} << 48) + (uint64_t{config_.life} << 56) + 1;
  x = (x ^ (x >> 29)) * 0x9e3779b97f4a7c15u;
  // Odd and of 24 bits; the square of what is 3 modulo 8 differs from it in every type.
  const uint64_t value = x >> 40 | 1;
  // Of 16-bit numbers with a fraction these bits are a small one, and none that is infinite or none.
  const DataType type = config_.calls[call].type;
  if (type == DataType::kFloat16 || type == DataType::kBFloat16) return (value & 0x1fff) | 0x2000;
  return config_.calls[call].op == ReduceOp::kProduct ? (value & ~uint64_t{7}) | 3 : value;
}

void System::Relabel(std::span<const int> to, std::span<uint8_t> data) const {
  const auto lanes = static_cast<size_t>(hosts());
  const size_t bytes = ElementBytes();
  std::vector<uint8_t> group(lanes * bytes);
  for (size_t packet = 0; packet + kPathMtu <= data.size(); packet += kPathMtu) {
    for (size_t first = 0; first + lanes <= ElementsOfPacket(); first += lanes) {
      uint8_t* const elements = data.data() + packet + first * bytes;
      std::memcpy(group.data(), elements, group.size());
      for (size_t r = 0; r < lanes; ++r) {
        const auto lane = static_cast<size_t>(to[static_cast<size_t>(switches()) + r] - switches());
        std::memcpy(elements + lane * bytes, group.data() + r * bytes, bytes);
      }
    }
  }
}

std::vector<uint8_t> System::Reduced(size_t call, int64_t part, int64_t packet,
                                     std::span<const uint32_t> ranks, int group) const {
  std::vector<uint8_t> bytes(kPathMtu);
  const uint64_t elements = ElementsOfPacket();
  for (uint64_t i = 0; i < elements; ++i) {
    const uint64_t at = static_cast<uint64_t>(packet) * elements + i;
    PutElement(bytes, i, ElementOf(call, part, at, ranks, group), ElementBytes());
  }
  return bytes;
}

uint64_t System::ElementOf(size_t call, int64_t part, uint64_t at, std::span<const uint32_t> ranks,
                           int group) const {
  // Ranks whose calls differ have nothing in common.
  const ControlHeader& header = CallOf(call, ranks.empty() ? 0 : ranks.front());
  uint64_t value = NeutralOf(header.op);
  for (const uint32_t rank : ranks) {
    if (Reduces(header.collective) || rank == PartRoot(header, part))
      value = Combine(header.op, value, Element(call, rank, part, at, group));
  }
  return value;
}

std::vector<uint8_t> System::SendBuffer(size_t call, uint32_t rank, int group) const {
  const ControlHeader& header = CallOf(call, rank);
  std::vector<uint8_t> bytes(SendBytes(header, rank));
  const uint64_t elements = bytes.size() / ElementBytes();
  for (uint64_t i = 0; i < elements; ++i) {
    auto part = static_cast<int64_t>(i / header.count);
    if (!Reduces(header.collective) && HasPartPerRank(header.collective)) part = rank;
    PutElement(bytes, i, Element(call, rank, part, i % header.count, group), ElementBytes());
  }
  return bytes;
}

std::vector<uint8_t> System::Expected(size_t call, uint32_t rank, int group) const {
  const ControlHeader& header = config_.calls[call];
  std::vector<uint32_t> all(static_cast<size_t>(hosts()));
  std::iota(all.begin(), all.end(), 0u);
  std::vector<uint8_t> bytes;
  bytes.resize(RecvBytes(header, rank));
  const bool own_part = header.collective == Collective::kReduceScatter;
  for (uint64_t i = 0; i < bytes.size() / ElementBytes(); ++i) {
    const int64_t part = own_part ? rank : static_cast<int64_t>(i / header.count);
    PutElement(bytes, i, ElementOf(call, part, i % header.count, all, group), ElementBytes());
  }
  return bytes;
}

Qpn System::QpnAt(int node, int neighbour, int group) const {
  if (by_hosts())
    return Qpn{kLowerQpn + static_cast<uint32_t>(node) * kPeerQpns + static_cast<uint32_t>(neighbour) +
               static_cast<uint32_t>(group) * kGroupQpns};
  // Of the two the child has the higher number.
  const bool upper = node < neighbour;
  const uint32_t life = config_.reuse_qpns ? 0 : config_.life * kLifeQpns;
  return Qpn{static_cast<uint32_t>(std::max(node, neighbour)) + (upper ? kUpperQpn : kLowerQpn) + life +
             static_cast<uint32_t>(group) * kGroupQpns};
}

// Another one's: that of its pair, or of the first one where their number is odd.
Ipv4 System::SwitchAddressAt(int host) const {
  const int parent = EdgeAt(host, 0).parent;
  if (!FindMode(config_.mode.At(static_cast<size_t>(parent)))->bears_hosts) return AddressOf(parent);
  const auto rank = static_cast<int>(RankAt(host));
  const int other = (rank ^ 1) < hosts() ? rank ^ 1 : 0;
  return AddressOf(host - rank + other);
}

// Between two switches, where each group has an edge, by the queue pair. Hosts have one port, by which also
// comes what bears the address of another one.
PortId System::PortOf(int node, const roce::Packet& packet) const {
  if (!by_hosts() && node >= switches()) return 0;
  for (PortId port = 0;; ++port) {
    const Edge& edge = EdgeAt(node, port);
    const int peer = edge.child == node ? edge.parent : edge.child;
    if (AddressOf(peer) != packet.src_ip) continue;
    if ((groups() == 1 && !by_multicast()) || QpnAtPeer(peer, edge) == packet.bth.dest_qp) return port;
  }
}

engine::GroupConfig System::GroupOf(int node, int group_number) const {
  uint32_t slots = 1;
  while (slots < 2 * config_.message_packets * config_.window_messages) slots *= 2;
  engine::GroupConfig group{{.group_id = GroupId(group_number),
                             .name = {},
                             .mode = config_.mode.At(static_cast<size_t>(node)),
                             .world_size = static_cast<uint32_t>(hosts()),
                             .path_mtu = kPathMtu,
                             .message_packets = config_.message_packets,
                             .window_messages = config_.window_messages,
                             .slots = slots,
                             .prompt_ns = 20 * kMillisecond}};
  for (PortId port = 0; port < ports(node); ++port) {
    const Edge& edge = EdgeAt(node, port);
    if (edge.group != group_number) continue;
    const bool below = edge.parent == node;
    const int peer = below ? edge.child : edge.parent;
    const Psn psn(config_.first_psn);
    engine::EndpointConfig end{.local_qpn = QpnAt(node, peer, group_number),
                               .remote_ip = AddressOf(peer),
                               .remote_qpn = QpnAt(peer, node, group_number),
                               .port = port,
                               .in_psn = psn,
                               .out_psn = psn,
                               .is_host = is_host(edge.child),
                               .ranks = {}};
    if (!below) {
      group.parent = end;
      continue;
    }
    if (edge.kind == Edge::Kind::kLeg) {
      group.server = end;
      continue;
    }
    if (end.is_host && SwitchAddressAt(peer) != AddressOf(node)) end.borne_ip = SwitchAddressAt(peer);
    end.ranks = edge.ranks;
    group.children.push_back(end);
  }
  if (groups() == 1 || has_pool()) return group;
  group.block = kBlock;
  group.block_bytes = engine::ArenaBytes(group);
  return group;
}

engine::PoolConfig System::PoolOf() const {
  constexpr uint32_t kSpares = 8;
  return {.bytes = size_t{2} * kPathMtu * (config_.pool.places + kSpares),
          .buffer_bytes = 2 * kPathMtu,
          .policy = config_.pool.policy,
          .most_places = config_.pool.places};
}

Server System::ServerOf(int node) const {
  const engine::GroupConfig group = GroupOf(0, node - hosts_end());
  engine::EndpointConfig end = *group.server;
  std::swap(end.local_qpn, end.remote_qpn);
  end.remote_ip = AddressOf(0);
  constexpr uint32_t kReceives = 16;
  return {.qp = engine::Connect(group, end, AddressOf(node),
                                {.sends = Server::kSlots - 1, .receives = kReceives}, {}),
          .sums = fallback::Sums({.world_size = group.world_size,
                                  .path_mtu = group.path_mtu,
                                  .message_packets = group.message_packets,
                                  .slots = group.slots})};
}

sim::HostConfig System::HostOf(int node) const {
  const int parent = EdgeAt(node, 0).parent;
  const int group = GroupAt(node);
  return {.local_ip = AddressOf(node),
          .local_qpn = QpnAt(node, parent, group),
          .remote_ip = SwitchAddressAt(node),
          .remote_qpn = QpnAt(parent, node, group),
          .send_psn = Psn(config_.first_psn),
          .recv_psn = Psn(config_.first_psn),
          .path_mtu = kPathMtu,
          .message_packets = config_.message_packets,
          .window_messages = config_.window_messages,
          .rank = RankAt(node),
          .world_size = static_cast<uint32_t>(hosts()),
          .bounce_bytes = config_.bounces ? BounceBytes() : 0,
          .inline_bytes = InlineBytes(),
          .asks = asks(),
          .pulled = ReadsHosts(config_.mode.At(static_cast<size_t>(parent))),
          .invocation_bytes = config_.invocation_bytes};
}

uint64_t System::InlineBytes() const {
  uint64_t most = 0;
  for (const ControlHeader& header : config_.calls)
    most = std::max(most, IsInlined(header) ? CallBytes(header) : 0);
  return most;
}

uint64_t System::BounceBytes() const {
  uint64_t most = 0;
  for (const ControlHeader& header : config_.calls) {
    for (uint32_t rank = 0; rank < static_cast<uint32_t>(hosts()); ++rank)
      most = std::max(most, SendBytes(header, rank) + RecvBytes(header, rank));
  }
  return most;
}

std::optional<Breach> System::JudgeAck(const roce::Packet& packet, int64_t taken) const {
  const int64_t at = packet.bth.psn.DistanceFrom(Psn(config_.first_psn));
  const int64_t named = roce::IsAck(packet.aeth.syndrome) ? at + 1 : at;
  if (!Judges(Invariant::kAcknowledged) || (named >= 0 && named <= taken)) return {};
  return Breach{Invariant::kAcknowledged,
                fmt::format("acknowledges {} packets, of which {} have come", named, taken)};
}

// What a host sends, or sends again, is what lies there now: where its result shares the bytes, that result
// as soon as it has come, and its contribution until then.
const Carried& System::ContentsAtHost(const Edge& edge, const Carried& sent, int64_t taken) const {
  if (!sent.shares_bytes) return sent;
  const auto result = std::ranges::find(edge.down, sent.index, &Carried::index);
  return result != edge.down.end() && result - edge.down.begin() < taken ? *result : sent;
}

std::optional<Breach> System::JudgeData(int node, PortId port, const roce::Packet& packet,
                                        int64_t taken) const {
  const Edge& edge = EdgeAt(node, port);
  if (IsPulled(edge)) return JudgePulled(node, edge, packet);
  const bool up = edge.child == node;
  const std::vector<Carried>& carried = up ? edge.up : edge.down;
  const int64_t at = packet.bth.psn.DistanceFrom(Psn(config_.first_psn));
  if (at < 0 || at >= static_cast<int64_t>(carried.size())) {
    // What it should be is nowhere said.
    if (!Judges(Invariant::kPlace)) return {};
    return Breach{Invariant::kPlace,
                  fmt::format("has the PSN of packet {} in a direction that carries {}", at, carried.size())};
  }
  const Carried& want = carried[static_cast<size_t>(at)];
  if (Judges(Invariant::kOpcode) && (packet.bth.opcode != want.opcode || packet.imm != want.imm)) {
    return Breach{Invariant::kOpcode,
                  fmt::format("has the opcode or the immediate data of another index than {}", want.index)};
  }
  const Carried& contents = up && is_host(node) ? ContentsAtHost(edge, want, taken) : want;
  const bool busy = !want.busy.empty() && std::ranges::equal(packet.payload, want.busy);
  if (Judges(Invariant::kPayload) && !busy && !std::ranges::equal(packet.payload, contents.payload)) {
    const char* const what = by_hosts()                 ? "the one"
                             : up && &contents == &want ? "the reduction of the ranks below"
                                                        : "the result";
    return Breach{Invariant::kPayload,
                  fmt::format("carries a payload that is not {} for index {}", what, want.index)};
  }
  return {};
}

}  // namespace epic::check
