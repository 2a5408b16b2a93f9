#include "incmanager/rpc/convert.h"

#include <algorithm>
#include <string_view>
#include <variant>

#include "incmanager/rpc/convert_policy.h"
#include "incmanager/text.h"

namespace epic::manager {
namespace {

static_assert(static_cast<int>(ErrorCode::kNotFound) == proto::ERROR_NOT_FOUND);
static_assert(static_cast<int>(ErrorCode::kDuplicateRank) == proto::ERROR_DUPLICATE_RANK);
static_assert(static_cast<int>(ErrorCode::kSizeMismatch) == proto::ERROR_SIZE_MISMATCH);
static_assert(static_cast<int>(ErrorCode::kJoinTimeout) == proto::ERROR_JOIN_TIMEOUT);
static_assert(static_cast<int>(ErrorCode::kNoTree) == proto::ERROR_NO_TREE);
static_assert(static_cast<int>(ErrorCode::kNoResource) == proto::ERROR_NO_RESOURCE);
static_assert(static_cast<int>(ErrorCode::kMtu) == proto::ERROR_MTU);
static_assert(static_cast<int>(ErrorCode::kRankLost) == proto::ERROR_RANK_LOST);
static_assert(static_cast<int>(ErrorCode::kSwitchLost) == proto::ERROR_SWITCH_LOST);
static_assert(static_cast<int>(ErrorCode::kAborted) == proto::ERROR_ABORTED);
static_assert(static_cast<int>(ErrorCode::kUnsupported) == proto::ERROR_UNSUPPORTED);
static_assert(static_cast<int>(ErrorCode::kTransport) == proto::ERROR_TRANSPORT);
static_assert(static_cast<int>(ErrorCode::kManagerLost) == proto::ERROR_MANAGER_LOST);
static_assert(static_cast<int>(ErrorCode::kInternal) == proto::ERROR_INTERNAL);
static_assert(static_cast<int>(ErrorCode::kLinkLost) == proto::ERROR_LINK_LOST);
static_assert(static_cast<int>(ErrorCode::kFallbackLost) == proto::ERROR_FALLBACK_LOST);
static_assert(static_cast<int>(ErrorCode::kNotFinite) == proto::ERROR_NOT_FINITE);
static_assert(static_cast<int>(ErrorCode::kMismatch) == proto::ERROR_MISMATCH);
static_assert(static_cast<int>(Path::kAuto) == proto::PATH_AUTO);
static_assert(static_cast<int>(Path::kNetwork) == proto::PATH_NETWORK);
static_assert(static_cast<int>(Path::kHosts) == proto::PATH_HOSTS && proto::Path_MAX == proto::PATH_HOSTS);
// Rows of modes have the numbers from 1 on: a mode that only the table or only the messages have does not
// compile. Convert.ModesHaveTheirNames looks at the names.
static_assert(proto::Mode_MIN == proto::MODE_UNSPECIFIED &&
              proto::Mode_MAX == static_cast<int>(kModes.size()));

// What is no mode stays none.
Mode ModeFromProto(proto::Mode mode) { return static_cast<Mode>(std::clamp<int>(mode, 0, UINT8_MAX)); }

// What is no path stays none.
Path PathFromProto(proto::Path path) { return static_cast<Path>(std::clamp<int>(path, 0, UINT8_MAX)); }

std::string Bytes(const Mac& mac) { return {mac.begin(), mac.end()}; }

proto::EndpointConfig ToProto(const EndpointPlan& endpoint) {
  proto::EndpointConfig out;
  out.set_local_qpn(endpoint.local_qpn);
  out.set_remote_ip(Raw(endpoint.remote_ip));
  out.set_remote_qpn(endpoint.remote_qpn);
  out.set_remote_mac(Bytes(endpoint.remote_mac));
  out.set_port(endpoint.port);
  if (endpoint.ingress_port != endpoint.port) out.set_ingress_port(endpoint.ingress_port);
  out.set_in_psn(endpoint.in_psn);
  out.set_out_psn(endpoint.out_psn);
  out.set_is_host(endpoint.is_host);
  out.set_super_frames(endpoint.super_frames);
  out.set_borne_ip(Raw(endpoint.borne_ip));
  out.mutable_ranks()->Assign(endpoint.ranks.begin(), endpoint.ranks.end());
  return out;
}

proto::WindowInUse ToProto(const WindowInUse& window) {
  proto::WindowInUse out;
  out.set_messages(window.messages);
  out.set_ns_per_packet(window.ns_per_packet);
  out.set_before_messages(window.before_messages);
  out.set_before_ns_per_packet(window.before_ns_per_packet);
  return out;
}

proto::GroupServer ServerOf(const Topology& topology, NodeId host, uint64_t bytes, bool of_a_rank) {
  proto::GroupServer out;
  out.set_host(topology.nodes[host].name);
  out.set_bytes(bytes);
  out.set_of_a_rank(of_a_rank);
  return out;
}

proto::Lack ToProto(const Lack& lack) {
  proto::Lack out;
  out.set_what(lack.what);
  out.set_where(lack.where);
  return out;
}

proto::Joined ToProto(const JoinedReply& reply) {
  proto::Joined out;
  out.set_group_id(reply.group_id);
  out.set_generation(reply.generation);
  out.set_mode(static_cast<proto::Mode>(reply.mode));
  out.set_remote_ip(Raw(reply.remote_ip));
  out.set_remote_name(reply.remote_name);
  out.set_remote_qpn(reply.remote_qpn);
  out.set_send_psn(reply.send_psn);
  out.set_recv_psn(reply.recv_psn);
  out.set_path_mtu(reply.path_mtu);
  out.set_message_packets(reply.message_packets);
  out.set_window_messages(reply.window_messages);
  out.set_start_messages(reply.start_messages);
  out.set_inline_bytes(reply.inline_bytes);
  out.set_super_frames(reply.super_frames);
  out.set_qp_timeout(kQpTimeout);
  out.set_retry_cnt(kRetryCount);
  out.set_rnr_retry(kRnrRetry);
  out.set_min_rnr_timer(kMinRnrTimer);
  NameTypes(reply.abilities, &out);
  NameOperations(reply.abilities, &out);
  out.set_turns(reply.abilities.turns);
  out.set_priorities(reply.abilities.priorities && IsInPool(reply.mode));
  out.set_asks(reply.asks);
  for (const Lack& lack : reply.lacks) *out.add_lacks() = ToProto(lack);
  out.set_path(static_cast<proto::Path>(reply.path));
  out.set_path_reason(reply.path_reason);
  out.set_hosts_reach(reply.hosts_reach);
  out.set_quantise(reply.scale);
  out.set_quantise_int8(reply.int8);
  out.set_levels(reply.levels);
  if (reply.multicast) *out.mutable_multicast() = ToProto(*reply.multicast);
  if (!reply.no_multicast.ok()) {
    out.set_multicast_reason(reply.no_multicast.message);
    out.set_multicast_error(static_cast<proto::ErrorCode>(reply.no_multicast.code));
  }
  out.set_secret(reply.secret);
  out.set_durable(reply.durable);
  return out;
}

// `add` is AddTypes or AddOps. What is wrong with a name is in `wrong` then, behind the field's.
void AddNames(const char* field, const google::protobuf::RepeatedPtrField<std::string>& names,
              std::string (*add)(std::string_view, Abilities*), Abilities* to, std::string* wrong) {
  for (const std::string& name : names) {
    if (const std::string why = add(name, to); !why.empty())
      *wrong = std::string(field) + ": " + Shortened(why);
  }
}

}  // namespace

JoinRequest FromProto(const proto::Join& join) {
  JoinRequest out;
  out.group = Shortened(join.group());  // then it is no name
  out.rank = join.rank();
  out.world_size = join.world_size();
  out.ip = Ipv4{join.ip()};
  out.qpn = join.qpn();
  out.max_path_mtu = join.max_path_mtu();
  out.max_outstanding = join.max_outstanding();
  out.super_frames = join.super_frames();
  out.host_name = Printable(join.host_name(), kMaxSaidBytes);
  out.pid = join.pid();
  out.join_timeout_ms = join.join_timeout_ms();
  out.mode = ModeFromProto(join.mode());
  out.path = PathFromProto(join.path());
  out.max_bytes = join.max_bytes();
  out.scale = join.quantise();
  out.int8 = join.quantise_int8();
  out.tells_calls = join.tells_calls();
  out.datagram_qpn = join.datagram_qpn();
  out.datagram_reach = FromProto(join.datagram_reach());
  out.datagrams_offered = join.datagrams_offered();
  out.datagram_receives = join.datagram_receives();
  out.rejoins = join.rejoins();
  out.nonce = join.nonce();
  AddNames("types", join.types(), AddTypes, &out.needs, &out.wrong);
  return out;
}

GroupSpec FromProto(const proto::CreateGroupRequest& request) {
  GroupSpec out;
  out.name = request.name();
  out.world_size = request.world_size();
  out.hosts.assign(request.hosts().begin(), request.hosts().end());
  out.mode = ModeFromProto(request.mode());
  for (const auto& [name, mode] : request.switch_modes()) out.switch_modes[name] = ModeFromProto(mode);
  out.reproducible = request.reproducible();
  out.max_bytes = request.max_bytes();
  out.scale = request.quantise();
  out.int8 = request.quantise_int8();
  if (request.has_priority_limit() && !IsPriority(request.priority_limit()))
    out.wrong = fmt::format("priority_limit: {} is not a number from 0 on", request.priority_limit());
  else if (request.has_priority_limit())
    out.priority_limit = PriorityOf(request.priority_limit());
  out.path_mtu = request.path_mtu();
  out.path = PathFromProto(request.path());
  out.message_packets = request.message_packets();
  out.window_messages = request.window_messages();
  if (request.has_inline_bytes()) out.inline_bytes = request.inline_bytes();
  if (request.has_start_psn()) out.start_psn = request.start_psn();
  AddNames("types", request.types(), AddTypes, &out.needs, &out.wrong);
  AddNames("operations", request.operations(), AddOps, &out.needs, &out.wrong);
  AddPolicy(request, &out);
  return out;
}

Failure RefusedOf(const proto::Leave& leave) {
  if (!leave.has_refused()) return {};
  const proto::Failure& refused = leave.refused();
  // Ranks may be of another version; a switch refuses with one of these.
  constexpr ErrorCode kCodes[] = {ErrorCode::kMismatch, ErrorCode::kNoResource, ErrorCode::kUnsupported,
                                  ErrorCode::kAborted};
  const auto code = static_cast<ErrorCode>(refused.code());
  const bool known = refused.code() == static_cast<int>(code) && std::ranges::count(kCodes, code) != 0;
  return {known ? code : ErrorCode::kInternal, Printable(refused.message(), kMaxSaidBytes)};
}

proto::Failure ToProto(const Failure& failure) {
  proto::Failure out;
  out.set_code(static_cast<proto::ErrorCode>(failure.code));
  out.set_message(Printable(failure.message));
  out.set_rank(failure.rank);
  out.set_switch_name(failure.switch_name);
  return out;
}

proto::ServerMessage ToProto(const SessionEvent& event) {
  proto::ServerMessage out;
  if (const auto* waiting = std::get_if<WaitingNote>(&event)) {
    auto* missing = out.mutable_waiting()->mutable_missing_ranks();
    missing->Add(waiting->missing_ranks.begin(), waiting->missing_ranks.end());
  } else if (const auto* joined = std::get_if<JoinedReply>(&event)) {
    *out.mutable_joined() = ToProto(*joined);
  } else if (const auto* failure = std::get_if<Failure>(&event)) {
    *out.mutable_failure() = ToProto(*failure);
  } else if (const auto* peer = std::get_if<PeerEnd>(&event)) {
    *out.mutable_peer() = ToProto(*peer);
  } else if (std::holds_alternative<RejoinedNote>(event)) {
    out.mutable_rejoined();
  } else {
    out.mutable_left();
  }
  return out;
}

proto::GroupConfig ToProto(const ContextPlan& context) {
  proto::GroupConfig out;
  SetParameters(context, &out);
  if (context.parent) *out.mutable_parent() = ToProto(*context.parent);
  for (const EndpointPlan& child : context.children) *out.add_children() = ToProto(child);
  if (context.server) *out.mutable_server() = ToProto(*context.server);
  return out;
}

proto::ForwardingTable ToProto(const Topology& topology, NodeId node, const Forwarding& forwarding) {
  proto::ForwardingTable out;
  for (NodeId target = 0; target < forwarding.hop_to.size(); ++target) {
    const uint32_t hop = forwarding.hop_to[target];
    if (hop == Forwarding::kNoHop) continue;
    proto::ForwardingEntry& entry = *out.add_entries();
    entry.set_mac(Bytes(topology.nodes[target].mac));
    entry.set_ip(Raw(topology.nodes[target].address));
    entry.set_port(topology.nodes[node].hops[hop].port);
    entry.set_source_guard(topology.nodes[target].source_guard &&
                           topology.nodes[node].hops[hop].peer == target);
  }
  for (const std::string& port : forwarding.flood_ports) out.add_flood_ports(port);
  for (const auto& [mac, ports] : forwarding.group_ports) {
    proto::GroupPorts& group = *out.add_groups();
    group.set_mac(Bytes(mac));
    group.mutable_ports()->Add(ports.begin(), ports.end());
    std::sort(group.mutable_ports()->begin(), group.mutable_ports()->end());
  }
  // Nodes may have other numbers for another manager, and hops another order: one table has one hash.
  std::sort(out.mutable_flood_ports()->begin(), out.mutable_flood_ports()->end());
  std::sort(out.mutable_entries()->begin(), out.mutable_entries()->end(),
            [](const auto& one, const auto& other) { return one.mac() < other.mac(); });
  return out;
}

proto::ProbeRequest ProbeOf(const Topology& topology, NodeId from, const std::string& port, NodeId to) {
  proto::ProbeRequest out;
  out.set_ip(Raw(topology.nodes[to].address));
  out.set_mac(Bytes(topology.NextHopMac(from, port, to)));
  out.set_port(port);
  return out;
}

proto::GroupState ToProto(const Topology& topology, const Group& group) {
  proto::GroupState out;
  out.set_name(group.spec.name);
  out.set_group_id(group.id);
  out.set_generation(group.generation);
  out.set_state(Name(group.phase));
  out.set_world_size(group.spec.world_size);
  for (uint32_t rank = 0; rank < group.spec.world_size; ++rank) {
    const auto member = group.members.find(rank);
    if (member != group.members.end()) {
      out.add_joined_ranks(rank);
      out.add_rank_hosts(topology.nodes[member->second.host].name);
      if (member->second.window) (*out.mutable_windows())[rank] = ToProto(*member->second.window);
      if (member->second.datagrams) (*out.mutable_datagrams())[rank] = ToProto(*member->second.datagrams);
    } else {
      out.add_rank_hosts(group.spec.hosts.empty() ? "" : group.spec.hosts[rank]);
    }
  }
  out.set_mode(static_cast<proto::Mode>(group.spec.mode));
  out.set_path_mtu(group.path_mtu != 0 ? group.path_mtu : group.spec.path_mtu);
  const Window& window = group.window;
  out.set_message_packets(window.message_packets != 0 ? window.message_packets : group.spec.message_packets);
  out.set_window_messages(window.window_messages != 0 ? window.window_messages : group.spec.window_messages);
  out.set_start_messages(window.start_messages);
  out.set_slots(window.slots);
  out.set_window_reason(window.reason);
  out.set_inline_bytes(group.inline_bytes);
  out.set_reproducible(group.spec.reproducible);
  out.set_max_bytes(group.spec.max_bytes);
  out.set_quantise(group.spec.scale);
  out.set_quantise_int8(group.spec.int8);
  out.set_priority_limit(ValueOf(group.spec.priority_limit));
  *out.mutable_placement() = PlacementOf(group);
  for (const auto& [name, mode] : group.spec.switch_modes)
    (*out.mutable_switch_modes())[name] = static_cast<proto::Mode>(mode);
  for (const ContextPlan& context : group.plan.contexts) {
    proto::TreeNode& node = *out.add_tree();
    node.set_switch_name(topology.nodes[context.node].name);
    if (context.parent_node != kNoNode) node.set_parent(topology.nodes[context.parent_node].name);
    node.set_arena_bytes(context.arena_bytes);
    node.set_paper_bytes(context.paper.bytes);
    node.set_paper_formula(context.paper.formula);
    *node.mutable_config() = ToProto(context);
    for (const EndpointPlan& child : context.children) node.add_child_gbps(child.rate_gbps);
  }
  out.set_needs(NamesOf(NeedsOf(group.spec)));
  for (const Lack& lack : group.lacks) *out.add_lacks() = ToProto(lack);
  out.set_path(static_cast<proto::Path>(group.spec.path));
  out.set_path_taken(static_cast<proto::Path>(group.path_taken));
  out.set_path_reason(group.path_reason);
  if (group.server && !group.plan.contexts.empty())
    *out.mutable_server() =
        ServerOf(topology, group.server->host, group.server->bytes, group.server->of_a_rank);
  if (group.multicast) out.set_multicast_address(Raw(group.multicast->address));
  out.set_multicast_reason(group.no_multicast.message);
  if (!group.failure.ok()) *out.mutable_failure() = ToProto(group.failure);
  return out;
}

proto::ExplainReply ToProto(const Topology& topology, const Placement& placement) {
  proto::ExplainReply out;
  for (const RootChoice& choice : placement.roots) {
    proto::RootChoice& root = *out.add_roots();
    root.set_root(topology.nodes[choice.root].name);
    root.set_chosen(choice.chosen);
    root.set_why(choice.why);
    root.set_depth_links(choice.depth_links);
    root.set_rate_gbps(choice.rate_gbps);
    root.set_delay_us(choice.delay_us);
    root.set_width_gbps(GbpsOf(choice.width_kbps));
    for (const Aggregator& inner : choice.switches) {
      proto::Aggregator& aggregator = *root.add_switches();
      aggregator.set_switch_name(topology.nodes[inner.node].name);
      aggregator.set_children(inner.children);
      aggregator.set_bytes(inner.bytes);
      aggregator.set_room_bytes(inner.room);
      aggregator.set_block(inner.block);
    }
  }
  out.set_path(static_cast<proto::Path>(placement.path));
  out.set_path_reason(placement.path_reason);
  if (placement.root != kNoNode) out.set_root(topology.nodes[placement.root].name);
  out.set_switches(placement.switches);
  out.set_policy(Name(placement.policy));
  out.set_mode(static_cast<proto::Mode>(placement.mode));
  if (placement.server != kNoNode)
    *out.mutable_server() =
        ServerOf(topology, placement.server, placement.server_bytes, placement.server_of_a_rank);
  out.set_multicast(placement.failure.ok() && placement.no_multicast.empty());
  out.set_multicast_reason(placement.no_multicast);
  out.set_multicast_unasked(out.multicast() && placement.path == Path::kHosts && placement.flooded.empty());
  out.set_multicast_unasked_reason(placement.flooded);
  if (!placement.failure.ok()) *out.mutable_failure() = ToProto(placement.failure);
  return out;
}

}  // namespace epic::manager
