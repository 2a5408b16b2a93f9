#include "incengine/core/forwarding.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "roce/arp.h"
#include "roce/lldp.h"

namespace epic::engine {
namespace {

bool IsReservedGroup(const roce::MacAddress& mac) {
  if (mac == roce::kHelloMac) return true;
  return mac[0] == 0x01 && mac[1] == 0x80 && mac[2] == 0xc2 && mac[3] == 0 && mac[4] == 0 && mac[5] <= 0x0f;
}

// What is wrong with a group, as "ports[1]: is there twice"; empty if nothing is.
std::string WrongGroup(const GroupPorts& group, size_t port_count) {
  if (!roce::IsGroup(group.mac)) return "mac: is no group address";
  if (IsReservedGroup(group.mac)) return "mac: is reserved";
  if (group.mac == roce::kBroadcastMac) return "mac: is everybody's";
  std::vector<bool> seen(port_count, false);
  for (size_t i = 0; i < group.ports.size(); ++i) {
    if (group.ports[i] >= port_count) return fmt::format("ports[{}]: no such port", i);
    if (seen[group.ports[i]]) return fmt::format("ports[{}]: is there twice", i);
    seen[group.ports[i]] = true;
  }
  return {};
}

// A full table is searched for aged entries at most this often: the search costs as much as thousands of
// look-ups.
constexpr Nanos kSweepInterval = kSecond;

}  // namespace

const char* Name(ForwardDrop reason) {
  switch (reason) {
    case ForwardDrop::kUnknownUnicast:
      return "unknown_unicast";
    case ForwardDrop::kNoFloodPort:
      return "no_flood_port";
    case ForwardDrop::kBackToIngress:
      return "back_to_ingress";
    case ForwardDrop::kReservedGroup:
      return "reserved_group";
    case ForwardDrop::kBadSource:
      return "bad_source";
    case ForwardDrop::kForgedSource:
      return "forged_source";
    case ForwardDrop::kCount:
      break;
  }
  return "unknown";
}

Forwarding::Forwarding(ForwardingMode mode, size_t port_count)
    : mode_(mode),
      port_count_(port_count),
      floods_(port_count, mode == ForwardingMode::kLearning),
      guarded_(port_count, kNone),
      swept_at_(-kSweepInterval) {}

Status Forwarding::SetTable(const ForwardingTable& table) {
  std::map<roce::MacAddress, PortId> macs;
  std::map<Ipv4, size_t> ips;
  std::vector<bool> floods(port_count_, false);
  std::vector<size_t> guarded(port_count_, kNone);
  for (size_t i = 0; i < table.entries.size(); ++i) {
    const ForwardingEntry& entry = table.entries[i];
    const auto invalid = [i](const char* field, const char* problem) {
      return MakeStatus(StatusCode::kInvalidArgument, fmt::format("entries[{}].{}: {}", i, field, problem));
    };
    if (entry.port >= port_count_) return invalid("port", "no such port");
    if (roce::IsGroup(entry.mac)) return invalid("mac", "is a group address");
    if (!macs.emplace(entry.mac, entry.port).second) return invalid("mac", "is there twice");
    if (entry.ip && !ips.emplace(*entry.ip, i).second) return invalid("ip", "is there twice");
    if (!entry.source_guard) continue;
    if (guarded[entry.port] != kNone) return invalid("source_guard", "its port has another guarded host");
    guarded[entry.port] = i;
  }
  for (size_t i = 0; i < table.flood_ports.size(); ++i) {
    if (table.flood_ports[i] >= port_count_) {
      return MakeStatus(StatusCode::kInvalidArgument, fmt::format("flood_ports[{}]: no such port", i));
    }
    floods[table.flood_ports[i]] = true;
  }
  std::map<roce::MacAddress, size_t> groups;
  for (size_t i = 0; i < table.groups.size(); ++i) {
    std::string wrong = WrongGroup(table.groups[i], port_count_);
    if (wrong.empty() && !groups.emplace(table.groups[i].mac, i).second) wrong = "mac: is there twice";
    if (!wrong.empty())
      return MakeStatus(StatusCode::kInvalidArgument, fmt::format("groups[{}].{}", i, wrong));
  }
  table_ = table;
  static_ = std::move(macs);
  by_ip_ = std::move(ips);
  floods_ = std::move(floods);
  groups_ = std::move(groups);
  if (mode_ == ForwardingMode::kStatic) guarded_ = std::move(guarded);
  return {};
}

std::span<const PortId> Forwarding::Route(Nanos now, PortId ingress, const roce::MacAddress& src,
                                          const roce::MacAddress& dst, ForwardDrop* drop) {
  out_.clear();
  if (roce::IsGroup(src)) {
    *drop = ForwardDrop::kBadSource;
    return out_;
  }
  if (mode_ == ForwardingMode::kLearning) Learn(now, ingress, src);
  if (IsReservedGroup(dst)) {
    *drop = ForwardDrop::kReservedGroup;
    return out_;
  }
  if (roce::IsGroup(dst)) {
    const auto group = groups_.find(dst);
    if (group != groups_.end()) return ToGroup(ingress, table_.groups[group->second].ports, drop);
    return Flood(ingress, ForwardDrop::kNoFloodPort, drop);
  }
  const PortId port = Find(now, dst);
  if (port == ingress) {
    *drop = ForwardDrop::kBackToIngress;
    return out_;
  }
  if (port != kNoPort) {
    out_.push_back(port);
    return out_;
  }
  if (mode_ == ForwardingMode::kLearning) return Flood(ingress, ForwardDrop::kUnknownUnicast, drop);
  *drop = ForwardDrop::kUnknownUnicast;
  return out_;
}

PortId Forwarding::TablePort(const roce::MacAddress& mac) const {
  const auto it = static_.find(mac);
  return it == static_.end() ? kNoPort : it->second;
}

const ForwardingEntry* Forwarding::FindIp(Ipv4 ip) const {
  const auto it = by_ip_.find(ip);
  return it == by_ip_.end() ? nullptr : &table_.entries[it->second];
}

void Forwarding::Learn(Nanos now, PortId port, const roce::MacAddress& mac) {
  if (static_.contains(mac)) return;
  if (const auto it = learned_.find(mac); it != learned_.end()) {
    it->second = {port, now};
    return;
  }
  if (learned_.size() >= kMaxLearned && now - swept_at_ >= kSweepInterval) {
    swept_at_ = now;
    std::erase_if(learned_, [now](const auto& item) { return now - item.second.seen > kAgeing; });
  }
  if (learned_.size() >= kMaxLearned) {
    ++learn_failures_;
    return;
  }
  learned_.emplace(mac, Learned{port, now});
}

PortId Forwarding::Find(Nanos now, const roce::MacAddress& mac) const {
  if (const PortId port = TablePort(mac); port != kNoPort) return port;
  const auto it = learned_.find(mac);
  if (it == learned_.end() || now - it->second.seen > kAgeing) return kNoPort;
  return it->second.port;
}

std::span<const PortId> Forwarding::Flood(PortId ingress, ForwardDrop reason, ForwardDrop* drop) {
  if (floods_[ingress]) {
    for (PortId port = 0; port < port_count_; ++port) {
      if (floods_[port] && port != ingress) out_.push_back(port);
    }
  }
  if (out_.empty()) *drop = reason;
  return out_;
}

std::span<const PortId> Forwarding::ToGroup(PortId ingress, const std::vector<PortId>& ports,
                                            ForwardDrop* drop) {
  if (floods_[ingress] || std::ranges::find(ports, ingress) != ports.end()) {
    for (const PortId port : ports) {
      if (port != ingress) out_.push_back(port);
    }
  }
  if (out_.empty()) *drop = ForwardDrop::kNoFloodPort;
  return out_;
}

}  // namespace epic::engine
