#include "commlib/verbs/ports.h"

#include <net/if.h>

#include <cstring>

namespace epic::verbs {
namespace {

bool IsMappedIpv4(const ibv_gid& gid) {
  static constexpr uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, kPrefix, sizeof kPrefix) == 0;
}

Ipv4 MappedIpv4(const ibv_gid& gid) {
  uint32_t ip = 0;
  for (size_t i = 12; i < 16; ++i) ip = ip << 8 | gid.raw[i];
  return Ipv4{ip};
}

// Of a lane, in Mbit/s, by the code of InfiniBand's PortInfo (LinkSpeedActive and its extension).
uint32_t LaneMbps(uint8_t speed) {
  switch (speed) {
    case 1:
      return 2'500;
    case 2:
      return 5'000;
    case 4:
    case 8:
      return 10'000;
    case 16:
      return 14'000;
    case 32:
      return 25'000;
    case 64:
      return 50'000;
    case 128:
      return 100'000;
    default:
      return 0;
  }
}

uint32_t Lanes(uint8_t width) {
  switch (width) {
    case 1:
      return 1;
    case 2:
      return 4;
    case 4:
      return 8;
    case 8:
      return 12;
    case 16:
      return 2;
    default:
      return 0;
  }
}

}  // namespace

ibv_gid GidOf(Ipv4 ip) {
  ibv_gid gid{};
  gid.raw[10] = gid.raw[11] = 0xff;
  for (unsigned i = 0; i < 4; ++i) gid.raw[12 + i] = static_cast<uint8_t>(Raw(ip) >> (24 - 8 * i));
  return gid;
}

std::vector<Port> PortsOf(ibv_context* context) {
  std::vector<Port> ports;
  std::vector<ibv_gid_entry> entries(256);
  const ssize_t count = ibv_query_gid_table(context, entries.data(), entries.size(), 0);
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& entry = entries[static_cast<size_t>(i)];
    if (entry.gid_type != IBV_GID_TYPE_ROCE_V2 || !IsMappedIpv4(entry.gid)) continue;
    ibv_port_attr attributes{};
    if (ibv_query_port(context, static_cast<uint8_t>(entry.port_num), &attributes) != 0) continue;
    if (attributes.state != IBV_PORT_ACTIVE) continue;
    char ifname[IF_NAMESIZE] = "";
    if_indextoname(entry.ndev_ifindex, ifname);
    ports.push_back({.device = context->device->name,
                     .number = static_cast<uint8_t>(entry.port_num),
                     .gid_index = static_cast<uint8_t>(entry.gid_index),
                     .ip = MappedIpv4(entry.gid),
                     .ifname = ifname,
                     .max_path_mtu = 128u << attributes.active_mtu,  // IBV_MTU_256 is 1
                     .rate_mbps = LaneMbps(attributes.active_speed) * Lanes(attributes.active_width)});
  }
  return ports;
}

std::vector<Port> AllPorts() {
  std::vector<Port> ports;
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  for (int i = 0; list != nullptr && i < count; ++i) {
    ibv_context* context = ibv_open_device(list[i]);
    if (context == nullptr) continue;
    for (Port& port : PortsOf(context)) ports.push_back(std::move(port));
    ibv_close_device(context);
  }
  if (list != nullptr) ibv_free_device_list(list);
  return ports;
}

}  // namespace epic::verbs
