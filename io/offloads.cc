#include "io/offloads.h"

#include <fmt/format.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "io/descriptor.h"

namespace epic::io {
namespace {

// Asks the interface's driver; `request` is one of ethtool's structures.
bool Ask(int fd, const std::string& interface, void* request) {
  ifreq ask{};
  if (interface.size() >= sizeof ask.ifr_name) return false;
  interface.copy(ask.ifr_name, interface.size());
  ask.ifr_data = static_cast<char*>(request);
  return ioctl(fd, SIOCETHTOOL, &ask) == 0;
}

// One of ethtool's structures that end in an array.
template <typename Head>
Head* Make(std::vector<uint64_t>* memory, size_t tail_bytes) {
  memory->assign((sizeof(Head) + tail_bytes + 7) / 8, 0);
  return reinterpret_cast<Head*>(memory->data());
}

}  // namespace

Offloads ReadOffloads(const std::string& interface) {
  const Descriptor fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return {};
  Offloads offloads;
  ethtool_drvinfo driver{};
  driver.cmd = ETHTOOL_GDRVINFO;
  offloads.virtual_pair =
      Ask(fd.get(), interface, &driver) && std::string_view(driver.driver) == std::string_view("veth");

  std::vector<uint64_t> size_memory, name_memory, state_memory;
  auto* const sizes = Make<ethtool_sset_info>(&size_memory, sizeof(uint32_t));
  sizes->cmd = ETHTOOL_GSSET_INFO;
  sizes->sset_mask = uint64_t{1} << ETH_SS_FEATURES;
  if (!Ask(fd.get(), interface, sizes) || sizes->sset_mask == 0) return offloads;
  const uint32_t count = sizes->data[0];
  auto* const names = Make<ethtool_gstrings>(&name_memory, size_t{count} * ETH_GSTRING_LEN);
  names->cmd = ETHTOOL_GSTRINGS;
  names->string_set = ETH_SS_FEATURES;
  names->len = count;
  const uint32_t blocks = (count + 31) / 32;
  auto* const state = Make<ethtool_gfeatures>(&state_memory, blocks * sizeof(ethtool_get_features_block));
  state->cmd = ETHTOOL_GFEATURES;
  state->size = blocks;
  if (!Ask(fd.get(), interface, names) || !Ask(fd.get(), interface, state)) return offloads;
  for (uint32_t i = 0; i < count; ++i) {
    const auto* const at = reinterpret_cast<const char*>(names->data) + size_t{i} * ETH_GSTRING_LEN;
    const std::string_view name(at, strnlen(at, ETH_GSTRING_LEN));
    const bool on = (state->features[i / 32].active >> (i % 32) & 1) != 0;
    if (name == "tx-checksum-ip-generic") offloads.checksum = on;
    if (name == "tx-udp-segmentation") offloads.udp_segmentation = on;
    if (name == "tx-tcp-segmentation") offloads.tcp_segmentation = on;
    if (name == "tx-generic-segmentation") offloads.segmentation = on;
    if (name == "rx-gro") offloads.receive_merging = on;
  }
  return offloads;
}

std::string WrongOffloads(const std::string& interface, const Offloads& offloads) {
  if (offloads.receive_merging) {
    return fmt::format("{}: received frames are merged to longer ones; ethtool -K {} gro off", interface,
                       interface);
  }
  if (offloads.tcp_segmentation || offloads.segmentation) {
    return fmt::format("{}: TCP leaves in frames longer than the MTU; ethtool -K {} tso off gso off",
                       interface, interface);
  }
  if (offloads.virtual_pair && offloads.checksum && !offloads.udp_segmentation) {
    return fmt::format(
        "{}: checksums are left to the other end, but super-frames are cut; for super-frames, ethtool -K {} "
        "tx-udp-segmentation on, else ethtool -K {} tx off",
        interface, interface, interface);
  }
  return {};
}

}  // namespace epic::io
