#include "incengine/state/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>

#include "base/path_mtu.h"
#include "incengine/state/context.h"

namespace epic::engine {
namespace {

Status Invalid(const std::string& message) { return MakeStatus(StatusCode::kInvalidArgument, message); }

Status ValidateEndpoint(const EndpointConfig& endpoint, Mode mode, const std::string& where,
                        size_t port_count, std::set<uint32_t>* qpns) {
  if (endpoint.port >= port_count || IngressPort(endpoint) >= port_count)
    return Invalid(where + ": no such port");
  if (Raw(endpoint.local_qpn) == 0 || Raw(endpoint.local_qpn) > kQpnMask ||
      Raw(endpoint.remote_qpn) > kQpnMask) {
    return Invalid(where + ": QPN out of range");
  }
  const ModeInfo* const row = FindMode(mode);
  if (endpoint.borne_ip != Ipv4{} && (!endpoint.is_host || row == nullptr || !row->bears_hosts)) {
    return Invalid(where + ": borne_ip: a switch bears another's address only to hosts, in modes that do so");
  }
  if (!qpns->insert(Raw(endpoint.local_qpn)).second) {
    return Invalid(fmt::format("{}: local QPN {:#x} is used twice", where, Raw(endpoint.local_qpn)));
  }
  return absl::OkStatus();
}

Status ValidateRanks(const EndpointConfig& child, const std::string& where, uint32_t world_size,
                     std::set<uint32_t>* seen) {
  if (child.ranks.empty() || (child.is_host && child.ranks.size() != 1)) {
    return Invalid(where + ": a host has one rank, a switch at least one");
  }
  if (!std::is_sorted(child.ranks.begin(), child.ranks.end()))
    return Invalid(where + ": ranks not ascending");
  for (const uint32_t rank : child.ranks) {
    if (rank >= world_size) return Invalid(fmt::format("{}: rank {} is not below world_size", where, rank));
    if (!seen->insert(rank).second) return Invalid(fmt::format("{}: rank {} occurs twice", where, rank));
  }
  return absl::OkStatus();
}

// Payloads lie in the pool of one switch, to which each hop is reliable by itself, as sums that are built in
// the order of arrival.
Status ValidateServer(const GroupConfig& config, size_t port_count, std::set<uint32_t>* qpns) {
  if (!IsInPool(config.mode))
    return Invalid(fmt::format("server: not in mode {}, whose memory is its own", NumeralOf(config.mode)));
  if (config.parent || !std::ranges::all_of(config.children, &EndpointConfig::is_host))
    return Invalid("server: a group with payloads in a pool has one switch, and hosts below it");
  if (config.reproducible) return Invalid("reproducible: sums in a pool are built in the order of arrival");
  if (config.block != 0) return Invalid("block: payloads lie in a pool");
  if (config.server->is_host || !config.server->ranks.empty())
    return Invalid("server: is no host of the group, and has no ranks");
  return ValidateEndpoint(*config.server, config.mode, "server", port_count, qpns);
}

}  // namespace

Status Validate(const GroupConfig& config, size_t port_count) {
  if (config.name.size() > kMaxNameBytes) {
    return Invalid(fmt::format("name: {} bytes are more than {}", config.name.size(), kMaxNameBytes));
  }
  if (config.world_size > kMaxWorldSize) {
    return Invalid(fmt::format("world_size: {} is more than {}", config.world_size, kMaxWorldSize));
  }
  const uint32_t mtu = config.path_mtu;
  if (!IsPathMtu(mtu)) {
    return Invalid(fmt::format("path_mtu: {} is not {}", mtu, kPathMtusInWords));
  }
  if (config.message_packets == 0 || config.message_packets > kMaxSlots || config.window_messages == 0 ||
      config.window_messages > kMaxSlots) {
    return Invalid("message_packets and window_messages must be at least 1");
  }
  if (!std::has_single_bit(config.slots) || config.slots > kMaxSlots) {
    return Invalid(fmt::format("slots: {} is not a power of two up to {}", config.slots, kMaxSlots));
  }
  const uint64_t window = uint64_t{config.message_packets} * config.window_messages;
  if (config.slots < 2 * window) {
    return Invalid(fmt::format("slots: {} is less than 2MW = {}", config.slots, 2 * window));
  }
  if (!IsAccumulatorFactor(config.accumulator_mtus)) {
    return Invalid(fmt::format("accumulator_mtus: {} is not 1, 2 or 4", config.accumulator_mtus));
  }
  if (config.children.empty() || config.children.size() > kMaxChildren) {
    return Invalid(fmt::format("children: {} is not between 1 and {}", config.children.size(), kMaxChildren));
  }
  const ModeInfo* const mode = FindMode(config.mode);
  if (config.block != 0 && mode != nullptr && mode->ends_connections) {
    return Invalid(
        fmt::format("block: in mode {} a group's memory holds what the switch's queue pairs have under way, "
                    "and cannot be lent",
                    mode->numeral));
  }
  if (config.prompt_ns <= 0 || config.prompt_ns > 3600 * kSecond) return Invalid("prompt_ns: out of range");
  std::set<uint32_t> qpns;
  std::set<uint32_t> ranks;
  for (size_t i = 0; i < config.children.size(); ++i) {
    const EndpointConfig& child = config.children[i];
    const std::string where = fmt::format("children[{}]", i);
    if (Status status = ValidateEndpoint(child, config.mode, where, port_count, &qpns); !status.ok())
      return status;
    if (Status status = ValidateRanks(child, where, config.world_size, &ranks); !status.ok()) return status;
  }
  if (!config.parent && ranks.size() != config.world_size) {
    return Invalid(fmt::format("children: the root has {} of {} ranks", ranks.size(), config.world_size));
  }
  if (IsInPool(config.mode) && !config.server)
    return Invalid(fmt::format("server: a group in mode {} needs one", NumeralOf(config.mode)));
  if (!config.server && config.priority_limit != 0)
    return Invalid("priority_limit: only calls in a pool have priorities");
  if (config.server) {
    if (Status status = ValidateServer(config, port_count, &qpns); !status.ok()) return status;
  }
  if (config.parent) {
    if (config.parent->is_host) return Invalid("parent: a host cannot be a parent");
    return ValidateEndpoint(*config.parent, config.mode, "parent", port_count, &qpns);
  }
  return absl::OkStatus();
}

size_t AccumulatorRoom(const GroupConfig& config) {
  return size_t{config.accumulator_mtus} * config.path_mtu;
}

size_t SlotPayloadBytes(const GroupConfig& config) { return epic::SlotPayloadBytes(ShapeOf(config)); }

size_t UpPipeBytes(const GroupConfig& config) { return epic::UpPipeBytes(ShapeOf(config)); }

}  // namespace epic::engine
