// What an engine says of itself and its ports.
#include <algorithm>

#include "incmanager/rpc/convert.h"
#include "incmanager/text.h"

namespace epic::manager {
namespace {

static_assert(static_cast<int>(NeighbourKind::kBridge) == proto::NEIGHBOUR_BRIDGE &&
              proto::NeighbourKind_MAX == proto::NEIGHBOUR_BRIDGE);
static_assert(static_cast<int>(HeardBy::kArp) == proto::HEARD_BY_ARP &&
              proto::HeardBy_MAX == proto::HEARD_BY_ARP);

static_assert(static_cast<int>(LegEnd::kMessage) == proto::LEG_END_MESSAGE &&
              static_cast<int>(LegEnd::kRefused) == proto::LEG_END_REFUSED &&
              static_cast<int>(LegEnd::kOverrun) == proto::LEG_END_OVERRUN &&
              proto::LegEnd_MAX < static_cast<int>(LegEnd::kOther));

// A day; sums of it stay numbers.
constexpr uint64_t kMostMs = 24 * 3600 * 1000;

Mac MacOf(const std::string& bytes) {
  Mac mac{};
  if (bytes.size() == mac.size()) std::copy(bytes.begin(), bytes.end(), mac.begin());
  return mac;
}

// Of a kind, or heard in a way, that only a later version knows: unknown.
Neighbour NeighbourFromProto(const proto::Neighbour& neighbour) {
  return {
      .kind = proto::NeighbourKind_IsValid(neighbour.kind()) ? static_cast<NeighbourKind>(neighbour.kind())
                                                             : NeighbourKind::kUnknown,
      .name = Shortened(neighbour.name()),
      .port = Shortened(neighbour.port()),
      .ip = Ipv4{neighbour.ip()},
      .mac = MacOf(neighbour.mac()),
      .version = Shortened(neighbour.version()),
      .heard_by = proto::HeardBy_IsValid(neighbour.heard_by()) ? static_cast<HeardBy>(neighbour.heard_by())
                                                               : HeardBy::kUnknown};
}

PortState PortFromProto(const proto::PortInfo& port) {
  PortState out{.name = port.name(),
                .mtu = port.mtu(),
                .up = port.up(),
                .super_frames = port.super_frames(),
                .rate_mbps = port.rate_mbps()};
  for (const proto::Neighbour& neighbour : port.neighbours())
    out.neighbours.push_back(NeighbourFromProto(neighbour));
  return out;
}

// Who states no operations is of an earlier version, and has those that it had. Names that are not known here
// are a later version's.
Abilities AbilitiesOf(const proto::Capability& capability) {
  if (capability.operations().empty()) return Abilities::First();
  Abilities out;
  out.turns = capability.turns();
  out.priorities = capability.priorities();
  for (const std::string& name : capability.types()) out.Add(TypeNamed(name).value_or(DataType::kNone));
  for (const std::string& name : capability.operations()) out.Add(OpNamed(name).value_or(ReduceOp::kNone));
  return out;
}

// A kind that is not known here is a later version's, and as good as none.
StatusCode CodeOf(proto::RefusalKind kind) {
  switch (kind) {
    case proto::REFUSAL_CONFIG:
      return StatusCode::kInvalidArgument;
    case proto::REFUSAL_IN_USE:
      return StatusCode::kAlreadyExists;
    case proto::REFUSAL_MEMORY:
      return StatusCode::kResourceExhausted;
    case proto::REFUSAL_MODE:
      return StatusCode::kUnimplemented;
    default:
      return StatusCode::kUnknown;
  }
}

}  // namespace

EngineReport FromProto(const proto::EngineInfo& info) {
  EngineReport out;
  out.name = info.name();
  out.address = Ipv4{info.address()};
  out.mac = MacOf(info.mac());
  out.boot_id = info.boot_id();
  out.max_path_mtu = info.capability().max_path_mtu();
  out.max_children = info.capability().max_children();
  for (const int number : info.capability().modes()) {
    const auto mode = static_cast<Mode>(std::clamp<int>(number, 0, UINT8_MAX));  // none stays none
    if (CanBeChosen(mode)) out.modes.Add(mode);
  }
  out.abilities = AbilitiesOf(info.capability());
  out.version = Shortened(info.version());
  out.by_hosts = !info.capability().operations().empty();
  out.blocks = info.capability().blocks();
  out.group_ports = info.capability().group_ports();
  out.arena_bytes = std::min(info.capability().arena_bytes(), kMostArenaBytes);
  out.arena_bytes -= std::min(info.capability().pool().bytes(), out.arena_bytes);
  out.pool_buffer_bytes = info.capability().pool().buffer_bytes();
  for (const proto::PortInfo& port : info.ports()) out.ports.push_back(PortFromProto(port));
  for (const proto::RefusedEndpoint& refused : info.refused()) {
    out.refused.push_back({.group_id = refused.group_id(),
                           .generation = refused.generation(),
                           .local_qpn = refused.local_qpn(),
                           .reason = Shortened(refused.reason()),
                           .port = Shortened(refused.port()),
                           .source = Ipv4{refused.source()},
                           .packets = refused.packets(),
                           .time = static_cast<Nanos>(std::min(refused.ms(), kMostMs)) * kMillisecond});
  }
  return out;
}

ContextReports ContextsOf(const proto::EngineInfo& info) {
  ContextReports contexts;
  for (const uint64_t id : info.group_ids()) contexts[id] = {};
  for (const proto::ContextInfo& context : info.contexts()) {
    ContextReport& report = contexts[context.group_id()];
    report = {.generation = context.generation(), .stopped = context.stopped()};
    if (!context.has_leg()) continue;
    const proto::LegEnd why = context.leg().why();
    const bool known = proto::LegEnd_IsValid(why) && why != proto::LEG_END_UNSPECIFIED;
    report.leg_end = known ? static_cast<LegEnd>(why) : LegEnd::kOther;
    report.leg_message = Shortened(context.leg().message());
  }
  return contexts;
}

InstallAnswer FromProto(const proto::InstallReply& reply) {
  if (!reply.has_refusal()) return {.arena_bytes = reply.arena_bytes()};
  const proto::Refusal& refusal = reply.refusal();
  InstallAnswer answer{.status = MakeStatus(CodeOf(refusal.kind()), refusal.message())};
  if (refusal.kind() == proto::REFUSAL_MEMORY && refusal.needed_bytes() != 0) {
    answer.shortage = {
        .needed = refusal.needed_bytes(), .left = refusal.left_bytes(), .all = refusal.all_bytes()};
  }
  return answer;
}

void AddTrouble(const proto::DumpReply& tables, uint64_t group_id, proto::TreeNode* node) {
  using Counters = google::protobuf::RepeatedPtrField<proto::Counter>;
  const auto value = [](const Counters& counters, std::string_view name) {
    const auto it = std::ranges::find(counters, name, &proto::Counter::name);
    return it == counters.end() ? 0 : it->value();
  };
  for (const proto::GroupDump& group : tables.groups()) {
    if (group.config().group_id() != group_id) continue;
    const auto add = [node](const char* name, uint64_t count) {
      proto::Counter& counter = *node->add_trouble();
      counter.set_name(name);
      counter.set_value(count);
    };
    // drop_duplicate: what children, hosts among them, have sent again.
    for (const char* name : {"repeats", "drop_duplicate", "drop_gap", "drop_above_window", "drop_wrong_port",
                             "rnr_naks_received"})
      add(name, value(group.counters(), name));
    // What no repetition cures is rare enough to be told only where there is any.
    for (const char* name : {"drop_stranger", "drop_bad_pkey", "drop_unexpected_opcode", "drop_bad_length",
                             "drop_bad_control"}) {
      if (const uint64_t count = value(group.counters(), name); count != 0) add(name, count);
    }
    if (group.has_server()) {
      for (const char* name : {"claims", "evictions", "downgrades", "passes", "splits", "server_bytes_sent",
                               "server_bytes_back"}) {
        proto::Counter& counter = *node->add_pool();
        counter.set_name(name);
        counter.set_value(value(group.counters(), name));
      }
    }
    uint64_t rnr_naks = value(group.parent().counters(), "rnr_naks_sent");
    for (const proto::EndpointDump& child : group.children())
      rnr_naks += value(child.counters(), "rnr_naks_sent");
    add("rnr_naks_sent", rnr_naks);
  }
}

}  // namespace epic::manager
