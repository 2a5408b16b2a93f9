#include "incengine/core/engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "incengine/core/refused.h"
#include "incengine/modes/hold.h"
#include "incengine/modes/table.h"

namespace epic::engine {
namespace {

Endpoint MakeEndpoint(const EndpointConfig& config) {
  Endpoint ep;
  ep.config = config;
  ep.in = Direction(config.in_psn);
  ep.out = Direction(config.out_psn);
  // rxe's range of source ports; any value does, as long as it stays.
  ep.udp_src_port =
      static_cast<uint16_t>(0xc000 | ((Raw(config.local_qpn) ^ Raw(config.remote_qpn)) & 0x3fff));
  return ep;
}

Context MakeContext(const GroupConfig& config) {
  Context ctx;
  ctx.config = config;
  ctx.config.abilities = AbilitiesOf(config);
  ctx.hold = {
      .has_memory = config.block == 0, .most_window = config.window_messages, .most_slots = config.slots};
  for (const EndpointConfig& child : config.children) ctx.children.push_back(MakeEndpoint(child));
  if (config.parent) ctx.parent = MakeEndpoint(*config.parent);
  if (config.server) ctx.server = MakeEndpoint(*config.server);
  for (const EndpointConfig& child : config.children)
    ctx.ranks.insert(ctx.ranks.end(), child.ranks.begin(), child.ranks.end());
  std::sort(ctx.ranks.begin(), ctx.ranks.end());
  ctx.child_of_rank.assign(config.world_size, kNoChild);
  for (size_t c = 0; c < config.children.size(); ++c) {
    for (const uint32_t rank : config.children[c].ranks) ctx.child_of_rank[rank] = static_cast<uint8_t>(c);
  }
  return ctx;
}

Status NoRoom(const Arena& arena, size_t bytes, Shortage* shortage) {
  if (shortage != nullptr) *shortage = {.needed = bytes, .left = arena.free_bytes(), .all = arena.size()};
  return MakeStatus(StatusCode::kResourceExhausted, fmt::format("arena: {} bytes needed, {} of {} bytes left",
                                                                bytes, arena.free_bytes(), arena.size()));
}

const char* Words(LegFailure why) {
  switch (why) {
    case LegFailure::kNone:
      break;
    case LegFailure::kMessage:
      return "it sent a message that was not asked for, or has another kind, index or length";
    case LegFailure::kRefused:
      return "it refused a message";
    case LegFailure::kOverrun:
      return "more messages were under way than it may have";
  }
  return "it has not";
}

// Of an installed group.
const ModeLogic& ModeOf(const Context& ctx) { return RowOf(ctx.config).logic(); }

}  // namespace

Engine::Engine(Ipv4 address, size_t port_count, size_t arena_bytes)
    : address_(address), port_count_(port_count), arena_(arena_bytes) {}

bool Engine::Realises(Mode mode) { return FindRow(mode) != nullptr; }

Status Engine::MakePool(const PoolConfig& config) {
  if (pool_ || !groups_.empty())
    return MakeStatus(StatusCode::kFailedPrecondition,
                      "pool: it is made once, before any group is installed");
  if (const Status valid = Validate(config, arena_.size()); !valid.ok()) return valid;
  const auto offset = Allocate(config.bytes);
  if (!offset) return NoRoom(arena_, config.bytes, nullptr);
  pool_.emplace(config, *offset);
  return absl::OkStatus();
}

Status Engine::CheckPool(const GroupConfig& config) const {
  if (!config.server) return absl::OkStatus();
  if (!pool_) return MakeStatus(StatusCode::kInvalidArgument, "server: this switch has no pool");
  if (AccumulatorRoom(config) <= pool_->config().buffer_bytes) return absl::OkStatus();
  return MakeStatus(StatusCode::kInvalidArgument,
                    fmt::format("path_mtu: sums of {} bytes do not fit into the pool's buffers of {}",
                                AccumulatorRoom(config), pool_->config().buffer_bytes));
}

StatusOr<size_t> Engine::Install(const GroupConfig& config, Shortage* shortage) {
  const Status valid = Validate(config, port_count_);
  if (!valid.ok()) return valid;
  if (!Realises(config.mode)) {
    return MakeStatus(StatusCode::kUnimplemented, fmt::format("mode: this engine does not realise mode {}",
                                                              static_cast<int>(config.mode)));
  }
  if (groups_.contains(config.group_id)) {
    return MakeStatus(StatusCode::kAlreadyExists, fmt::format("group_id {} is installed", config.group_id));
  }
  if (const Status status = CheckPool(config); !status.ok()) return status;
  Context ctx = MakeContext(config);
  const auto taken = [&](const EndpointConfig& ep) { return by_qpn_.contains(Raw(ep.local_qpn)); };
  for (const EndpointConfig& child : config.children) {
    if (taken(child)) {
      return MakeStatus(StatusCode::kAlreadyExists, fmt::format("QPN {:#x} is in use", Raw(child.local_qpn)));
    }
  }
  for (const auto& end : {config.parent, config.server}) {
    if (end && taken(*end))
      return MakeStatus(StatusCode::kAlreadyExists, fmt::format("QPN {:#x} is in use", Raw(end->local_qpn)));
  }
  const ModeRow& row = RowOf(config);
  if (config.block != 0) {
    if (const Status status = InstallInBlock(ctx, shortage); !status.ok()) return status;
  } else {
    ctx.arena_bytes = ArenaBytes(config);
    const auto offset = Allocate(ctx.arena_bytes);
    if (!offset) return NoRoom(arena_, ctx.arena_bytes, shortage);
    ctx.arena_offset = *offset;
    MakeSlots(config, arena_.At(*offset, ctx.arena_bytes));
  }
  if (row.add_state != nullptr) row.add_state(ctx, address_, pool_ ? &*pool_ : nullptr);
  for (size_t i = 0; i < config.children.size(); ++i) {
    by_qpn_[Raw(config.children[i].local_qpn)] = {config.group_id, EndpointId{static_cast<uint8_t>(i)}};
  }
  if (config.parent) by_qpn_[Raw(config.parent->local_qpn)] = {config.group_id, kParent};
  if (config.server) {
    by_qpn_[Raw(config.server->local_qpn)] = {config.group_id, kServer};
    pool_->Join(config.group_id, config.server->remote_ip);
  }
  const size_t bytes = ctx.arena_bytes;
  if (FindMode(config.mode)->bears_hosts) ++bearing_groups_;
  groups_.emplace(config.group_id, std::move(ctx));
  return bytes;
}

std::optional<size_t> Engine::Allocate(size_t bytes) {
  auto offset = arena_.Allocate(bytes);
  if (offset || Arena::RoundUp(bytes) > arena_.free_bytes()) return offset;
  Compact();
  return arena_.Allocate(bytes);
}

void Engine::Compact() {
  if (before_moves_ != nullptr) before_moves_();
  std::map<size_t, size_t> now_at;
  arena_.Compact([&](size_t from, size_t to) { now_at[from] = to; });
  const auto move = [&](size_t& offset) {
    if (const auto it = now_at.find(offset); it != now_at.end()) offset = it->second;
  };
  for (auto& [id, ctx] : groups_) move(ctx.arena_offset);
  for (auto& [id, block] : blocks_) move(block.offset);
}

Status Engine::InstallInBlock(Context& ctx, Shortage* shortage) {
  const GroupConfig& config = ctx.config;
  const size_t bytes = Arena::RoundUp(config.block_bytes);
  if (bytes > arena_.size()) return NoRoom(arena_, bytes, shortage);
  if (RoomIn(config, bytes).window_messages == 0) {
    return MakeStatus(StatusCode::kInvalidArgument,
                      fmt::format("block_bytes: {} of {} have no room for a message both ways",
                                  config.block_bytes, arena_.size()));
  }
  auto it = blocks_.find(config.block);
  if (it == blocks_.end()) {
    const auto offset = Allocate(bytes);
    if (!offset) return NoRoom(arena_, bytes, shortage);
    it = blocks_.insert({config.block, {.offset = *offset, .bytes = bytes}}).first;
  }
  Block& block = it->second;
  block.owners[config.group_id] = bytes;
  Resize(block);
  ctx.arena_bytes = block.bytes;
  return absl::OkStatus();
}

void Engine::Resize(Block& block) {
  size_t wanted = 0;
  for (const auto& [group, bytes] : block.owners) wanted = std::max(wanted, bytes);
  if (block.holder || wanted == block.bytes || wanted > block.bytes + arena_.free_bytes()) return;
  arena_.Free(block.offset);
  block.offset = *Allocate(wanted);
  block.bytes = wanted;
}

void Engine::LeaveBlock(Context& ctx) {
  const auto it = blocks_.find(ctx.config.block);
  Block& block = it->second;
  Free(ctx, block);
  block.owners.erase(ctx.config.group_id);
  if (!block.owners.empty()) return Resize(block);
  arena_.Free(block.offset);
  blocks_.erase(it);
}

void Engine::Remove(uint64_t group_id, uint32_t generation) {
  const auto it = groups_.find(group_id);
  if (it == groups_.end() || it->second.config.generation != generation) return;
  const GroupConfig& config = it->second.config;
  if (FindMode(config.mode)->bears_hosts) --bearing_groups_;
  for (const EndpointConfig& child : config.children) by_qpn_.erase(Raw(child.local_qpn));
  if (config.parent) by_qpn_.erase(Raw(config.parent->local_qpn));
  if (config.server) {
    by_qpn_.erase(Raw(config.server->local_qpn));
    pool_->Leave(group_id);
  }
  if (config.block != 0) {
    LeaveBlock(it->second);
  } else {
    arena_.Free(it->second.arena_offset);
  }
  groups_.erase(it);
}

void Engine::Fail(uint64_t group_id, uint32_t generation) {
  const auto it = groups_.find(group_id);
  if (it == groups_.end() || it->second.config.generation != generation) return;
  it->second.state = GroupState::kStopped;
  if (it->second.pooled) pool_->Leave(group_id);
  if (Block* const block = BlockOf(it->second)) {
    Free(it->second, *block);
    Resize(*block);
  }
}

Status Engine::LegStatus(uint64_t group_id) const {
  const auto it = groups_.find(group_id);
  if (it == groups_.end())
    return MakeStatus(StatusCode::kNotFound, fmt::format("group_id {} is not installed", group_id));
  const Context& ctx = it->second;
  if (!ctx.pooled || ctx.pooled->end == LegFailure::kNone) return absl::OkStatus();
  const uint32_t ip = Raw(ctx.config.server->remote_ip);
  return MakeStatus(StatusCode::kUnavailable,
                    fmt::format("server: the leg to {}.{}.{}.{} has ended: {}", ip >> 24, ip >> 16 & 0xff,
                                ip >> 8 & 0xff, ip & 0xff, Words(ctx.pooled->end)));
}

bool Engine::Bears(const roce::Packet& packet) const {
  if (bearing_groups_ == 0) return false;
  const auto it = by_qpn_.find(Raw(packet.bth.dest_qp));
  if (it == by_qpn_.end() || it->second.endpoint == kParent || it->second.endpoint == kServer) return false;
  const EndpointConfig& end = groups_.at(it->second.group_id).children[Raw(it->second.endpoint)].config;
  return end.borne_ip != Ipv4{} && packet.dst_ip == end.borne_ip && packet.src_ip == end.remote_ip;
}

Env Engine::MakeEnv(Nanos now, Context& ctx, Effects& effects) {
  return {.now = now,
          .address = address_,
          .arena = arena_,
          .effects = effects,
          .block = BlockOf(ctx),
          .pool = pool_ ? &*pool_ : nullptr,
          .groups = &groups_};
}

void Engine::OnPacket(Nanos now, PortId port, const roce::Packet& packet, Effects& effects) {
  const auto it = by_qpn_.find(Raw(packet.bth.dest_qp));
  if (it == by_qpn_.end()) return effects.Drop(port, DropReason::kUnknownQpn);
  Context& ctx = groups_.at(it->second.group_id);
  const EndpointId from = it->second.endpoint;
  Endpoint& ep = ctx.endpoint(from);
  Env env = MakeEnv(now, ctx, effects);
  env.from = &ep;
  ++ep.counters.packets_in;
  DropReason reason = DropReason::kCount;
  if (packet.src_ip != ep.config.remote_ip || packet.dst_ip != LocalAddress(ep.config, address_)) {
    reason = DropReason::kStranger;
  } else if (port != IngressPort(ep.config)) {
    reason = DropReason::kWrongPort;
  } else if ((packet.bth.pkey & 0x7fff) != 0x7fff) {
    reason = DropReason::kBadPkey;
  } else if (ctx.state == GroupState::kStopped) {
    reason = DropReason::kGroupFailed;
  }
  if (reason != DropReason::kCount) {
    Drop(ctx, ep, reason, env);
    return NoteRefusal(now, port, packet.src_ip, reason, &ep);
  }
  const ModeLogic& mode = ModeOf(ctx);
  mode.OnPacket(ctx, from, packet, env);
  if (env.dropped == DropReason::kCount) {
    ep.counters.refusals.packets = 0;
  } else {
    NoteRefusal(now, port, packet.src_ip, env.dropped, &ep);
  }
  if (env.block == nullptr || !ctx.hold.has_memory) return;
  if (FreeWhenDrained(ctx, *env.block, mode.FirstNeeded(ctx))) Resize(*env.block);
}

void Engine::OnTimer(Nanos now, TimerId id, Effects& effects) {
  const auto it = groups_.find(static_cast<uint64_t>(id));
  if (it == groups_.end()) return;
  Context& ctx = it->second;
  ctx.timer_at = kNever;
  if (ctx.state == GroupState::kStopped) return;
  Env env = MakeEnv(now, ctx, effects);
  ModeOf(ctx).OnTimer(ctx, env);
}

}  // namespace epic::engine
