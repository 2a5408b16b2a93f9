#include "incmanager/hosts/host_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "incmanager/text.h"
#include "incmanager/topology.h"

namespace epic::manager {

namespace {

// By what hosts of one name are told apart.
std::string Where(const HostInfo& info) {
  return info.ports.empty() ? "without a RoCE port" : "at " + ToString(info.ports.front().ip);
}

}  // namespace

Status HostTable::Register(Nanos now, HostId host, const HostInfo& info) {
  if (!IsName(info.name))
    return MakeStatus(StatusCode::kInvalidArgument, fmt::format("name: it must be {}", kNameInWords));
  const auto known = hosts_.find(host);
  if (known != hosts_.end() && known->second.info.name != info.name) {
    return MakeStatus(StatusCode::kInvalidArgument,
                      fmt::format("name: {}, which was {} before", Shortened(info.name),
                                  Shortened(known->second.info.name)));
  }
  for (const auto& [id, other] : hosts_) {
    if (id == host) continue;
    if (other.info.name == info.name && (other.info.ports.empty() || info.ports.empty())) {
      return MakeStatus(
          StatusCode::kAlreadyExists,
          fmt::format("name: there is a host {} already, {}, and this one is {}, so that they cannot be "
                      "told apart: give it an address, or another name (inchost --name)",
                      Shortened(info.name), Where(other.info), Where(info)));
    }
    for (const HostPort& port : info.ports) {
      const auto same = std::ranges::find(other.info.ports, port.ip, &HostPort::ip);
      if (same == other.info.ports.end()) continue;
      return MakeStatus(StatusCode::kAlreadyExists,
                        fmt::format("address: {} of {} is also that of host {} ({})", ToString(port.ip),
                                    Shortened(info.name), Shortened(other.info.name), same->ifname));
    }
  }
  hosts_[host].info = info;
  hosts_[host].last_heard = now;
  return absl::OkStatus();
}

std::string HostTable::NameOf(HostId host) const {
  const HostInfo& info = hosts_.at(host).info;
  const auto shares = [&](const auto& other) {
    return other.first != host && other.second.info.name == info.name;
  };
  const bool alone = info.ports.empty() || std::ranges::none_of(hosts_, shares);
  return alone ? Shortened(info.name)
               : fmt::format("{} ({})", Shortened(info.name), ToString(info.ports.front().ip));
}

bool HostTable::OnHeard(Nanos now, HostId host) {
  const auto found = hosts_.find(host);
  if (found == hosts_.end()) return false;
  found->second.last_heard = now;
  if (!std::exchange(found->second.silent, false)) return false;
  found->second.returns_until = now + kHeardToBreakIn;
  return true;
}

bool HostTable::MayReturn(Nanos now, HostId host) const {
  const auto found = hosts_.find(host);
  return found != hosts_.end() && now <= found->second.returns_until;
}

std::optional<uint64_t> HostTable::FindSession(HostId host, uint64_t number) const {
  const auto found = hosts_.find(host);
  if (found == hosts_.end()) return std::nullopt;
  const auto session = found->second.sessions.find(number);
  if (session == found->second.sessions.end()) return std::nullopt;
  return session->second;
}

void HostTable::AddSession(HostId host, uint64_t number, uint64_t session) {
  hosts_.at(host).sessions[number] = session;
  ranks_[session] = {host, number};
}

std::optional<HostTable::RankSession> HostTable::HostOf(uint64_t session) const {
  const auto found = ranks_.find(session);
  if (found == ranks_.end()) return std::nullopt;
  return found->second;
}

void HostTable::RemoveSession(uint64_t session) {
  const auto found = ranks_.find(session);
  if (found == ranks_.end()) return;
  hosts_.at(found->second.host).sessions.erase(found->second.number);
  ranks_.erase(found);
}

std::vector<uint64_t> HostTable::Remove(HostId host) {
  std::vector<uint64_t> gone;
  const auto found = hosts_.find(host);
  if (found == hosts_.end()) return gone;
  for (const auto& [number, session] : found->second.sessions) {
    gone.push_back(session);
    ranks_.erase(session);
  }
  hosts_.erase(found);
  return gone;
}

std::vector<HostId> HostTable::Silent(Nanos now, const std::function<bool(HostId)>& serves) {
  std::vector<HostId> silent;
  for (auto& [id, entry] : hosts_) {
    const Nanos after = serves && serves(id) ? kLenderSilentAfter : kHostSilentAfter;
    if (now - entry.last_heard <= after || std::exchange(entry.silent, true)) continue;
    silent.push_back(id);
  }
  return silent;
}

}  // namespace epic::manager
