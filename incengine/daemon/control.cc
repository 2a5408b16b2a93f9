#include "incengine/daemon/control.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <span>
#include <type_traits>

#include "base/counted.h"
#include "base/counter_table.h"
#include "incengine/core/refused.h"
#include "incengine/core/wait.h"
#include "io/clock.h"
#include "io/port_counters.h"
#include "protocol/bounds.h"
#include "protocol/collectives.h"

namespace epic::daemon {
namespace {

// That a description names.
constexpr size_t kMostContexts = 16'384;

// Appends counters to a message.
class CounterWriter {
 public:
  explicit CounterWriter(google::protobuf::RepeatedPtrField<proto::Counter>* out) : out_(out) {}
  void Add(const std::string& name, uint64_t value) {
    proto::Counter& counter = *out_->Add();
    counter.set_name(name);
    counter.set_value(value);
  }
  // Those of a table (base/counter_table.h), in its order.
  template <typename Counters>
  void AddEach(std::type_identity_t<std::span<const CounterRow<Counters>>> table, const Counters& counters,
               const std::string& prefix = "") {
    for (const CounterRow<Counters>& row : table)
      Add(fmt::format("{}{}", prefix, row.name), counters.*row.member);
  }
  // One counter per value of an enum of reasons that Name knows.
  template <typename Reason, size_t kReasons>
  void AddReasons(const std::string& prefix, const std::array<uint64_t, kReasons>& counts) {
    for (size_t i = 0; i < kReasons; ++i) Add(prefix + Name(static_cast<Reason>(i)), counts[i]);
  }

