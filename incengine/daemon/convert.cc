#include "incengine/daemon/convert.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace epic::daemon {
namespace {

Status Invalid(const std::string& field, const std::string& problem) {
  return MakeStatus(StatusCode::kInvalidArgument, fmt::format("{}: {}", field, problem));
}

StatusOr<PortId> PortFromName(const std::string& name, const PortNames& ports, const std::string& field) {
  const auto it = std::find(ports.begin(), ports.end(), name);
  if (it == ports.end()) {
    return Invalid(field,
                   fmt::format("this switch has no port \"{}\" (it has {})", name, fmt::join(ports, ", ")));
  }
  return static_cast<PortId>(it - ports.begin());
}

StatusOr<roce::MacAddress> MacFromBytes(const std::string& bytes, const std::string& field) {
  roce::MacAddress mac;
  if (bytes.size() != mac.size()) return Invalid(field, fmt::format("has {} bytes, not 6", bytes.size()));
  std::copy(bytes.begin(), bytes.end(), mac.begin());
  return mac;
}

Status CheckBits24(uint32_t value, const std::string& field) {
  return value <= Psn::kMask ? Status() : Invalid(field, fmt::format("{:#x} has more than 24 bits", value));
}

StatusOr<engine::EndpointConfig> FromProto(const proto::EndpointConfig& message, const PortNames& ports,
                                           const std::string& field) {
  const std::pair<uint32_t, const char*> bits24[] = {{message.local_qpn(), ".local_qpn"},
                                                     {message.remote_qpn(), ".remote_qpn"},
                                                     {message.in_psn(), ".in_psn"},
                                                     {message.out_psn(), ".out_psn"}};
  for (const auto& [value, name] : bits24) {
    if (Status status = CheckBits24(value, field + name); !status.ok()) return status;
  }
  const auto mac = MacFromBytes(message.remote_mac(), field + ".remote_mac");
  if (!mac.ok()) return mac.status();
  const auto port = PortFromName(message.port(), ports, field + ".port");
  if (!port.ok()) return port.status();
  PortId ingress_port = kNoPort;
  if (!message.ingress_port().empty()) {
    const auto named = PortFromName(message.ingress_port(), ports, field + ".ingress_port");
    if (!named.ok()) return named.status();
    ingress_port = *named;
  }
  return engine::EndpointConfig{.local_qpn = Qpn{message.local_qpn()},
                                .remote_ip = Ipv4{message.remote_ip()},
                                .remote_qpn = Qpn{message.remote_qpn()},
                                .borne_ip = Ipv4{message.borne_ip()},
                                .remote_mac = *mac,
                                .port = *port,
                                .ingress_port = ingress_port,
                                .in_psn = Psn(message.in_psn()),
                                .out_psn = Psn(message.out_psn()),
                                .is_host = message.is_host(),
                                .super_frames = message.super_frames(),
                                .ranks = {message.ranks().begin(), message.ranks().end()}};
}

const std::string& PortName(PortId port, const PortNames& ports) { return ports.at(port); }

proto::RefusalKind KindOf(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalidArgument:
      return proto::REFUSAL_CONFIG;
    case StatusCode::kAlreadyExists:
      return proto::REFUSAL_IN_USE;
    case StatusCode::kResourceExhausted:
      return proto::REFUSAL_MEMORY;
    case StatusCode::kUnimplemented:
      return proto::REFUSAL_MODE;
    default:
      return proto::REFUSAL_UNSPECIFIED;
  }
}

}  // namespace

StatusOr<engine::GroupConfig> FromProto(const proto::GroupConfig& message, const PortNames& ports) {
  if (!ModeOfNumber(message.mode())) {
    return Invalid("mode", fmt::format("{} is none of {}", static_cast<int>(message.mode()), ModeChoice()));
  }
  // A prompt_ns that is beyond its range is refused by Validate.
  engine::GroupConfig config{ParametersOf(message)};
  if (message.has_parent()) {
    auto parent = FromProto(message.parent(), ports, "parent");
    if (!parent.ok()) return parent.status();
    config.parent = *std::move(parent);
  }
  for (int i = 0; i < message.children_size(); ++i) {
    auto child = FromProto(message.children(i), ports, fmt::format("children[{}]", i));
    if (!child.ok()) return child.status();
    config.children.push_back(*std::move(child));
  }
  if (message.has_server()) {
    auto server = FromProto(message.server(), ports, "server");
    if (!server.ok()) return server.status();
    config.server = *std::move(server);
  }
  return config;
}

