#include "incengine/core/neighbours.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace epic::engine {
namespace {

// Of a port. Hellos: kMaxByLldp switches that say it to two addresses each second.
constexpr uint32_t kHellosAtOnce = 64;
constexpr Nanos kPerHello = kSecond / 64;
constexpr uint32_t kArpsAtOnce = 10;
constexpr Nanos kPerArp = kSecond / 10;
constexpr uint32_t kLocatesAtOnce = 20;
constexpr Nanos kPerLocate = kSecond / 10;

// What others say is shown and sent on as text, whatever it is.
std::string Printable(std::string_view text) {
  std::string out(text.substr(0, roce::kMaxLldpText));
  for (char& c : out) {
    if (c < ' ' || c > '~') c = '?';
  }
  return out;
}

bool IsUnicast(Ipv4 ip) {
  const uint32_t first = Raw(ip) >> 24;
  return first != 0 && first != 127 && first < 224;
}

// Nobody has a group's address, or none.
bool IsStation(const roce::MacAddress& mac) { return !roce::IsGroup(mac) && mac != roce::MacAddress{}; }

std::string_view BytesOf(const roce::MacAddress& mac) {
  return {reinterpret_cast<const char*>(mac.data()), mac.size()};
}

std::string PortName(const roce::Lldp& lldp) {
  const bool is_text =
      lldp.port_kind == roce::PortKind::kInterface || lldp.port_kind == roce::PortKind::kLocal;
  if (is_text) return Printable(lldp.port);
  return Printable(lldp.port_description.value_or(""));
}

Neighbour NeighbourOf(const roce::Lldp& lldp) {
  Neighbour out{.name = Printable(lldp.system_name.value_or("")),
                .port = PortName(lldp),
                .ip = lldp.management,
                .mac = lldp.src,
                .version = Printable(lldp.version)};
  if (lldp.role == roce::EpicRole::kSwitch) {
    out.kind = NeighbourKind::kSwitch;
  } else {
    // Whoever does not say what he does is a host.
    const bool bridges =
        lldp.capabilities && (lldp.capabilities->enabled & roce::kCapabilityBridge) != 0 && !lldp.role;
    out.kind = bridges ? NeighbourKind::kBridge : NeighbourKind::kHost;
  }
  return out;
}

}  // namespace

const char* Name(HelloCount what) {
  switch (what) {
    case HelloCount::kMalformed:
      return "malformed";
    case HelloCount::kFromItself:
      return "from_itself";
    case HelloCount::kOtherSource:
      return "other_source";
    case HelloCount::kBeyondBound:
      return "beyond_bound";
    case HelloCount::kBeyondRate:
      return "beyond_rate";
    case HelloCount::kSecondSwitch:
      return "second_switch";
    case HelloCount::kArpBeyondRate:
      return "arp_beyond_rate";
    case HelloCount::kCount:
      break;
  }
  return "unknown";
}

// A virtual clock that each taking moves on by an interval; it may run ahead by as many as go at once.
bool Neighbours::Bucket::Take(Nanos now, Nanos interval, uint32_t most) {
  const Nanos begin = std::max(full_at, now);
  if (begin - now > interval * (static_cast<Nanos>(most) - 1)) return false;
  full_at = begin + interval;
  return true;
}

Neighbours::Neighbours(HelloIdentity identity, const roce::MacAddress& mac, Ipv4 address, size_t port_count)
    : identity_(std::move(identity)), mac_(mac), address_(address), ports_(port_count) {
  EPIC_CHECK(identity_.port_names.empty() || identity_.port_names.size() == port_count);
  for (std::string* text : {&identity_.name, &identity_.version}) *text = Printable(*text);
  for (std::string& name : identity_.port_names) name = Printable(name);
}

bool Neighbours::OnPort(Nanos now, PortId id, bool up) {
  Port& port = ports_[id];
  if (port.up == up) return false;
  port.up = up;
  port.up_since = now;
  const bool changed = !port.heard.empty() || !port.hosts.empty();
  port.heard.clear();
  port.hosts.clear();
  NoteSwitches(&port);
  return changed;
}

void Neighbours::NoteSwitches(Port* port) {
  port->has_switch = port->bridged_switch = false;
  for (const auto& [key, heard] : port->heard) {
    if (heard.neighbour.kind != NeighbourKind::kSwitch) continue;
    port->has_switch = true;
    port->bridged_switch |= heard.neighbour.heard_by == HeardBy::kSecondAddress;
  }
  if (port->has_switch) port->hosts.clear();  // they may be that switch's
}