 private:
  google::protobuf::RepeatedPtrField<proto::Counter>* out_;
};

proto::EndpointDump DumpEndpoint(const engine::Endpoint& endpoint, const PortNames& ports) {
  proto::EndpointDump dump;
  *dump.mutable_config() = ToProto(endpoint.config, ports);
  dump.set_up_epsn(endpoint.progress.up_epsn);
  dump.set_last_down_acked(endpoint.progress.down_acked_end - 1);
  CounterWriter out(dump.mutable_counters());
  out.AddEach(engine::kEndpointCounters, endpoint.counters);
  return dump;
}

}  // namespace

SwitchControl::SwitchControl(Identity identity, PortNames ports, engine::Switch& sw, PortReader read_ports,
                             Trace* trace, ProbeSender send_probe, LocateSender send_locate)
    : identity_(std::move(identity)),
      ports_(std::move(ports)),
      switch_(sw),
      read_ports_(std::move(read_ports)),
      trace_(trace),
      send_probe_(std::move(send_probe)),
      send_locate_(std::move(send_locate)) {}

proto::EngineInfo SwitchControl::Describe() const {
  proto::EngineInfo info;
  info.set_name(identity_.name);
  info.set_address(Raw(switch_.config().address));
  info.set_mac(MacBytes(switch_.config().mac));
  info.set_boot_id(identity_.boot_id);
  info.set_version(identity_.version);
  proto::Capability& capability = *info.mutable_capability();
  for (const Mode mode : AllModes()) {
    if (switch_.engine().Offers(mode)) capability.add_modes(static_cast<proto::Mode>(mode));
  }
  // Every mode has all of them.
  const Abilities& abilities = switch_.config().abilities;
  for (const TypeInfo& row : kDataTypes) {
    if (abilities.Has(row.type)) capability.add_types(std::string(row.name));
  }
  for (const OpInfo& row : kReduceOps) {
    if (abilities.Has(row.op)) capability.add_operations(std::string(row.name));
  }
  capability.set_turns(abilities.turns);
  capability.set_priorities(abilities.priorities);
  capability.set_blocks(true);
  capability.set_group_ports(true);
  capability.set_max_path_mtu(switch_.config().max_payload);
  capability.set_max_children(kMaxChildren);
  const engine::Arena& arena = switch_.engine().arena();
  capability.set_arena_bytes(arena.size());
  capability.set_arena_free_bytes(arena.free_bytes());
  if (const auto& pool = switch_.engine().pool()) *capability.mutable_pool() = ToProto(*pool);
  const std::vector<PortState> states = read_ports_();
  for (size_t i = 0; i < states.size(); ++i) {
    proto::PortInfo& port = *info.add_ports();
    port.set_name(states[i].name);
    port.set_mtu(states[i].interface.mtu);
    port.set_up(states[i].interface.up);
    port.set_rx_frames(switch_.port_counters()[i].rx_frames);
    port.set_tx_frames(switch_.port_counters()[i].tx_frames);
    port.set_super_frames(states[i].super_frames);
    port.set_rate_mbps(states[i].rate_mbps);
    for (const engine::Neighbour& neighbour : switch_.neighbours().At(static_cast<PortId>(i)))
      *port.add_neighbours() = ToProto(neighbour);
  }
  const auto& groups = switch_.engine().groups();
  for (const auto& [id, group] : groups) {
    info.add_group_ids(id);
    if (static_cast<size_t>(info.contexts_size()) == kMostContexts) continue;
    proto::ContextInfo& context = *info.add_contexts();
    context.set_group_id(id);
    context.set_generation(group.config.generation);
    context.set_stopped(group.state == engine::GroupState::kStopped);
    if (auto leg = LegFailureOf(switch_.engine(), group)) *context.mutable_leg() = *std::move(leg);
  }
  info.set_forwarding_hash(forwarding_hash_);
  for (const engine::RefusedEndpoint& endpoint :
       engine::RefusedEndpoints(switch_.engine(), io::MonotonicNow()))
    *info.add_refused() = ToProto(endpoint, ports_);
  return info;
}

proto::DumpReply SwitchControl::Dump(const proto::DumpRequest& page) const {
  proto::DumpReply reply;
  const auto& groups = switch_.engine().groups();
  const uint32_t most = page.most_groups() == 0 ? UINT32_MAX : page.most_groups();
  auto group = groups.upper_bound(page.after_group());
  if (page.after_group() == 0) group = groups.begin();
  for (; group != groups.end() && static_cast<uint32_t>(reply.groups_size()) < most; ++group)
    *reply.add_groups() = DumpGroup(group->second);
  reply.set_more(group != groups.end());
  if (page.after_group() != 0) return reply;
  *reply.mutable_info() = Describe();
  *reply.mutable_forwarding() = ToProto(switch_.forwarding().table(), ports_);
  DumpCounters(&reply);
  return reply;
}

proto::GroupDump SwitchControl::DumpGroup(const engine::Context& group) const {
  proto::GroupDump dump;
  *dump.mutable_config() = ToProto(group.config, ports_);
  dump.set_arena_bytes(group.arena_bytes);
  dump.set_holds_block(group.config.block != 0 && group.hold.has_memory);
  dump.set_failed(group.state != engine::GroupState::kRunning);
  dump.set_invocations(group.invocations.empty() ? 0 : group.invocations.back().number + 1);
  CounterWriter out(dump.mutable_counters());
  out.AddEach(engine::kContextCounters, group.counters);
  out.AddReasons<engine::DropReason>("drop_", group.counters.drops);
  if (group.pooled) {
    // Of who has been stopped the pool knows nothing any more.
    if (const auto* counters = switch_.engine().pool()->FindCounters(group.config.group_id))
      out.AddEach(engine::kPoolCounters, *counters);
    out.AddEach(engine::kLegCounters, group.pooled->counters);
    *dump.mutable_server() = DumpEndpoint(group.server, ports_);
  }
  if (!group.is_root()) *dump.mutable_parent() = DumpEndpoint(group.parent, ports_);
  const engine::GroupWait wait = engine::WaitOf(group, switch_.engine().arena());
  for (size_t c = 0; c < group.children.size(); ++c) {
    proto::EndpointDump& child = *dump.add_children();
    child = DumpEndpoint(group.children[c], ports_);
    child.set_calls(wait.children[c].calls);
    child.set_owes(wait.children[c].owes);
    child.set_not_taken(wait.children[c].not_taken);
  }
  dump.set_tells_waits(true);
  if (wait.open) {
    proto::OpenCall& open = *dump.mutable_open_call();
    open.set_number(wait.open->number);
    open.set_collective(std::string(NameOf(wait.open->header.collective)));
    const Nanos waited = io::MonotonicNow() - wait.open->called_at;
    open.set_ms(static_cast<uint64_t>(std::max<Nanos>(waited, 0) / kMillisecond));
  }
  return dump;
}

void SwitchControl::DumpCounters(proto::DumpReply* reply) const {
  CounterWriter out(reply->mutable_counters());
  const engine::SwitchCounters& counters = switch_.counters();
  // What comes to the engine, what its groups do with it, and all that is not its.
  const std::span of_switch(engine::kSwitchCounters);
  out.AddEach(of_switch.first(1), counters);
  engine::ContextCounters groups = removed_;
  for (const auto& [id, group] : switch_.engine().groups())
    AddCounters(engine::kContextCounters, group.counters, &groups);
  out.AddEach(engine::kContextCounters, groups);
  out.AddEach(of_switch.subspan(1), counters);
  out.Add("learned_addresses", switch_.forwarding().learned_count());
  out.Add("learn_failures", switch_.forwarding().learn_failures());
  for (size_t i = 0; i < counters.bad_roce.size(); ++i) {
    const auto result = static_cast<roce::ParseResult>(i);
    if (result == roce::ParseResult::kOk || result == roce::ParseResult::kNotRoce) continue;
    out.Add(fmt::format("bad_roce_{}", roce::Name(result)), counters.bad_roce[i]);
  }
  out.AddReasons<engine::DropReason>("drop_", counters.engine_drops);
  out.AddReasons<engine::ForwardDrop>("forward_drop_", counters.forward_drops);
  out.AddReasons<engine::FrameDrop>("frame_drop_", counters.frame_drops);
  const std::vector<PortState> states = read_ports_();
  for (size_t i = 0; i < states.size(); ++i) {
    const std::string port = fmt::format("port.{}.", states[i].name);
    out.AddEach(engine::kSwitchPortCounters, switch_.port_counters()[i], port);
    out.AddEach(io::kPortCounters, states[i].counters, port);
    out.Add(port + "times_lost", states[i].times_lost);
    out.AddReasons<engine::HelloCount>(port + "hello_", switch_.neighbours().counts(static_cast<PortId>(i)));
  }
}

StatusOr<proto::InstallReply> SwitchControl::Install(const proto::InstallRequest& request) {
  engine::Shortage shortage;
  const StatusOr<size_t> bytes = InstallGroup(request.group(), &shortage);
  if (!bytes.ok()) return Refused(request, bytes.status(), shortage);
  proto::InstallReply reply;
  reply.set_arena_bytes(*bytes);
  return reply;
}

StatusOr<size_t> SwitchControl::InstallGroup(const proto::GroupConfig& group, engine::Shortage* shortage) {
  auto config = FromProto(group, ports_);
  if (!config.ok()) return config.status();
  config->abilities = switch_.config().abilities;
  if (config->path_mtu > switch_.config().max_payload) {
    return MakeStatus(StatusCode::kInvalidArgument,
                      fmt::format("path_mtu: {} is more than the {} of --max-payload", config->path_mtu,
                                  switch_.config().max_payload));
  }
  const auto bytes = switch_.engine().Install(*config, shortage);
  if (!bytes.ok()) return bytes;
  if (trace_ != nullptr) trace_->OnInstall(io::MonotonicNow(), *config);
  spdlog::info("group {} \"{}\" installed: {}, {}", config->group_id, config->name,
               Counted(config->children.size(), "child", "children"), Counted(*bytes, "arena byte"));
  return bytes;
}

const engine::Context* SwitchControl::Find(uint64_t group_id, uint32_t generation) const {
  const auto it = switch_.engine().groups().find(group_id);
  const bool found = it != switch_.engine().groups().end() && it->second.config.generation == generation;
  return found ? &it->second : nullptr;
}

bool SwitchControl::Has(uint64_t group_id) const { return switch_.engine().groups().contains(group_id); }

ContextUse SwitchControl::Use() const {
  ContextUse use{.any = !switch_.engine().groups().empty(), .merged = removed_.aggregated_packets};
  for (const auto& [id, group] : switch_.engine().groups()) use.merged += group.counters.aggregated_packets;
  return use;
}

StatusOr<proto::RemoveReply> SwitchControl::Remove(const proto::RemoveRequest& request) {
  const engine::Context* const group = Find(request.group_id(), request.generation());
  if (group == nullptr) return proto::RemoveReply();
  AddCounters(engine::kContextCounters, group->counters, &removed_);
  spdlog::info("group {} \"{}\" removed", request.group_id(), group->config.name);
  switch_.engine().Remove(request.group_id(), request.generation());
  if (trace_ != nullptr) trace_->OnRemove(io::MonotonicNow(), request.group_id(), request.generation());
  return proto::RemoveReply();
}

StatusOr<proto::FailReply> SwitchControl::Fail(const proto::FailRequest& request) {
  if (Find(request.group_id(), request.generation()) == nullptr) return proto::FailReply();
  switch_.engine().Fail(request.group_id(), request.generation());
  if (trace_ != nullptr) trace_->OnFail(io::MonotonicNow(), request.group_id(), request.generation());
  spdlog::info("group {} stopped", request.group_id());
  return proto::FailReply();
}

StatusOr<proto::SetForwardingReply> SwitchControl::SetForwarding(const proto::SetForwardingRequest& request) {
  if (request.keeps() != 0) {
    if (request.keeps() == forwarding_hash_) return proto::SetForwardingReply();
    return MakeStatus(StatusCode::kFailedPrecondition, "keeps: the forwarding table is another one");
  }
  const auto table = FromProto(request.table(), ports_);
  if (!table.ok()) return table.status();
  if (const Status status = switch_.forwarding().SetTable(*table); !status.ok()) return status;
  forwarding_hash_ = StableHash(request.table().SerializeAsString());
  spdlog::info("forwarding: {}, {}, {}", Counted(table->entries.size(), "entry", "entries"),
               Counted(table->flood_ports.size(), "flood port"),
               Counted(table->groups.size(), "multicast group"));
  return proto::SetForwardingReply();
}

StatusOr<proto::ProbeReply> SwitchControl::Probe(const proto::ProbeRequest& request) {
  const auto target = FromProto(request, ports_);
  if (!target.ok()) return target.status();
  if (send_probe_ == nullptr) return MakeStatus(StatusCode::kInvalidArgument, "port: nothing can be sent");
  const engine::ProbeAnswer answer = send_probe_(*target);
  proto::ProbeReply reply;
  reply.set_asked(answer.asked);
  reply.set_answered(answer.answered);
  return reply;
}

StatusOr<proto::LocateReply> SwitchControl::Locate(const proto::LocateRequest& request) {
  if (request.ip() == 0) return MakeStatus(StatusCode::kInvalidArgument, "ip: missing");
  if (send_locate_ == nullptr) return MakeStatus(StatusCode::kInvalidArgument, "ip: nothing can be sent");
  proto::LocateReply reply;
  reply.set_asked(send_locate_(Ipv4{request.ip()}));
  return reply;
}

}  // namespace epic::daemon