StatusOr<engine::ForwardingTable> FromProto(const proto::ForwardingTable& message, const PortNames& ports) {
  engine::ForwardingTable table;
  for (int i = 0; i < message.entries_size(); ++i) {
    const proto::ForwardingEntry& entry = message.entries(i);
    const std::string field = fmt::format("entries[{}]", i);
    const auto mac = MacFromBytes(entry.mac(), field + ".mac");
    if (!mac.ok()) return mac.status();
    const auto port = PortFromName(entry.port(), ports, field + ".port");
    if (!port.ok()) return port.status();
    engine::ForwardingEntry& out = table.entries.emplace_back();
    out.mac = *mac;
    out.port = *port;
    if (entry.ip() != 0) out.ip = Ipv4{entry.ip()};
    out.source_guard = entry.source_guard();
  }
  for (int i = 0; i < message.flood_ports_size(); ++i) {
    const auto port = PortFromName(message.flood_ports(i), ports, fmt::format("flood_ports[{}]", i));
    if (!port.ok()) return port.status();
    table.flood_ports.push_back(*port);
  }
  for (int i = 0; i < message.groups_size(); ++i) {
    const std::string field = fmt::format("groups[{}]", i);
    const auto mac = MacFromBytes(message.groups(i).mac(), field + ".mac");
    if (!mac.ok()) return mac.status();
    engine::GroupPorts& group = table.groups.emplace_back(engine::GroupPorts{.mac = *mac, .ports = {}});
    for (int p = 0; p < message.groups(i).ports_size(); ++p) {
      const auto port =
          PortFromName(message.groups(i).ports(p), ports, fmt::format("{}.ports[{}]", field, p));
      if (!port.ok()) return port.status();
      group.ports.push_back(*port);
    }
  }
  return table;
}

StatusOr<proto::InstallReply> Refused(const proto::InstallRequest& request, const Status& status,
                                      const engine::Shortage& shortage) {
  const proto::RefusalKind kind = KindOf(status.code());
  if (!request.takes_refusal() || kind == proto::REFUSAL_UNSPECIFIED) return status;
  proto::InstallReply reply;
  proto::Refusal& refusal = *reply.mutable_refusal();
  refusal.set_kind(kind);
  refusal.set_message(std::string(status.message()));
  refusal.set_needed_bytes(shortage.needed);
  refusal.set_left_bytes(shortage.left);
  refusal.set_all_bytes(shortage.all);
  return reply;
}

std::string MacBytes(const roce::MacAddress& mac) { return {mac.begin(), mac.end()}; }

StatusOr<engine::ProbeTarget> FromProto(const proto::ProbeRequest& message, const PortNames& ports) {
  if (message.ip() == 0) return Invalid("ip", "is missing");
  const auto mac = MacFromBytes(message.mac(), "mac");
  if (!mac.ok()) return mac.status();
  const auto port = PortFromName(message.port(), ports, "port");
  if (!port.ok()) return port.status();
  return engine::ProbeTarget{
      .ip = Ipv4{message.ip()}, .mac = *mac, .port = *port, .by_arp = message.by_arp()};
}

proto::EndpointConfig ToProto(const engine::EndpointConfig& config, const PortNames& ports) {
  proto::EndpointConfig message;
  message.set_local_qpn(Raw(config.local_qpn));
  message.set_remote_ip(Raw(config.remote_ip));
  message.set_remote_qpn(Raw(config.remote_qpn));
  message.set_remote_mac(MacBytes(config.remote_mac));
  message.set_port(PortName(config.port, ports));
  if (config.ingress_port != kNoPort) message.set_ingress_port(PortName(config.ingress_port, ports));
  message.set_in_psn(config.in_psn.raw());
  message.set_out_psn(config.out_psn.raw());
  message.set_is_host(config.is_host);
  message.set_super_frames(config.super_frames);
  message.set_borne_ip(Raw(config.borne_ip));
  message.mutable_ranks()->Assign(config.ranks.begin(), config.ranks.end());
  return message;
}

