// Lets what the switches of a virtual-time world receive and send be watched in order.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "check/conform/monitor.h"
#include "sim/collectives.h"
#include "sim/world.h"

namespace epic::conform {

// A packet that reaches a switch (in) or leaves it.
struct Crossing {
  int node = 0;
  bool in = false;
  PortId port = kNoPort;
  const roce::Packet* packet = nullptr;  // valid during the call
};

// The port of the endpoint that the packet is to or from; kNoPort if it is none's.
inline PortId PortOf(const sim::World& world, const sim::LinkPacket& seen, bool in) {
  const int node = in ? seen.to : seen.from;
  if (!world.HasContext(node, seen.group)) return kNoPort;
  const engine::GroupConfig& config = world.context(node, seen.group).config;
  const auto is = [&](const engine::EndpointConfig& endpoint) {
    return in ? endpoint.local_qpn == seen.packet->bth.dest_qp
              : endpoint.remote_qpn == seen.packet->bth.dest_qp && endpoint.remote_ip == seen.packet->dst_ip;
  };
  if (config.parent && is(*config.parent)) return config.parent->port;
  for (const engine::EndpointConfig& child : config.children) {
    if (is(child)) return child.port;
  }
  return kNoPort;
}

// Tells `on` of every packet at every switch; `rule` is the world's fault rule (none: all is delivered).
inline void Watch(sim::World& world, sim::World::FaultRule rule, std::function<void(const Crossing&)> on) {
  world.SetFaultRule([&world, rule, on](const sim::LinkPacket& seen) {
    if (seen.from < world.switches()) on({seen.from, false, PortOf(world, seen, false), seen.packet});
    return rule ? rule(seen) : sim::Fate::kDeliver;
  });
  world.SetArrivalWatch([&world, on](const sim::LinkPacket& seen, bool) {
    if (seen.to < world.switches()) on({seen.to, true, PortOf(world, seen, true), seen.packet});
  });
}

// A Monitor at every switch of a world, with the groups that it has when this is made.
class Monitors {
 public:
  Monitors(sim::World& world, sim::World::FaultRule rule) : monitors_(static_cast<size_t>(world.switches())) {
    Watch(world, std::move(rule), [this, &world](const Crossing& c) {
      std::optional<Monitor>& monitor = monitors_[static_cast<size_t>(c.node)];
      if (!monitor) {
        monitor.emplace(sim::AddressOf(c.node));
        for (int g = 0; g < world.groups(); ++g) {
          if (world.HasContext(c.node, g)) monitor->OnInstall(world.context(c.node, g).config);
        }
      }
      ++events_;
      if (!c.in) return monitor->OnPacketOut(events_, c.port, *c.packet);
      monitor->OnPacketIn(c.port, *c.packet);
      monitor->OnUnknownStep();  // the world does not tell of timers
    });
  }

  // By switch; none for one that has had no packet.
  const std::vector<std::optional<Monitor>>& all() const { return monitors_; }

 private:
  std::vector<std::optional<Monitor>> monitors_;
  uint64_t events_ = 0;
};

}  // namespace epic::conform
