#include "incmanager/groups/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/psn.h"

namespace epic::manager {
namespace {

class Planner {
 public:
  Planner(const Topology& topology, const Tree& tree, const ContextPlan& common,
          const SwitchModes& switch_modes, const std::vector<JoinRequest>& ranks,
          const std::vector<Borne>& borne, const SuperFramePorts& super_frame_ports, const LowBytes& low_bytes,
          std::optional<uint32_t> start_psn, Nanos now, std::mt19937_64* random, QpnPool* qpns)
      : topology_(topology),
        tree_(tree),
        group_mode_(common.mode),
        switch_modes_(switch_modes),
        ranks_(ranks),
        borne_(borne),
        super_frame_ports_(super_frame_ports),
        low_bytes_(low_bytes),
        start_psn_(start_psn),
        now_(now),
        random_(random),
        qpns_(qpns) {
    plan_.contexts.assign(tree.inner.size(), common);
    plan_.replies.resize(ranks.size());
  }

  Result<GroupPlan> Make() {
    for (const TreeInner& inner : tree_.inner) {
      const size_t endpoints = inner.children.size() + (inner.parent == TreeInner::kNoParent ? 0 : 1) +
                               (plan_.contexts.front().server ? 1 : 0);
      const auto low_byte = low_bytes_.find(inner.node);
      const bool any = low_byte == low_bytes_.end();
      auto qpns = !borne_.empty() ? qpns_->TakeBorne(inner.node, PeersOf(inner), now_)
                  : any           ? qpns_->Take(inner.node, endpoints, now_)
                                  : qpns_->Take(inner.node, endpoints, now_, low_byte->second);
      if (!qpns) {
        GiveBackAll();
        const std::string& name = topology_.nodes[inner.node].name;
        return SwitchFailure(ErrorCode::kNoResource, name,
                             fmt::format("{} has no QPN left{}", name,
                                         any ? "" : " for the block that the group would share"));
      }
      taken_.push_back(*std::move(qpns));
    }
    for (size_t i = 0; i < tree_.inner.size(); ++i) {
      const TreeInner& inner = tree_.inner[i];
      plan_.contexts[i].node = inner.node;
      plan_.contexts[i].parent_node =
          inner.parent == TreeInner::kNoParent ? kNoNode : tree_.inner[inner.parent].node;
      SetMode(inner, &plan_.contexts[i]);
      for (const TreeChild& child : inner.children) {
        child.is_host ? ConnectHost(i, child) : ConnectSwitch(i, child);
      }
    }
    if (auto& server = plan_.contexts.front().server) {
      server->local_qpn = NextQpn(0);
      server->in_psn = NewPsn();
      server->out_psn = NewPsn();
      const TreeChild edge{.port = server->port, .ingress_port = server->ingress_port};
      server->super_frames =
          IsDirect(plan_.contexts.front().node, edge, *topology_.FindHostByAddress(server->remote_ip)) &&
          Carries(plan_.contexts.front().node, server->port);
    }
    TellEnds(topology_, &plan_);
    return std::move(plan_);
  }

 private:
  void SetMode(const TreeInner& inner, ContextPlan* context) const {
    const auto own = switch_modes_.find(inner.node);
    if (own != switch_modes_.end()) context->mode = own->second;
    BufferRequest request;
    request.mode = context->mode;
    request.reproducible = context->reproducible;
    request.rate_gbps = tree_.rate_gbps;
    request.hop_us = inner.hop_us;
    request.path_us = tree_.delay_us;
    request.children = static_cast<uint32_t>(inner.children.size());
    context->paper = BufferOfPaper(request);
  }

  uint32_t NewPsn() { return start_psn_ ? *start_psn_ : static_cast<uint32_t>((*random_)()) & Psn::kMask; }

  // The remote ends of its endpoints in the order in which QPNs are wanted of the back of a list: the
  // addresses of hosts, 0 for switches.
  std::vector<Ipv4> PeersOf(const TreeInner& inner) const {
    std::vector<Ipv4> peers;
    if (inner.parent != TreeInner::kNoParent) peers.emplace_back();
    for (const TreeChild& child : inner.children)
      peers.push_back(child.is_host ? ranks_[child.rank].ip : Ipv4{});
    std::ranges::reverse(peers);
    return peers;
  }

