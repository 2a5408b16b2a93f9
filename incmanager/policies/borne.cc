#include "incmanager/policies/borne.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

namespace epic::manager {
namespace {

// A host of the group and the switch of the tree at which it hangs.
struct Hanging {
  NodeId host = kNoNode;
  NodeId at = kNoNode;
};

// Each once, in the order of their first ranks.
std::vector<Hanging> HostsOf(const Tree& tree, const std::vector<NodeId>& rank_hosts) {
  std::vector<NodeId> at(rank_hosts.size(), kNoNode);
  for (const TreeInner& inner : tree.inner) {
    for (const TreeChild& child : inner.children) {
      if (child.is_host) at[child.rank] = inner.node;
    }
  }
  std::vector<Hanging> hosts;
  for (size_t rank = 0; rank < rank_hosts.size(); ++rank) {
    if (std::ranges::find(hosts, rank_hosts[rank], &Hanging::host) == hosts.end())
      hosts.push_back({rank_hosts[rank], at[rank]});
  }
  return hosts;
}

// Two by two; of an odd number the last one is left over.
void Pair(const std::vector<NodeId>& hosts, std::map<NodeId, NodeId>* partners,
          std::vector<NodeId>* left_over) {
  for (size_t i = 0; i + 1 < hosts.size(); i += 2) {
    (*partners)[hosts[i]] = hosts[i + 1];
    (*partners)[hosts[i + 1]] = hosts[i];
  }
  if (hosts.size() % 2 != 0) left_over->push_back(hosts.back());
}

std::map<NodeId, NodeId> PartnersOf(const std::vector<Hanging>& hosts) {
  std::map<NodeId, std::vector<NodeId>> at_switch;
  for (const Hanging& h : hosts) at_switch[h.at].push_back(h.host);
  std::map<NodeId, NodeId> partners;
  std::vector<NodeId> odd, left_over, nobody;
  for (const auto& [at, there] : at_switch) Pair(there, &partners, &odd);
  for (const Hanging& h : hosts) {
    if (std::ranges::find(odd, h.host) != odd.end()) left_over.push_back(h.host);
  }
  Pair(left_over, &partners, &nobody);
  return partners;
}

class Chooser {
 public:
  Chooser(const Topology& topology, const std::vector<Forwarding>& tables, std::string_view mode)
      : topology_(topology), tables_(tables), mode_(mode) {}

  // The port of a switch by which frames from one host to another pass it; nothing if they do not, or if a
  // bridge at the port at which both are hands them over by itself.
  std::optional<std::string> PassesBy(NodeId from, NodeId to, NodeId at) const {
    const LinkEnd first = topology_.Across(topology_.AttachedEnd(from));
    const LinkEnd last = topology_.Across(topology_.AttachedEnd(to));
    if (first.node == last.node && PortAt(first) == PortAt(last)) return std::nullopt;
    const std::vector<NodeId> path = Walk(topology_, tables_, from, to);
    const auto found = std::ranges::find(path, at);
    if (found == path.begin() || found == path.end()) return std::nullopt;
    return PortAt(topology_.Across(*WayOut(topology_, tables_, *(found - 1), to)));
  }

  // The first link on the way that lets through what bears the addresses of its ends only; nothing if all let
  // others through.
  std::optional<LinkEnd> Guarded(NodeId from, NodeId to) const {
    const std::vector<NodeId> path = Walk(topology_, tables_, from, to);
    for (size_t i = 0; i + 1 < path.size(); ++i) {
      const LinkEnd out = *WayOut(topology_, tables_, path[i], to);
      if (topology_.nodes[out.node].hops[out.hop].port_security) return out;
    }
    return std::nullopt;
  }

  const std::string& NameOf(NodeId node) const { return topology_.nodes[node].name; }

  Result<Borne> Choose(const Hanging& h, NodeId partner, const std::vector<Hanging>& hosts) const {
    for (const auto& [from, to] : {std::pair{h.host, h.at}, std::pair{h.at, h.host}}) {
      const auto guarded = Guarded(from, to);
      if (!guarded) continue;
      return SwitchFailure(ErrorCode::kNoTree, NameOf(h.at),
                           fmt::format("mode {}: port security between {} and {} passes their own "
                                       "addresses only, and {} bears another host's to {}",
                                       mode_, topology_.Describe(*guarded),
                                       topology_.Describe(topology_.Across(*guarded)), NameOf(h.at),
                                       NameOf(h.host)));
    }
    std::vector<NodeId> candidates;
    if (partner != kNoNode) candidates.push_back(partner);
    for (const Hanging& other : hosts) {
      if (other.host != h.host) candidates.push_back(other.host);
    }
    for (const NodeId candidate : candidates) {
      if (auto port = PassesBy(h.host, candidate, h.at)) return Borne{candidate, *std::move(port)};
    }
    return SwitchFailure(ErrorCode::kNoTree, NameOf(h.at),
                         fmt::format("mode {}: frames from {} to {} do not pass {}", mode_, NameOf(h.host),
                                     NameOf(candidates.front()), NameOf(h.at)));
  }

 private:
  const std::string& PortAt(LinkEnd end) const { return topology_.nodes[end.node].hops[end.hop].port; }

  const Topology& topology_;
  const std::vector<Forwarding>& tables_;
  const std::string_view mode_;
};

}  // namespace

Result<std::vector<Borne>> ChooseBorne(const Topology& topology, const std::vector<Forwarding>& tables,
                                       const Tree& tree, Mode mode, const std::vector<NodeId>& rank_hosts) {
  const ModeInfo* const row = FindMode(mode);
  if (row == nullptr || !row->bears_hosts) return std::vector<Borne>{};
  const std::vector<Hanging> hosts = HostsOf(tree, rank_hosts);
  if (hosts.size() < 2)
    return Failure{ErrorCode::kNoTree, fmt::format("mode {} needs ranks on two hosts", row->name), -1, ""};
  const std::map<NodeId, NodeId> partners = PartnersOf(hosts);
  const Chooser chooser(topology, tables, row->name);
  std::map<NodeId, Borne> chosen;
  for (const Hanging& h : hosts) {
    const auto partner = partners.find(h.host);
    auto borne = chooser.Choose(h, partner == partners.end() ? kNoNode : partner->second, hosts);
    if (!borne.ok()) return borne.failure();
    chosen[h.host] = *std::move(borne);
  }
  std::vector<Borne> by_rank;
  for (const NodeId host : rank_hosts) by_rank.push_back(chosen.at(host));
  return by_rank;
}

}  // namespace epic::manager
