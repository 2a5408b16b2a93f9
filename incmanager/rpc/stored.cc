#include "incmanager/rpc/stored.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "incmanager/rpc/convert.h"
#include "incmanager/rpc/convert_policy.h"
#include "incmanager/rpc/kept.h"

namespace epic::manager {
namespace {

proto::StoredLink ToStored(const Topology& topology, LinkEnd end) {
  proto::StoredLink out;
  out.set_node(topology.nodes[end.node].name);
  out.set_port(topology.nodes[end.node].hops[end.hop].port);
  return out;
}

void AddWays(const Topology& topology, const std::vector<Way>& ways,
             google::protobuf::RepeatedPtrField<proto::StoredWay>* out) {
  for (const Way& way : ways) {
    proto::StoredWay& stored = *out->Add();
    stored.set_to(topology.nodes[way.to].name);
    *stored.mutable_by() = ToStored(topology, LinkEnd{way.at, way.hop});
  }
}

proto::StoredAllocation ToStored(const Topology& topology, const Allocation& allocation) {
  proto::StoredAllocation out;
  for (const LinkEnd& link : allocation.links) *out.add_links() = ToStored(topology, link);
  for (const Allocation::Region& region : allocation.switches) {
    proto::StoredRegion& stored = *out.add_switches();
    stored.set_node(topology.nodes[region.node].name);
    stored.set_bytes(region.bytes);
    stored.set_block(region.block);
    stored.set_low_byte(region.low_byte);
  }
  out.set_reserved_kbps(allocation.reserved_kbps);
  out.set_exclusive(allocation.exclusive);
  out.set_tenant(allocation.tenant);
  out.set_duty(allocation.share.duty);
  out.set_job(allocation.share.job);
  out.set_phase(allocation.share.phase);
  return out;
}

Failure FromProto(const proto::Failure& failure) {
  return {static_cast<ErrorCode>(failure.code()), failure.message(), failure.rank(), failure.switch_name()};
}

// Reads names; the first that there is not stays in status().
class Names {
 public:
  explicit Names(const Topology& topology) : topology_(topology) {}

  NodeId Node(const std::string& name) {
    if (const auto node = topology_.FindNode(name)) return *node;
    if (status_.ok())
      status_ = MakeStatus(StatusCode::kNotFound, fmt::format("the topology has no {} any more", name));
    return 0;
  }
  LinkEnd Link(const proto::StoredLink& link) {
    const NodeId node = Node(link.node());
    if (!status_.ok()) return {};  // where nothing is found yet there is no node at all
    const std::vector<Hop>& hops = topology_.nodes[node].hops;
    const auto hop = std::ranges::find(hops, link.port(), &Hop::port);
    if (hop != hops.end()) return {node, static_cast<uint32_t>(hop - hops.begin())};
    status_ = MakeStatus(StatusCode::kNotFound,
                         fmt::format("the topology has no link at {}:{} any more", link.node(), link.port()));
    return {};
  }
  std::vector<Way> Ways(const google::protobuf::RepeatedPtrField<proto::StoredWay>& stored) {
    std::vector<Way> ways;
    for (const proto::StoredWay& way : stored) {
      const LinkEnd by = Link(way.by());
      ways.push_back({.to = Node(way.to()), .at = by.node, .hop = by.hop});
    }
    return ways;
  }
  // Nothing is wrong with no words.
  void Wrong(const std::string& what) {
    if (status_.ok() && !what.empty()) status_ = MakeStatus(StatusCode::kInvalidArgument, what);
  }
  const Status& status() const { return status_; }

