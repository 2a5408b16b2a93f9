#include "sim/restarts/messages.h"

#include <string>

#include "incmanager/rpc/convert.h"

namespace epic::sim {

proto::ClientMessage JoinMessage(const manager::JoinRequest& join, uint64_t nonce) {
  proto::ClientMessage message;
  proto::Join& out = *message.mutable_join();
  out = manager::ToProto(join);
  out.set_rejoins(true);
  out.set_nonce(nonce);
  return message;
}

proto::ClientMessage RejoinMessage(const manager::JoinRequest& join, const proto::Joined& joined) {
  proto::ClientMessage message;
  proto::Rejoin& out = *message.mutable_rejoin();
  out.set_group(join.group);
  out.set_group_id(joined.group_id());
  out.set_generation(joined.generation());
  out.set_rank(join.rank);
  out.set_secret(joined.secret());
  return message;
}

proto::EngineInfo InfoOf(const manager::EngineReport& report) {
  proto::EngineInfo info;
  info.set_name(report.name);
  info.set_address(Raw(report.address));
  info.set_mac(std::string(report.mac.begin(), report.mac.end()));
  info.set_boot_id(report.boot_id);
  info.set_version(report.version);
  proto::Capability& can = *info.mutable_capability();
  for (const Mode mode : AllModes()) {
    if (report.modes.Contains(mode)) can.add_modes(static_cast<proto::Mode>(mode));
  }
  manager::NameTypes(report.abilities, &can);
  manager::NameOperations(report.abilities, &can);
  can.set_turns(report.abilities.turns);
  can.set_priorities(report.abilities.priorities);
  can.set_max_path_mtu(report.max_path_mtu);
  can.set_max_children(report.max_children);
  can.set_arena_bytes(report.arena_bytes);
  can.set_blocks(report.blocks);
  can.set_group_ports(report.group_ports);
  for (const manager::PortState& port : report.ports) {
    proto::PortInfo& out = *info.add_ports();
    out.set_name(port.name);
    out.set_mtu(port.mtu);
    out.set_up(port.up);
    out.set_super_frames(port.super_frames);
  }
  return info;
}

manager::Failure FailureOf(const proto::Failure& failure) {
  return {static_cast<manager::ErrorCode>(failure.code()), failure.message(), failure.rank(),
          failure.switch_name()};
}

}  // namespace epic::sim
