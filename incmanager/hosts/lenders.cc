#include "incmanager/hosts/lenders.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace epic::manager {
namespace {

constexpr char kGone[] = "its daemon (inchost) is gone";

}  // namespace

Lenders::State* Lenders::Find(HostId host) {
  for (auto& [ip, state] : states_) {
    if (state.host == host) return &state;
  }
  return nullptr;
}

Lenders::Server* Lenders::FindServer(State* state, const ServedGroup& group) {
  const auto found = state->servers.find(group.id);
  return found != state->servers.end() && found->second.generation == group.generation ? &found->second
                                                                                       : nullptr;
}

void Lenders::LoseAll(Ipv4 ip, State* state, const std::string& why, std::vector<Lost>* lost) {
  for (const auto& [id, server] : std::exchange(state->servers, {}))
    lost->push_back({.group = {id, server.generation}, .ip = ip, .why = why});
}

Lenders::Changes Lenders::OnInfo(HostId host, const std::string& name,
                                 const std::optional<FallbackOffer>& said) {
  Changes changes;
  std::optional<FallbackOffer> offer = said;
  if (offer && !offer->port_is_up) {
    const auto there = states_.find(offer->ip);
    if (there != states_.end() && there->second.host && there->second.host != host) offer.reset();
  }
  // It may have lent by another address before.
  for (auto& [ip, state] : states_) {
    if (state.host != host || (offer && offer->ip == ip)) continue;
    LoseAll(ip, &state, "it lends no more memory", &changes.lost);
    state.host.reset();
  }
  if (offer) {
    State& state = states_[offer->ip];
    const bool is_same_stream = state.host == host;
    state.host = host;
    state.name = name;
    state.bytes = offer->bytes;
    state.port_is_up = offer->port_is_up;
    for (auto at = state.servers.begin(); at != state.servers.end();) {
      Server& server = at->second;
      const ServedGroup group{at->first, server.generation};
      const bool serves = std::ranges::find(offer->served, group) != offer->served.end();
      // What one has just been asked for, or has answered, is on its way beside this.
      if (serves || is_same_stream) {
        server.away_until = kNever;
        ++at;
        continue;
      }
      changes.lost.push_back(
          {.group = group, .ip = offer->ip, .why = "its daemon (inchost) has started anew, or has ended it"});
      at = state.servers.erase(at);
    }
    for (const ServedGroup& group : offer->served) {
      if (!is_same_stream && FindServer(&state, group) == nullptr) changes.unwanted.push_back({host, group});
    }
  }
  std::erase_if(states_, [](const auto& at) { return !at.second.host && at.second.servers.empty(); });
  return changes;
}

Lenders::Changes Lenders::OnGone(Nanos now, HostId host) {
  Changes changes;
  State* const state = Find(host);
  if (state == nullptr) return changes;
  state->host.reset();
  const Ipv4 ip = std::ranges::find(states_, state, [](auto& at) { return &at.second; })->first;
  for (auto at = state->servers.begin(); at != state->servers.end();) {
    if (at->second.phase == Phase::kServing) {
      at->second.away_until = now + kBackWithin;
      ++at;
      continue;
    }
    changes.lost.push_back({.group = {at->first, at->second.generation}, .ip = ip, .why = kGone});
    at = state->servers.erase(at);
  }
  if (state->servers.empty()) states_.erase(ip);
  return changes;
}

Lenders::Changes Lenders::OnHostLost(const std::set<Ipv4>& addresses, const std::string& why) {
  Changes changes;
  for (const Ipv4 ip : addresses) {
    const auto found = states_.find(ip);
    if (found == states_.end()) continue;
    LoseAll(ip, &found->second, why, &changes.lost);
    if (!found->second.host) states_.erase(found);
  }
  return changes;
}

std::optional<HostId> Lenders::Ask(Ipv4 ip, const ServedGroup& group, const std::string& name) {
  const auto found = states_.find(ip);
  if (found == states_.end() || !found->second.host) return std::nullopt;
  const Server asked{.generation = group.generation, .name = name};
  if (!found->second.servers.try_emplace(group.id, asked).second) return std::nullopt;
  return found->second.host;
}

