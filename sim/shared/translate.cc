#include "sim/shared/translate.h"

#include <string>

#include "incengine/core/engine.h"
#include "protocol/bounds.h"

namespace epic::sim {
namespace {

engine::EndpointConfig ConfigOf(const manager::EndpointPlan& plan) {
  const auto port_of = [](const std::string& name) {
    return name.empty() ? kNoPort : static_cast<PortId>(std::stoul(name));
  };
  return {.local_qpn = Qpn{plan.local_qpn},
          .remote_ip = plan.remote_ip,
          .remote_qpn = Qpn{plan.remote_qpn},
          .borne_ip = plan.borne_ip,
          .remote_mac = plan.remote_mac,
          .port = port_of(plan.port),
          .ingress_port = port_of(plan.ingress_port),
          .in_psn = Psn(plan.in_psn),
          .out_psn = Psn(plan.out_psn),
          .is_host = plan.is_host,
          .super_frames = plan.super_frames,
          .ranks = plan.ranks};
}

}  // namespace

manager::Topology TopologyOf(World& world, const WorldConfig& config) {
  manager::Topology topology = world.Forwards().topology();
  topology.name = "simulated";
  topology.path_mtu = config.path_mtu;
  for (manager::Node& node : topology.nodes) {
    for (manager::Hop& hop : node.hops) {
      hop.rate_gbps = static_cast<double>(config.bits_per_second) / 1e9;
      hop.delay_us = static_cast<double>(config.link_delay_ns) / 1e3;
    }
  }
  return topology;
}

manager::EngineReport ReportOf(const World& world, const manager::Topology& topology, manager::NodeId node,
                               uint64_t arena_bytes) {
  constexpr uint32_t kHeaders = 104;  // more than any packet's
  const manager::Node& at = topology.nodes[node];
  manager::EngineReport report{.name = at.name,
                               .address = at.address,
                               .mac = at.mac,
                               .boot_id = 1,
                               .max_path_mtu = 4096,
                               .max_children = kMaxChildren,
                               .modes = {},
                               .ports = {},
                               .version = "simulated",
                               .arena_bytes = arena_bytes};
  for (const Mode mode : ModesOfOwnMemory()) {
    if (engine::Engine::Realises(mode)) report.modes.Add(mode);
  }
  for (PortId port = 0; port < at.hops.size(); ++port) {
    report.ports.push_back({.name = at.hops[port].port,
                            .mtu = topology.path_mtu + kHeaders,
                            .up = true,
                            .super_frames = world.TakesSuperFrames(static_cast<int>(node), port)});
  }
  return report;
}

engine::GroupConfig ConfigOf(const manager::ContextPlan& context) {
  engine::GroupConfig config{context};
  if (context.server) config.server = ConfigOf(*context.server);
  if (context.parent) config.parent = ConfigOf(*context.parent);
  for (const manager::EndpointPlan& child : context.children) config.children.push_back(ConfigOf(child));
  return config;
}

HostConfig EndOf(const manager::JoinRequest& join, const manager::JoinedReply& reply) {
  HostConfig end{.local_ip = join.ip,
                 .local_qpn = Qpn{join.qpn},
                 .remote_ip = join.ip,
                 .remote_qpn = Qpn{join.qpn},
                 .path_mtu = reply.path_mtu,
                 .message_packets = 1,
                 .window_messages = 1};
  if (reply.path == manager::Path::kHosts) return end;
  end.remote_ip = reply.remote_ip;
  end.remote_qpn = Qpn{reply.remote_qpn};
  end.send_psn = Psn(reply.send_psn);
  end.recv_psn = Psn(reply.recv_psn);
  end.message_packets = reply.message_packets;
  end.window_messages = reply.window_messages;
  end.inline_bytes = reply.inline_bytes;
  return end;
}

}  // namespace epic::sim
