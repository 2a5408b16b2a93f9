#include <fmt/format.h>

#include <string>
#include <vector>

#include "incmanager/cli/render.h"
#include "incmanager/cli/table.h"

namespace epic::manager {
namespace {

// "switch leaf1 swp3 10.0.255.1 02:e1:0a:00:ff:01 version 0.1.0 (LLDP)", with what was told.
std::string NeighbourText(const proto::Neighbour& neighbour) {
  const auto kind = [&]() -> std::string {
    switch (neighbour.kind()) {
      case proto::NEIGHBOUR_SWITCH:
        return "switch";
      case proto::NEIGHBOUR_HOST:
        return "host";
      case proto::NEIGHBOUR_BRIDGE:
        return "bridge";
      default:
        return "unknown";
    }
  };
  const auto heard_by = [&]() -> std::string {
    switch (neighbour.heard_by()) {
      case proto::HEARD_BY_LLDP:
        return "LLDP";
      case proto::HEARD_BY_SECOND_ADDRESS:
        return "second address";
      case proto::HEARD_BY_ARP:
        return "ARP";
      default:
        return "-";
    }
  };
  std::string out = kind();
  for (const std::string& text : {neighbour.name(), neighbour.port()}) {
    if (!text.empty()) out += " " + text;
  }
  if (neighbour.ip() != 0) out += " " + Ip(neighbour.ip());
  out += " " + MacText(neighbour.mac());
  if (!neighbour.version().empty()) out += " version " + neighbour.version();
  return fmt::format("{} ({})", out, heard_by());
}

}  // namespace

std::string RenderPorts(const proto::EngineInfo& info) {
  std::vector<std::vector<std::string>> ports{
      {"port", "state", "MTU", "Mbit/s", "rx frames", "tx frames", "neighbour"}};
  for (const proto::PortInfo& port : info.ports()) {
    ports.push_back({port.name(), port.up() ? "up" : "down", fmt::format("{}", port.mtu()),
                     port.rate_mbps() == 0 ? "-" : fmt::format("{}", port.rate_mbps()),
                     fmt::format("{}", port.rx_frames()), fmt::format("{}", port.tx_frames()),
                     port.neighbours().empty() ? "-" : NeighbourText(port.neighbours(0))});
    for (int i = 1; i < port.neighbours_size(); ++i)
      ports.push_back({"", "", "", "", "", "", NeighbourText(port.neighbours(i))});
  }
  return "ports\n" + Table(ports, "  ");
}

}  // namespace epic::manager