bool Neighbours::OnHello(Nanos now, PortId id, std::span<const uint8_t> frame, bool* answer) {
  *answer = false;
  Port& port = ports_[id];
  if (!port.up) return false;  // it was under way when the port went down
  if (!port.hellos.Take(now, kPerHello, kHellosAtOnce)) return Count(id, HelloCount::kBeyondRate), false;
  roce::Lldp lldp;
  if (roce::ParseLldp(frame, &lldp) != roce::LldpResult::kOk) return Count(id, HelloCount::kMalformed), false;
  if (!IsStation(lldp.src)) return Count(id, HelloCount::kMalformed), false;
  const bool is_switch = lldp.role == roce::EpicRole::kSwitch;
  if (roce::ChassisMac(lldp) == mac_) return Count(id, HelloCount::kFromItself), false;
  if (is_switch && roce::ChassisMac(lldp) != lldp.src) return Count(id, HelloCount::kOtherSource), false;

  std::string key(1, static_cast<char>(lldp.chassis_kind));
  key += static_cast<char>(lldp.chassis.size());
  key += lldp.chassis;
  key += static_cast<char>(lldp.port_kind);
  key += lldp.port;
  const auto known = port.heard.find(key);
  if (lldp.ttl_s == 0) {
    if (known == port.heard.end()) return false;
    port.heard.erase(known);
    NoteSwitches(&port);
    return true;
  }
  if (known == port.heard.end() && port.heard.size() >= kMaxByLldp)
    return Count(id, HelloCount::kBeyondBound), false;
  const bool other_switch = std::ranges::any_of(port.heard, [&](const auto& entry) {
    return entry.first != key && entry.second.neighbour.kind == NeighbourKind::kSwitch;
  });
  if (is_switch && other_switch) Count(id, HelloCount::kSecondSwitch);

  Heard& heard = port.heard[key];
  const Nanos until = now + lldp.ttl_s * kSecond;
  (lldp.dst == roce::kHelloMac ? heard.by_second_until : heard.by_lldp_until) = until;
  Neighbour neighbour = NeighbourOf(lldp);
  neighbour.heard_by = heard.by_lldp_until > now ? HeardBy::kLldp : HeardBy::kSecondAddress;
  *answer = known == port.heard.end() && is_switch;
  const bool changed = heard.neighbour != neighbour;
  heard.neighbour = std::move(neighbour);
  if (changed) NoteSwitches(&port);
  return changed;
}

bool Neighbours::OnArp(Nanos now, PortId id, const roce::Arp& arp) {
  Port& port = ports_[id];
  if (!port.up || port.has_switch || now - port.up_since < kArpWait) return false;
  // 0.0.0.0 is who has no address yet (RFC 5227). Who answers for another, or says that he has this switch's
  // address, is not believed.
  if (!IsStation(arp.sender_mac) || !IsUnicast(arp.sender_ip) || arp.sender_ip == address_ ||
      arp.sender_mac != arp.src || arp.vlan)
    return false;
  const auto known = port.hosts.find(arp.sender_ip);
  if (known != port.hosts.end() && known->second.mac == arp.sender_mac) {
    known->second.seen = now;
    return false;
  }
  if (!port.arps.Take(now, kPerArp, kArpsAtOnce)) return Count(id, HelloCount::kArpBeyondRate), false;
  if (known == port.hosts.end() && port.hosts.size() >= kMaxByArp) {
    port.hosts.erase(
        std::ranges::min_element(port.hosts, {}, [](const auto& host) { return host.second.seen; }));
  }
  port.hosts[arp.sender_ip] = {arp.sender_mac, now};
  return true;
}

bool Neighbours::OnTime(Nanos now) {
  if (!standstill_.MayJudge(now, now - std::exchange(looked_at_, now))) return false;
  bool changed = false;
  for (Port& port : ports_) {
    bool here = false;
    for (auto it = port.heard.begin(); it != port.heard.end();) {
      Heard& heard = it->second;
      if (std::max(heard.by_lldp_until, heard.by_second_until) <= now) {
        it = port.heard.erase(it);
        here = true;
        continue;
      }
      if (heard.by_lldp_until <= now && heard.neighbour.heard_by == HeardBy::kLldp) {
        heard.neighbour.heard_by = HeardBy::kSecondAddress;
        here = true;
      }
      ++it;
    }
    if (here) NoteSwitches(&port);
    here |= std::erase_if(port.hosts,
                          [now](const auto& host) { return now - host.second.seen >= kArpAgeing; }) > 0;
    changed |= here;
  }
  return changed;
}

size_t Neighbours::WriteHello(PortId port, const roce::MacAddress& dst, std::span<uint8_t> out) const {
  const std::string description = "EPIC incengine " + identity_.version.substr(0, roce::kMaxLldpText / 2);
  return roce::WriteLldp(
      {.dst = dst,
       .src = mac_,
       .chassis_kind = roce::ChassisKind::kMac,
       .chassis = BytesOf(mac_),
       .port_kind = roce::PortKind::kInterface,
       .port = identity_.port_names[port],
       .ttl_s = kHoldSeconds,
       .port_description = {},
       .system_name = identity_.name,
       .system_description = description,
       .capabilities = roce::LldpCapabilities{roce::kCapabilityBridge, roce::kCapabilityBridge},
       .management = address_,
       .role = roce::EpicRole::kSwitch,
       .version = identity_.version},
      out);
}

bool Neighbours::Hears(PortId port, const roce::MacAddress& mac) const {
  return std::ranges::any_of(ports_[port].heard,
                             [&](const auto& entry) { return entry.second.neighbour.mac == mac; });
}

bool Neighbours::MayLocate(Nanos now) { return locates_.Take(now, kPerLocate, kLocatesAtOnce); }

std::vector<Neighbour> Neighbours::At(PortId id) const {
  std::vector<Neighbour> out;
  for (const auto& [key, heard] : ports_[id].heard) out.push_back(heard.neighbour);
  for (const auto& [ip, host] : ports_[id].hosts)
    out.push_back({.kind = NeighbourKind::kHost, .ip = ip, .mac = host.mac, .heard_by = HeardBy::kArp});
  return out;
}

}  // namespace epic::engine