  void ConnectHost(size_t at, const TreeChild& planned) {
    ContextPlan& context = plan_.contexts[at];
    TreeChild child = planned;
    const Borne* const borne = borne_.empty() ? nullptr : &borne_[child.rank];
    if (borne != nullptr) child.ingress_port = borne->ingress_port;
    const uint32_t qpn = NextQpn(at);
    const JoinRequest& join = ranks_[child.rank];
    EndpointPlan endpoint;
    endpoint.local_qpn = qpn;
    endpoint.remote_ip = join.ip;
    endpoint.remote_qpn = join.qpn;
    if (borne != nullptr) endpoint.borne_ip = topology_.nodes[borne->host].address;
    endpoint.remote_mac =
        topology_.NextHopMac(context.node, child.port, *topology_.FindHostByAddress(join.ip));
    endpoint.port = child.port;
    endpoint.ingress_port = child.ingress_port;
    endpoint.in_psn = NewPsn();
    endpoint.out_psn = NewPsn();
    endpoint.is_host = true;
    const NodeId host = *topology_.FindHostByAddress(join.ip);
    endpoint.super_frames = IsDirect(context.node, child, host) &&
                            BothTake(NameOf(context.node, child.port), Carries(context.node, child.port),
                                     topology_.nodes[host].name, join.super_frames);
    endpoint.ranks = {child.rank};
    context.children.push_back(endpoint);
    plan_.replies[child.rank] = {.group_id = context.group_id,
                                 .generation = context.generation,
                                 .mode = group_mode_,
                                 .path_mtu = context.path_mtu,
                                 .message_packets = context.message_packets,
                                 .window_messages = context.window_messages,
                                 .inline_bytes = context.inline_bytes,
                                 .start_messages = context.start_messages};
  }

  void ConnectSwitch(size_t at, const TreeChild& child) {
    ContextPlan& upper = plan_.contexts[at];
    ContextPlan& lower = plan_.contexts[child.inner];
    const TreeInner& below = tree_.inner[child.inner];
    const uint32_t upper_qpn = NextQpn(at);
    const uint32_t lower_qpn = NextQpn(child.inner);
    const uint32_t up_psn = NewPsn();
    const uint32_t down_psn = NewPsn();
    EndpointPlan down{.local_qpn = upper_qpn,
                      .remote_ip = topology_.nodes[below.node].address,
                      .remote_qpn = lower_qpn,
                      .remote_mac = topology_.NextHopMac(upper.node, child.port, below.node),
                      .port = child.port,
                      .ingress_port = child.ingress_port,
                      .in_psn = up_psn,
                      .out_psn = down_psn,
                      .ranks = RanksBelow(tree_.inner[child.inner])};
    down.super_frames =
        IsDirect(upper.node, child, below.node) &&
        BothTake(NameOf(upper.node, child.port), Carries(upper.node, child.port),
                 NameOf(below.node, below.parent_port), Carries(below.node, below.parent_port));
    upper.children.push_back(down);
    lower.node = below.node;
    lower.parent = EndpointPlan{.local_qpn = lower_qpn,
                                .remote_ip = topology_.nodes[upper.node].address,
                                .remote_qpn = upper_qpn,
                                .remote_mac = topology_.NextHopMac(below.node, below.parent_port, upper.node),
                                .port = below.parent_port,
                                .ingress_port = below.parent_ingress_port,
                                .in_psn = down_psn,
                                .out_psn = up_psn,
                                .super_frames = down.super_frames};
  }

  // The edge is one link both ways, and nothing but the peer is at its other end.
  bool IsDirect(NodeId node, const TreeChild& child, NodeId peer) const {
    const std::optional<LinkEnd> end = topology_.EndAt(node, child.port);
    if (!end || child.ingress_port != child.port) return false;
    const LinkEnd other = topology_.Across(*end);
    const auto to_router = [this](LinkEnd at) {
      return topology_.nodes[at.node].hops[at.hop].next_hop_mac.has_value();
    };
    return other.node == peer && !to_router(*end) && !to_router(other);
  }