Lenders::Answer Lenders::OnMade(HostId host, const ServedGroup& group, bool serves) {
  State* const state = Find(host);
  Server* const server = state == nullptr ? nullptr : FindServer(state, group);
  if (server == nullptr) return Answer::kUnwanted;
  if (server->phase == Phase::kServing) return Answer::kRepeated;
  if (serves) {
    server->phase = Phase::kServing;
  } else {
    state->servers.erase(group.id);
  }
  return Answer::kTaken;
}

std::optional<Lenders::Lost> Lenders::OnEnded(HostId host, const ServedGroup& group, const std::string& field,
                                              const std::string& message) {
  for (auto& [ip, state] : states_) {
    if (state.host != host || FindServer(&state, group) == nullptr) continue;
    state.servers.erase(group.id);
    const std::string how = field.empty() ? message : fmt::format("{} (field {})", message, field);
    return Lost{.group = group, .ip = ip, .why = how};
  }
  return std::nullopt;
}

bool Lenders::Has(const ServedGroup& group) const {
  return std::ranges::any_of(states_, [&group](const auto& at) {
    const auto found = at.second.servers.find(group.id);
    return found != at.second.servers.end() && found->second.generation == group.generation;
  });
}

std::optional<HostId> Lenders::Remove(const ServedGroup& group) {
  for (auto& [ip, state] : states_) {
    if (FindServer(&state, group) == nullptr) continue;
    state.servers.erase(group.id);
    const std::optional<HostId> host = state.host;
    if (!host && state.servers.empty()) states_.erase(ip);
    return host;
  }
  return std::nullopt;
}

void Lenders::Resume(Ipv4 ip, const ServedGroup& group, const std::string& name, Nanos until) {
  State& state = states_[ip];
  state.servers[group.id] = {.generation = group.generation,
                             .name = name,
                             .phase = Phase::kServing,
                             .away_until = state.host ? kNever : until};
}

std::vector<Lenders::Lost> Lenders::Tick(Nanos now) {
  std::vector<Lost> lost;
  for (auto& [ip, state] : states_) {
    for (auto at = state.servers.begin(); at != state.servers.end();) {
      if (at->second.away_until > now) {
        ++at;
        continue;
      }
      lost.push_back({.group = {at->first, at->second.generation}, .ip = ip, .why = kGone});
      at = state.servers.erase(at);
    }
  }
  std::erase_if(states_, [](const auto& at) { return !at.second.host && at.second.servers.empty(); });
  return lost;
}

void Lenders::OnStoodStill(Nanos duration) {
  for (auto& [ip, state] : states_) {
    for (auto& [id, server] : state.servers) {
      if (server.away_until != kNever) server.away_until += duration;
    }
  }
}

std::vector<Lenders::Lender> Lenders::List() const {
  std::vector<Lender> all;
  for (const auto& [ip, state] : states_) {
    if (!state.host) continue;
    Lender& lender = all.emplace_back(Lender{.host = *state.host,
                                             .ip = ip,
                                             .name = state.name,
                                             .bytes = state.bytes,
                                             .port_is_up = state.port_is_up,
                                             .groups = {}});
    for (const auto& [id, server] : state.servers) {
      lender.served.push_back({id, server.generation});
      lender.groups.push_back(server.name);
    }
  }
  return all;
}

bool Lenders::Serves(HostId host) const {
  return std::ranges::any_of(
      states_, [host](const auto& at) { return at.second.host == host && !at.second.servers.empty(); });
}

std::optional<Ipv4> Lenders::AddressOf(HostId host) const {
  const auto found =
      std::ranges::find(states_, std::optional(host), [](const auto& at) { return at.second.host; });
  return found == states_.end() ? std::nullopt : std::optional(found->first);
}

}  // namespace epic::manager