 private:
  const Topology& topology_;
  Status status_;
};

EndpointPlan FromProto(const proto::EndpointConfig& config, Names* names) {
  EndpointPlan out{.local_qpn = config.local_qpn(),
                   .remote_ip = Ipv4{config.remote_ip()},
                   .remote_qpn = config.remote_qpn(),
                   .borne_ip = Ipv4{config.borne_ip()},
                   .remote_mac = {},
                   .port = config.port(),
                   .ingress_port = config.ingress_port().empty() ? config.port() : config.ingress_port(),
                   .in_psn = config.in_psn(),
                   .out_psn = config.out_psn(),
                   .is_host = config.is_host(),
                   .super_frames = config.super_frames(),
                   .ranks = {config.ranks().begin(), config.ranks().end()}};
  if (config.remote_mac().size() != out.remote_mac.size()) {
    names->Wrong(fmt::format("an endpoint at {} has no MAC address", config.port()));
  } else {
    std::ranges::copy(config.remote_mac(), out.remote_mac.begin());
  }
  return out;
}

ContextPlan FromProto(const proto::TreeNode& node, Names* names) {
  const proto::GroupConfig& config = node.config();
  ContextPlan out{ParametersOf(config)};
  out.node = names->Node(node.switch_name());
  out.parent_node = node.parent().empty() ? kNoNode : names->Node(node.parent());
  out.arena_bytes = node.arena_bytes();
  out.paper = {.bytes = node.paper_bytes(), .formula = node.paper_formula()};
  if (config.has_parent()) out.parent = FromProto(config.parent(), names);
  if (config.has_server()) out.server = FromProto(config.server(), names);
  for (const proto::EndpointConfig& child : config.children())
    out.children.push_back(FromProto(child, names));
  if (node.child_gbps_size() != config.children_size()) {
    names->Wrong(fmt::format("{} has rates of {} children", node.switch_name(), node.child_gbps_size()));
    return out;
  }
  for (int i = 0; i < node.child_gbps_size(); ++i)
    out.children[static_cast<size_t>(i)].rate_gbps = node.child_gbps(i);
  return out;
}

Allocation FromProto(const proto::StoredAllocation& stored, Names* names) {
  Allocation out{.reserved_kbps = stored.reserved_kbps(),
                 .exclusive = stored.exclusive(),
                 .tenant = stored.tenant(),
                 .share = {.duty = stored.duty(), .job = stored.job(), .phase = stored.phase()}};
  for (const proto::StoredLink& link : stored.links()) out.links.push_back(names->Link(link));
  for (const proto::StoredRegion& region : stored.switches())
    out.switches.push_back({.node = names->Node(region.node()),
                            .bytes = region.bytes(),
                            .block = region.block(),
                            .low_byte = static_cast<uint8_t>(region.low_byte())});
  return out;
}

proto::StoredServer ToStored(const Topology& topology, const GroupServer& server) {
  proto::StoredServer out;
  out.set_host(topology.nodes[server.host].name);
  out.set_bytes(server.bytes);
  out.set_of_a_rank(server.of_a_rank);
  for (const NodeId node : server.footprint.switches) out.add_switches(topology.nodes[node].name);
  for (const LinkEnd& link : server.footprint.links) *out.add_links() = ToStored(topology, link);
  AddWays(topology, server.footprint.ways, out.mutable_ways());
  return out;
}

// Of a group that runs: the server is there.
GroupServer FromProto(const Topology& topology, const proto::StoredServer& stored, Names* names) {
  GroupServer out{.host = names->Node(stored.host()),
                  .bytes = stored.bytes(),
                  .of_a_rank = stored.of_a_rank(),
                  .made = true,
                  .footprint = {}};
  for (const std::string& name : stored.switches()) out.footprint.switches.insert(names->Node(name));
  for (const proto::StoredLink& link : stored.links()) {
    const LinkEnd end = names->Link(link);
    if (names->status().ok()) out.footprint.links.insert(std::min(end, topology.Across(end)));
  }
  out.footprint.ways = names->Ways(stored.ways());
  return out;
}

MulticastGroup FromProto(const proto::MulticastGroup& stored) {
  MulticastGroup out{.address = Ipv4{stored.address()},
                     .qkey = stored.qkey(),
                     .ends = {},
                     .super_frames = stored.super_frames(),
                     .receives = stored.receives()};
  for (const proto::DatagramEnd& end : stored.ends()) out.ends.push_back({Ipv4{end.ip()}, end.qpn()});
  return out;
}

void ReadMembers(const proto::StoredGroup& stored, Names* names, Group* group) {
  for (const proto::StoredMember& member : stored.members()) {
    Member out{.join = manager::FromProto(member.join()),
               .host = names->Node(member.host()),
               .secret = member.secret()};
    const uint32_t rank = out.join.rank;
    if (rank >= group->spec.world_size || !out.join.wrong.empty())
      names->Wrong(fmt::format("rank {} is none of it", rank));
    group->members.emplace(rank, std::move(out));
  }
  if (group->members.size() != group->spec.world_size) names->Wrong("it has not all of its ranks");
}

proto::StoredTold ToStored(const JoinedReply& reply) {
  proto::StoredTold out;
  out.set_mode(static_cast<proto::Mode>(reply.mode));
  NameTypes(reply.abilities, &out);
  NameOperations(reply.abilities, &out);
  out.set_turns(reply.abilities.turns);
  out.set_priorities(reply.abilities.priorities);
  out.set_asks(reply.asks);
  return out;
}

// Of a group of which all the rest is there, and names what there is.
void ReadReplies(const Topology& topology, const proto::StoredTold& told, Names* names, Group* group) {
  JoinedReply common{.group_id = group->id,
                     .generation = group->generation,
                     .mode = static_cast<Mode>(told.mode()),
                     .path_mtu = group->path_mtu,
                     .message_packets = group->window.message_packets,
                     .window_messages = group->window.window_messages,
                     .inline_bytes = group->inline_bytes,
                     .start_messages = group->window.start_messages,
                     .abilities = {},
                     .lacks = group->lacks,
                     .path = group->path_taken,
                     .path_reason = group->path_reason,
                     .hosts_reach = group->hosts_reach,
                     .scale = group->spec.scale,
                     .int8 = group->spec.int8,
                     .levels = LevelsOf(group->plan),
                     .asks = told.asks()};
  for (const std::string& name : told.types()) names->Wrong(AddTypes(name, &common.abilities));
  for (const std::string& name : told.operations()) names->Wrong(AddOps(name, &common.abilities));
  common.abilities.turns = told.turns();
  common.abilities.priorities = told.priorities();
  for (const ContextPlan& context : group->plan.contexts) {
    for (const EndpointPlan& child : context.children) {
      if (child.is_host && (child.ranks.size() != 1 || child.ranks.front() >= group->spec.world_size))
        return names->Wrong(fmt::format("{} has an end of no rank", topology.nodes[context.node].name));
    }
  }
  group->plan.replies.assign(group->spec.world_size, common);
  TellEnds(topology, &group->plan);
}

}  // namespace

proto::StoredGroup ToStored(const Topology& topology, const Group& group) {
  proto::StoredGroup out;
  *out.mutable_spec() = RequestOf(group.spec);
  out.set_id(group.id);
  out.set_generation(group.generation);
  for (const auto& [rank, member] : group.members) {
    proto::StoredMember& stored = *out.add_members();
    *stored.mutable_join() = ToProto(member.join);
    stored.set_host(topology.nodes[member.host].name);
    stored.set_secret(member.secret);
  }
  const proto::GroupState state = ToProto(topology, group);
  *out.mutable_contexts() = state.tree();
  for (const NodeId node : group.footprint.switches) out.add_switches(topology.nodes[node].name);
  for (const LinkEnd& link : group.footprint.links) *out.add_links() = ToStored(topology, link);
  AddWays(topology, group.footprint.ways, out.mutable_ways());
  AddWays(topology, group.footprint.ways_of_hosts, out.mutable_ways_of_hosts());
  out.set_path_mtu(group.path_mtu);
  out.set_message_packets(group.window.message_packets);
  out.set_window_messages(group.window.window_messages);
  out.set_start_messages(group.window.start_messages);
  out.set_slots(group.window.slots);
  out.set_window_reason(group.window.reason);
  out.set_inline_bytes(group.inline_bytes);
  *out.mutable_lacks() = state.lacks();
  out.set_path_taken(static_cast<proto::Path>(group.path_taken));
  out.set_path_asked_by(group.path_asked_by);
  out.set_path_reason(group.path_reason);
  out.set_hosts_reach(group.hosts_reach);
  out.set_hosts_connect(group.hosts_connect);
  if (group.multicast) *out.mutable_multicast() = ToProto(*group.multicast);
  if (!group.no_multicast.ok()) *out.mutable_no_multicast() = ToProto(group.no_multicast);
  if (group.allocation && !group.plan.contexts.empty())
    *out.mutable_allocation() = ToStored(topology, *group.allocation);
  out.set_width_kbps(group.width_kbps);
  if (group.server && !group.plan.contexts.empty()) *out.mutable_server() = ToStored(topology, *group.server);
  *out.mutable_told() = ToStored(group.plan.replies.front());
  return out;
}

StatusOr<Group> FromStored(const Topology& topology, const proto::StoredGroup& stored) {
  Names names(topology);
  Group out{.spec = FromProto(stored.spec()), .id = stored.id(), .generation = stored.generation()};
  names.Wrong(out.spec.wrong);
  ReadMembers(stored, &names, &out);
  for (const proto::TreeNode& node : stored.contexts()) {
    out.plan.contexts.push_back(FromProto(node, &names));
    out.plan.contexts.back().start_messages = stored.start_messages();
    out.plan.contexts.back().inline_bytes = stored.inline_bytes();
  }
  for (const std::string& name : stored.switches()) out.footprint.switches.insert(names.Node(name));
  for (const proto::StoredLink& link : stored.links()) {
    const LinkEnd end = names.Link(link);
    if (names.status().ok()) out.footprint.links.insert(std::min(end, topology.Across(end)));
  }
  out.footprint.ways = names.Ways(stored.ways());
  out.footprint.ways_of_hosts = names.Ways(stored.ways_of_hosts());
  out.path_mtu = stored.path_mtu();
  out.window = {.message_packets = stored.message_packets(),
                .window_messages = stored.window_messages(),
                .start_messages = stored.start_messages(),
                .slots = stored.slots(),
                .reason = stored.window_reason()};
  out.inline_bytes = stored.inline_bytes();
  for (const proto::Lack& lack : stored.lacks()) out.lacks.push_back({lack.what(), lack.where()});
  out.path_taken = static_cast<Path>(stored.path_taken());
  out.path_asked_by = stored.path_asked_by();
  out.path_reason = stored.path_reason();
  out.hosts_reach = stored.hosts_reach();
  out.hosts_connect = stored.hosts_connect();
  if (stored.has_multicast()) out.multicast = FromProto(stored.multicast());
  if (stored.has_no_multicast()) out.no_multicast = FromProto(stored.no_multicast());
  if (stored.has_allocation()) out.allocation = FromProto(stored.allocation(), &names);
  out.width_kbps = stored.width_kbps();
  const bool has_contexts = !out.plan.contexts.empty();
  if (stored.has_server()) out.server = FromProto(topology, stored.server(), &names);
  if (out.server.has_value() != (has_contexts && out.plan.contexts.front().server.has_value()))
    names.Wrong("its fallback server and its context contradict each other");
  if (out.allocation.has_value() != has_contexts ||
      out.path_taken != (has_contexts ? Path::kNetwork : Path::kHosts))
    names.Wrong("its path and its contexts contradict each other");
  // Only now, since it goes by what the contexts name.
  if (names.status().ok()) ReadReplies(topology, stored.told(), &names, &out);
  if (!names.status().ok()) return names.status();
  return out;
}

}  // namespace epic::manager