  bool Carries(NodeId node, const std::string& port) const {
    const std::optional<LinkEnd> end = topology_.EndAt(node, port);
    return end && super_frame_ports_.contains(*end);
  }

  std::string NameOf(NodeId node, const std::string& port) const {
    return topology_.nodes[node].name + ":" + port;
  }

  // Of the two ends of a link. One alone may be a mistake in how the other is set up.
  bool BothTake(const std::string& end, bool takes, const std::string& other, bool other_takes) {
    if (takes != other_takes)
      plan_.half_super_frames.push_back((takes ? end : other) + " does, " + (takes ? other : end) +
                                        " does not");
    return takes && other_takes;
  }

  // Ascending.
  std::vector<uint32_t> RanksBelow(const TreeInner& inner) const {
    std::vector<uint32_t> ranks;
    for (const TreeChild& child : inner.children) {
      if (child.is_host) {
        ranks.push_back(child.rank);
      } else {
        const std::vector<uint32_t> below = RanksBelow(tree_.inner[child.inner]);
        ranks.insert(ranks.end(), below.begin(), below.end());
      }
    }
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  }

  uint32_t NextQpn(size_t inner) {
    const uint32_t qpn = taken_[inner].back();
    taken_[inner].pop_back();
    return qpn;
  }

  void GiveBackAll() {
    for (size_t i = 0; i < taken_.size(); ++i) {
      for (const uint32_t qpn : taken_[i]) qpns_->GiveBack(tree_.inner[i].node, qpn, now_);
    }
  }

