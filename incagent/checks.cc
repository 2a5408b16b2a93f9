#include "incagent/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>
#include <string>

#include "base/path_mtu.h"
#include "base/psn.h"

namespace epic::agent {
namespace {

constexpr size_t kMacBytes = 6;

Status Invalid(const std::string& message) { return MakeStatus(StatusCode::kInvalidArgument, message); }

bool HasPort(const proto::EngineInfo& engine, const std::string& name) {
  return std::any_of(engine.ports().begin(), engine.ports().end(),
                     [&name](const proto::PortInfo& port) { return port.name() == name; });
}

Status CheckEndpoint(const proto::EndpointConfig& endpoint, const std::string& where,
                     const proto::EngineInfo& engine, std::set<uint32_t>* qpns) {
  const auto is_24_bits = [](uint32_t value) { return value <= Psn::kMask; };
  if (endpoint.local_qpn() == 0 || !is_24_bits(endpoint.local_qpn()))
    return Invalid(where + ".local_qpn: not a 24-bit QPN");
  if (!qpns->insert(endpoint.local_qpn()).second) {
    return Invalid(fmt::format("{}.local_qpn: {:#x} is used twice", where, endpoint.local_qpn()));
  }
  if (endpoint.remote_qpn() == 0 || !is_24_bits(endpoint.remote_qpn())) {
    return Invalid(where + ".remote_qpn: not a 24-bit QPN");
  }
  if (endpoint.remote_ip() == 0) return Invalid(where + ".remote_ip: missing");
  if (endpoint.remote_mac().size() != kMacBytes) return Invalid(where + ".remote_mac: not 6 bytes");
  if (!is_24_bits(endpoint.in_psn())) return Invalid(where + ".in_psn: more than 24 bits");
  if (!is_24_bits(endpoint.out_psn())) return Invalid(where + ".out_psn: more than 24 bits");
  if (!HasPort(engine, endpoint.port())) {
    return Invalid(fmt::format("{}.port: {} has no port '{}'", where, engine.name(), endpoint.port()));
  }
  if (!endpoint.ingress_port().empty() && !HasPort(engine, endpoint.ingress_port())) {
    return Invalid(
        fmt::format("{}.ingress_port: {} has no port '{}'", where, engine.name(), endpoint.ingress_port()));
  }
  return absl::OkStatus();
}

Status CheckSizes(const proto::GroupConfig& group, const proto::EngineInfo& engine) {
  const uint32_t mtu = group.path_mtu();
  if (!std::has_single_bit(mtu) || mtu < kMinPathMtu || mtu > engine.capability().max_path_mtu()) {
    return Invalid(fmt::format("path_mtu: {} is not a power of two from {} to {}", mtu, kMinPathMtu,
                               engine.capability().max_path_mtu()));
  }
  if (group.message_packets() == 0) return Invalid("message_packets: must be at least 1");
  if (group.window_messages() == 0) return Invalid("window_messages: must be at least 1");
  if (!std::has_single_bit(group.slots()))
    return Invalid(fmt::format("slots: {} is not a power of two", group.slots()));
  const uint64_t window = uint64_t{group.message_packets()} * group.window_messages();
  if (group.slots() < 2 * window)
    return Invalid(fmt::format("slots: {} is less than 2MW = {}", group.slots(), 2 * window));
  if (group.prompt_ns() == 0) return Invalid("prompt_ns: must be more than 0");
  return absl::OkStatus();
}

Status CheckRanks(const proto::EndpointConfig& child, const std::string& where, uint32_t world_size,
                  std::set<uint32_t>* seen) {
  if (child.ranks().empty() || (child.is_host() && child.ranks_size() != 1))
    return Invalid(fmt::format("{}.ranks: a host has one, a switch at least one", where));
  for (int i = 0; i < child.ranks_size(); ++i) {
    const uint32_t rank = child.ranks(i);
    if (rank >= world_size)
      return Invalid(fmt::format("{}.ranks: {} is not below the world size", where, rank));
    if (i > 0 && rank <= child.ranks(i - 1)) return Invalid(fmt::format("{}.ranks: not ascending", where));
    if (!seen->insert(rank).second) return Invalid(fmt::format("{}.ranks: {} occurs twice", where, rank));
  }
  return absl::OkStatus();
}

}  // namespace

Status CheckGroup(const proto::GroupConfig& group, const proto::EngineInfo& engine) {
  if (group.group_id() == 0) return Invalid("group_id: missing");
  const auto& modes = engine.capability().modes();
  if (group.mode() == proto::MODE_UNSPECIFIED) return Invalid("mode: missing");
  if (std::find(modes.begin(), modes.end(), group.mode()) == modes.end()) {
    return Invalid(fmt::format("mode: the engine of {} does not offer mode {}", engine.name(),
                               static_cast<int>(group.mode())));
  }
  if (group.world_size() < 2)
    return Invalid(fmt::format("world_size: {} is less than 2", group.world_size()));
  if (Status status = CheckSizes(group, engine); !status.ok()) return status;
  const auto most = static_cast<int>(engine.capability().max_children());
  if (group.children().empty() || group.children_size() > most) {
    return Invalid(fmt::format("children: {} is not between 1 and {}", group.children_size(), most));
  }
  std::set<uint32_t> qpns;
  std::set<uint32_t> ranks;
  for (int i = 0; i < group.children_size(); ++i) {
    const proto::EndpointConfig& child = group.children(i);
    const std::string where = fmt::format("children[{}]", i);
    if (Status status = CheckEndpoint(child, where, engine, &qpns); !status.ok()) return status;
    if (Status status = CheckRanks(child, where, group.world_size(), &ranks); !status.ok()) return status;
  }
  if (!group.has_parent()) return absl::OkStatus();
  if (group.parent().is_host()) return Invalid("parent.is_host: a host cannot be a parent");
  return CheckEndpoint(group.parent(), "parent", engine, &qpns);
}

Status CheckForwarding(const proto::ForwardingTable& table, const proto::EngineInfo& engine) {
  std::set<std::string> macs;
  std::set<uint32_t> addresses;
  for (int i = 0; i < table.entries_size(); ++i) {
    const proto::ForwardingEntry& entry = table.entries(i);
    if (entry.mac().size() != kMacBytes) return Invalid(fmt::format("entries[{}].mac: not 6 bytes", i));
    if (!macs.insert(entry.mac()).second) return Invalid(fmt::format("entries[{}].mac: occurs twice", i));
    if (entry.ip() != 0 && !addresses.insert(entry.ip()).second)
      return Invalid(fmt::format("entries[{}].ip: occurs twice", i));
    if (!HasPort(engine, entry.port())) {
      return Invalid(fmt::format("entries[{}].port: {} has no port '{}'", i, engine.name(), entry.port()));
    }
  }
  for (int i = 0; i < table.flood_ports_size(); ++i) {
    if (!HasPort(engine, table.flood_ports(i))) {
      return Invalid(
          fmt::format("flood_ports[{}]: {} has no port '{}'", i, engine.name(), table.flood_ports(i)));
    }
  }
  std::set<std::string> groups;
  for (int i = 0; i < table.groups_size(); ++i) {
    const proto::GroupPorts& group = table.groups(i);
    if (group.mac().size() != kMacBytes) return Invalid(fmt::format("groups[{}].mac: not 6 bytes", i));
    if (!groups.insert(group.mac()).second) return Invalid(fmt::format("groups[{}].mac: occurs twice", i));
    for (int p = 0; p < group.ports_size(); ++p) {
      if (!HasPort(engine, group.ports(p))) {
        return Invalid(
            fmt::format("groups[{}].ports[{}]: {} has no port '{}'", i, p, engine.name(), group.ports(p)));
      }
    }
  }
  return absl::OkStatus();
}

Status CheckProbe(const proto::ProbeRequest& probe, const proto::EngineInfo& engine) {
  if (probe.ip() == 0) return Invalid("ip: missing");
  if (probe.mac().size() != kMacBytes) return Invalid("mac: not 6 bytes");
  if (!HasPort(engine, probe.port())) {
    return Invalid(fmt::format("port: {} has no port '{}'", engine.name(), probe.port()));
  }
  return absl::OkStatus();
}

Status CheckLocate(const proto::LocateRequest& locate) {
  return locate.ip() == 0 ? Invalid("ip: missing") : absl::OkStatus();
}

}  // namespace epic::agent