proto::GroupConfig ToProto(const engine::GroupConfig& config, const PortNames& ports) {
  proto::GroupConfig message;
  SetParameters(config, &message);
  if (config.parent) *message.mutable_parent() = ToProto(*config.parent, ports);
  for (const auto& child : config.children) *message.add_children() = ToProto(child, ports);
  if (config.server) *message.mutable_server() = ToProto(*config.server, ports);
  return message;
}

proto::ForwardingTable ToProto(const engine::ForwardingTable& table, const PortNames& ports) {
  proto::ForwardingTable message;
  for (const auto& entry : table.entries) {
    proto::ForwardingEntry& out = *message.add_entries();
    out.set_mac(MacBytes(entry.mac));
    if (entry.ip) out.set_ip(Raw(*entry.ip));
    out.set_port(PortName(entry.port, ports));
    out.set_source_guard(entry.source_guard);
  }
  for (const PortId port : table.flood_ports) message.add_flood_ports(PortName(port, ports));
  for (const engine::GroupPorts& group : table.groups) {
    proto::GroupPorts& out = *message.add_groups();
    out.set_mac(MacBytes(group.mac));
    for (const PortId port : group.ports) out.add_ports(PortName(port, ports));
  }
  return message;
}

proto::Neighbour ToProto(const engine::Neighbour& neighbour) {
  static_assert(static_cast<int>(engine::NeighbourKind::kBridge) == proto::NEIGHBOUR_BRIDGE);
  static_assert(static_cast<int>(engine::HeardBy::kArp) == proto::HEARD_BY_ARP);
  proto::Neighbour message;
  message.set_kind(static_cast<proto::NeighbourKind>(neighbour.kind));
  message.set_name(neighbour.name);
  message.set_port(neighbour.port);
  if (neighbour.ip) message.set_ip(Raw(*neighbour.ip));
  message.set_mac(MacBytes(neighbour.mac));
  message.set_version(neighbour.version);
  message.set_heard_by(static_cast<proto::HeardBy>(neighbour.heard_by));
  return message;
}

proto::RefusedEndpoint ToProto(const engine::RefusedEndpoint& endpoint, const PortNames& ports) {
  const engine::Refusals& refusals = endpoint.refusals;
  proto::RefusedEndpoint message;
  message.set_group_id(endpoint.group_id);
  message.set_generation(endpoint.generation);
  message.set_local_qpn(Raw(endpoint.local_qpn));
  message.set_reason(engine::Name(refusals.reason));
  message.set_port(PortName(refusals.port, ports));
  if (refusals.source.is_v4()) message.set_source(Raw(refusals.source.v4()));
  message.set_packets(refusals.packets);
  message.set_ms(static_cast<uint64_t>((refusals.last_at - refusals.first_at) / kMillisecond));
  return message;
}

proto::Pool ToProto(const engine::Pool& pool) {
  proto::Pool message;
  message.set_bytes(pool.config().bytes);
  message.set_buffer_bytes(pool.config().buffer_bytes);
  message.set_buffers(static_cast<uint32_t>(pool.buffers()));
  message.set_spare_buffers(static_cast<uint32_t>(pool.spare()));
  message.set_places(static_cast<uint32_t>(pool.places()));
  message.set_places_in_use(static_cast<uint32_t>(pool.in_use()));
  message.set_addressing(engine::Name(pool.config().addressing));
  message.set_policy(engine::Name(pool.config().policy));
  message.set_age_ns(static_cast<uint64_t>(pool.config().age));
  return message;
}

std::optional<proto::LegFailure> LegFailureOf(const engine::Engine& engine, const engine::Context& group) {
  static_assert(static_cast<int>(engine::LegFailure::kMessage) == proto::LEG_END_MESSAGE);
  static_assert(static_cast<int>(engine::LegFailure::kRefused) == proto::LEG_END_REFUSED);
  static_assert(static_cast<int>(engine::LegFailure::kOverrun) == proto::LEG_END_OVERRUN);
  if (!group.pooled || group.pooled->end == engine::LegFailure::kNone) return std::nullopt;
  proto::LegFailure message;
  message.set_why(static_cast<proto::LegEnd>(group.pooled->end));
  message.set_message(std::string(engine.LegStatus(group.config.group_id).message()));
  return message;
}

}  // namespace epic::daemon