  const Topology& topology_;
  const Tree& tree_;
  const Mode group_mode_;
  const SwitchModes& switch_modes_;
  const std::vector<JoinRequest>& ranks_;
  const std::vector<Borne>& borne_;
  const SuperFramePorts& super_frame_ports_;
  const LowBytes& low_bytes_;
  const std::optional<uint32_t> start_psn_;
  const Nanos now_;
  std::mt19937_64* const random_;
  QpnPool* const qpns_;
  GroupPlan plan_;
  std::vector<std::vector<uint32_t>> taken_;  // QPNs by inner node, for as many endpoints as it has
};

// Both ways: equal paths may be taken differently.
void CrossEdge(const Topology& topology, const std::vector<Forwarding>& tables, const GroupPlan& plan,
               const ContextPlan& upper, const EndpointPlan& child, Footprint* footprint) {
  const LinkEnd end = *topology.EndAt(upper.node, child.port);
  if (child.is_host) {
    const NodeId host = *topology.FindHostByAddress(child.remote_ip);
    // Behind one port there may be several.
    const LinkEnd at_host = topology.AttachedEnd(host), across = topology.Across(at_host);
    Cross(topology, tables, across.node == upper.node ? across : end, host, footprint);
    Cross(topology, tables, at_host, upper.node, footprint);
    // Where the switch bears another host's address, what comes from the host is on its way to that one.
    if (child.borne_ip != Ipv4{})
      Cross(topology, tables, at_host, *topology.FindHostByAddress(child.borne_ip), footprint, upper.node);
    return;
  }
  for (const ContextPlan& below : plan.contexts) {
    if (topology.nodes[below.node].address != child.remote_ip) continue;
    Cross(topology, tables, end, below.node, footprint);
    Cross(topology, tables, *topology.EndAt(below.node, below.parent->port), upper.node, footprint);
  }
}

}  // namespace

const char* Name(Path path) {
  switch (path) {
    case Path::kUnspecified:
      return "unspecified";
    case Path::kAuto:
      return "auto";
    case Path::kNetwork:
      return "network";
    case Path::kHosts:
      return "hosts";
  }
  return "unknown";
}

Result<GroupPlan> MakePlan(const Topology& topology, const Tree& tree, const ContextPlan& common,
                           const SwitchModes& switch_modes, const std::vector<JoinRequest>& ranks,
                           const std::vector<Borne>& borne, const SuperFramePorts& super_frame_ports,
                           const LowBytes& low_bytes, std::optional<uint32_t> start_psn, Nanos now,
                           std::mt19937_64* random, QpnPool* qpns) {
  return Planner(topology, tree, common, switch_modes, ranks, borne, super_frame_ports, low_bytes, start_psn, now,
                 random, qpns)
      .Make();
}

// A switch has at least one child.
uint8_t LowByteOf(const ContextPlan& context) {
  return static_cast<uint8_t>(context.children.front().local_qpn % QpnPool::kTags);
}

Footprint FootprintOf(const Topology& topology, const std::vector<Forwarding>& tables,
                      const GroupPlan& plan) {
  Footprint footprint;
  for (const ContextPlan& context : plan.contexts) {
    footprint.switches.insert(context.node);
    for (const EndpointPlan& child : context.children)
      CrossEdge(topology, tables, plan, context, child, &footprint);
  }
  return footprint;
}

Footprint FootprintOfLeg(const Topology& topology, const std::vector<Forwarding>& tables, NodeId node,
                         const EndpointPlan& server) {
  Footprint footprint;
  const NodeId host = *topology.FindHostByAddress(server.remote_ip);
  Cross(topology, tables, *topology.EndAt(node, server.port), host, &footprint);
  Cross(topology, tables, topology.AttachedEnd(host), node, &footprint);
  return footprint;
}

std::vector<uint32_t> LocalQpnsOf(const ContextPlan& context) {
  std::vector<uint32_t> qpns;
  if (context.parent) qpns.push_back(context.parent->local_qpn);
  for (const EndpointPlan& child : context.children) qpns.push_back(child.local_qpn);
  if (context.server) qpns.push_back(context.server->local_qpn);
  return qpns;
}

void TellRates(const Topology& topology, const std::vector<Forwarding>& tables, GroupPlan* plan) {
  for (ContextPlan& context : plan->contexts) {
    for (EndpointPlan& child : context.children) {
      Footprint edge;
      CrossEdge(topology, tables, *plan, context, child, &edge);
      child.rate_gbps = std::numeric_limits<double>::max();
      for (const LinkEnd& link : edge.links)
        child.rate_gbps = std::min(child.rate_gbps, topology.nodes[link.node].hops[link.hop].rate_gbps);
    }
  }
}

void TellEnds(const Topology& topology, GroupPlan* plan) {
  for (const ContextPlan& context : plan->contexts) {
    const Node& at = topology.nodes[context.node];
    for (const EndpointPlan& child : context.children) {
      if (!child.is_host) continue;
      JoinedReply& reply = plan->replies[child.ranks.front()];
      const auto bearer =
          child.borne_ip == Ipv4{} ? std::nullopt : topology.FindHostByAddress(child.borne_ip);
      reply.remote_ip = bearer ? child.borne_ip : at.address;
      reply.remote_name = bearer ? topology.nodes[*bearer].name + ", for switch " + at.name : "";
      reply.remote_qpn = child.local_qpn;
      reply.send_psn = child.in_psn;
      reply.recv_psn = child.out_psn;
      reply.super_frames = child.super_frames;
    }
  }
}

uint32_t LevelsOf(const GroupPlan& plan) {
  uint32_t levels = 0;
  for (const ContextPlan& context : plan.contexts) {
    uint32_t here = 1;
    for (NodeId above = context.parent_node; above != kNoNode; ++here)
      above = std::ranges::find(plan.contexts, above, &ContextPlan::node)->parent_node;
    levels = std::max(levels, here);
  }
  return levels;
}

void ReleasePlan(const GroupPlan& plan, Nanos now, QpnPool* qpns) {
  for (const ContextPlan& context : plan.contexts) {
    for (const uint32_t qpn : LocalQpnsOf(context)) qpns->GiveBack(context.node, qpn, now);
  }
}

}  // namespace epic::manager
