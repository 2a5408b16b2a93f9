#include "inchost/ports.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <sys/socket.h>

#include <map>
#include <string>

#include "commlib/verbs/ports.h"

namespace epic::host {
namespace {

// Of network devices, by name.
std::map<std::string, std::string> Macs() {
  std::map<std::string, std::string> macs;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return macs;
  for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_PACKET) continue;
    const auto& link = *reinterpret_cast<const sockaddr_ll*>(at->ifa_addr);
    macs[at->ifa_name].assign(reinterpret_cast<const char*>(link.sll_addr), 6);
  }
  freeifaddrs(all);
  return macs;
}

}  // namespace

void ReadPorts(proto::HostInfo* info) {
  const std::map<std::string, std::string> macs = Macs();
  info->clear_ports();
  for (const verbs::Port& port : verbs::AllPorts()) {
    const auto mac = macs.find(port.ifname);
    proto::HostPort& out = *info->add_ports();
    out.set_ifname(port.ifname);
    out.set_device(port.device);
    out.set_port(port.number);
    out.set_ip(Raw(port.ip));
    out.set_mac(mac != macs.end() ? mac->second : std::string(6, '\0'));
    out.set_rate_mbps(port.rate_mbps);
    out.set_max_path_mtu(port.max_path_mtu);
  }
}

}  // namespace epic::host
