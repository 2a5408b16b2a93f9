#include "io/interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>

#include "base/check.h"
#include "io/descriptor.h"
#include "io/netlink.h"

namespace epic::io {

InterfaceState ReadInterface(const std::string& interface) {
  const std::optional<InterfaceState> state = TryReadInterface(interface);
  EPIC_CHECK(state);
  return *state;
}

std::optional<InterfaceState> TryReadInterface(const std::string& interface) {
  const Descriptor socket_fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket_fd) return std::nullopt;
  return ReadInterface(interface, socket_fd.get());
}

InterfaceState ReadInterface(const std::string& interface, int any_socket) {
  ifreq request{};
  if (interface.empty() || interface.size() >= sizeof request.ifr_name) return {};
  interface.copy(request.ifr_name, interface.size());
  InterfaceState state;
  if (ioctl(any_socket, SIOCGIFFLAGS, &request) == 0) {
    state.exists = true;
    constexpr int kUp = IFF_UP | IFF_RUNNING;
    state.up = (request.ifr_flags & kUp) == kUp;
    if (ioctl(any_socket, SIOCGIFMTU, &request) == 0) state.mtu = static_cast<uint32_t>(request.ifr_mtu);
  }
  return state;
}

std::optional<uint32_t> ReadTimesDown(const std::string& interface) {
  if (interface.empty() || interface.size() >= IFNAMSIZ) return std::nullopt;
  NetlinkQuestion question(RTM_GETLINK, ifinfomsg{});
  question.Add(IFLA_IFNAME, interface.c_str(), interface.size() + 1);
  const nlmsghdr* answer = question.Ask(RTM_NEWLINK);
  return answer != nullptr ? TimesDownIn(*answer) : std::nullopt;
}

uint32_t ReadRateMbps(const std::string& interface) {
  const Descriptor socket_fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  if (!socket_fd || interface.empty() || interface.size() >= sizeof request.ifr_name) return 0;
  interface.copy(request.ifr_name, interface.size());
  ethtool_cmd settings{};
  settings.cmd = ETHTOOL_GSET;  // the old way: one question, and every driver answers it
  request.ifr_data = reinterpret_cast<char*>(&settings);
  if (ioctl(socket_fd.get(), SIOCETHTOOL, &request) != 0) return 0;
  const uint32_t mbps = ethtool_cmd_speed(&settings);
  return mbps == static_cast<uint32_t>(SPEED_UNKNOWN) || mbps == UINT16_MAX ? 0 : mbps;
}

namespace {

// The addresses of this version that the interface has.
void AppendAddresses(const ifaddrs* list, int family, const std::string& interface, std::vector<Ip>* to) {
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != family || at->ifa_name != interface) continue;
    if (family == AF_INET) {
      const auto* address = reinterpret_cast<const sockaddr_in*>(at->ifa_addr);
      to->emplace_back(Ipv4{ntohl(address->sin_addr.s_addr)});
    } else {
      const auto* address = reinterpret_cast<const sockaddr_in6*>(at->ifa_addr);
      to->push_back(Ip::Of(address->sin6_addr.s6_addr));
    }
  }
}

}  // namespace

std::vector<AddressedInterface> AddressedInterfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  std::vector<AddressedInterface> found;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET || (at->ifa_flags & IFF_UP) == 0)
      continue;
    if (std::ranges::find(found, at->ifa_name, &AddressedInterface::name) != found.end()) continue;
    const auto* address = reinterpret_cast<const sockaddr_in*>(at->ifa_addr);
    found.push_back({.name = at->ifa_name,
                     .index = if_nametoindex(at->ifa_name),
                     .ip = Ipv4{ntohl(address->sin_addr.s_addr)},
                     .loopback = (at->ifa_flags & IFF_LOOPBACK) != 0});
    for (const int family : {AF_INET, AF_INET6})
      AppendAddresses(list, family, found.back().name, &found.back().addresses);
  }
  std::erase_if(found, [list](AddressedInterface& interface) {
    for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
      if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_PACKET || at->ifa_name != interface.name)
        continue;
      const auto* link = reinterpret_cast<const sockaddr_ll*>(at->ifa_addr);
      std::copy_n(link->sll_addr, interface.mac.size(), interface.mac.begin());
      return link->sll_hatype != ARPHRD_ETHER && link->sll_hatype != ARPHRD_LOOPBACK;
    }
    return true;
  });
  freeifaddrs(list);
  return found;
}

std::optional<std::vector<Ip>> AddressesOf(const std::string& interface) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return std::nullopt;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::vector<Ip> addresses;
  for (const int family : {AF_INET, AF_INET6}) AppendAddresses(list, family, interface, &addresses);
  return addresses;
}

std::optional<std::string> InterfaceName(uint32_t index) {
  std::array<char, IF_NAMESIZE> name{};
  if (if_indextoname(index, name.data()) != nullptr) return name.data();
  return errno == ENXIO ? std::optional<std::string>("") : std::nullopt;
}

std::optional<Ipv4> NextHop(const std::string& interface, Ipv4 to) {
  std::ifstream table("/proc/self/net/route");
  std::string line;
  std::getline(table, line);  // the heading
  std::optional<Ipv4> hop;
  uint32_t longest = 0;
  while (std::getline(table, line)) {
    std::array<char, IF_NAMESIZE> name{};
    uint32_t destination = 0, gateway = 0, flags = 0, mask = 0;
    // Addresses stand as they lie in memory: network byte order, printed as a number of this machine.
    if (std::sscanf(line.c_str(), "%15s %x %x %x %*s %*s %*s %x", name.data(), &destination, &gateway, &flags,
                    &mask) != 5 ||
        interface != name.data() || (flags & 1) == 0) {
      continue;
    }
    if ((Raw(to) & ntohl(mask)) != ntohl(destination) || (hop && ntohl(mask) < longest)) continue;
    longest = ntohl(mask);
    hop = gateway != 0 ? Ipv4{ntohl(gateway)} : to;
  }
  return hop;
}

std::optional<roce::MacAddress> KernelNeighbour(const std::string& interface, Ipv4 ip) {
  std::ifstream table("/proc/self/net/arp");
  std::string line;
  std::getline(table, line);  // the heading
  const in_addr wanted{htonl(Raw(ip))};
  std::array<char, INET_ADDRSTRLEN> text{};
  inet_ntop(AF_INET, &wanted, text.data(), text.size());
  constexpr unsigned kComplete = 0x2;  // ATF_COM
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string address, type, flags, mac, mask, device;
    words >> address >> type >> flags >> mac >> mask >> device;
    if (address != text.data() || device != interface) continue;
    if ((std::stoul(flags, nullptr, 16) & kComplete) == 0) return std::nullopt;
    roce::MacAddress parsed{};
    if (std::sscanf(mac.c_str(), "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &parsed[0], &parsed[1], &parsed[2],
                    &parsed[3], &parsed[4], &parsed[5]) != 6) {
      return std::nullopt;
    }
    return parsed;
  }
  return std::nullopt;
}

}  // namespace epic::io
