#include "inchost/hello.h"

#include <fmt/format.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "roce/lldp.h"

namespace epic::host {
namespace {

constexpr uint16_t kHoldSeconds = 3;
constexpr size_t kLeastFrameBytes = 60;  // of Ethernet

// A socket that only sends; -1 and errno.
int OpenSocket(const std::string& device) {
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_ifindex = static_cast<int>(if_nametoindex(device.c_str()));
  if (address.sll_ifindex != 0 && bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0)
    return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

}  // namespace

std::vector<uint8_t> HelloOf(const proto::HostInfo& info, const proto::HostPort& port, bool second_address) {
  roce::MacAddress mac{};
  std::copy_n(port.mac().begin(), std::min(port.mac().size(), mac.size()), mac.begin());
  std::vector<uint8_t> frame(roce::kMaxLldpFrameBytes);
  const std::string name = info.name().substr(0, 255), version = info.version().substr(0, 255);
  const size_t bytes = roce::WriteLldp(
      {.dst = second_address ? roce::kHelloMac : roce::kLldpMac,
       .src = mac,
       .chassis_kind = roce::ChassisKind::kMac,
       .chassis = port.mac(),
       .port_kind = roce::PortKind::kInterface,
       .port = port.ifname(),
       .ttl_s = kHoldSeconds,
       .port_description = {},
       .system_name = name,
       .system_description = {},
       .capabilities = roce::LldpCapabilities{roce::kCapabilityStation, roce::kCapabilityStation},
       .management = Ipv4{port.ip()},
       .role = roce::EpicRole::kHost,
       .version = version},
      frame);
  frame.resize(std::max(bytes, kLeastFrameBytes));
  return frame;
}

Hellos::~Hellos() {
  for (const auto& [device, fd] : sockets_) close(fd);
}

std::string Hellos::Say(const proto::HostInfo& info) {
  std::string wrong;
  std::map<std::string, int> kept;
  std::set<std::string> done;
  for (const proto::HostPort& port : info.ports()) {
    // Of a device with several addresses the first: to a switch it is one neighbour.
    if (!done.insert(port.ifname()).second) continue;
    const auto known = sockets_.extract(port.ifname());
    const int fd = known.empty() ? OpenSocket(port.ifname()) : known.mapped();
    bool said = fd >= 0;
    for (const bool second_address : {false, true}) {
      if (!said) break;
      const std::vector<uint8_t> frame = HelloOf(info, port, second_address);
      said = send(fd, frame.data(), frame.size(), 0) == static_cast<ssize_t>(frame.size());
    }
    if (!said) wrong = fmt::format("{}: {}", port.ifname(), std::strerror(errno));
    if (said) {
      kept[port.ifname()] = fd;
    } else if (fd >= 0) {
      close(fd);  // the device may have gone and come again
    }
  }
  for (const auto& [device, fd] : sockets_) close(fd);
  sockets_ = std::move(kept);
  return wrong;
}

}  // namespace epic::host
