#include "io/ipv6_route.h"

#include <arpa/inet.h>
#include <linux/neighbour.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

#include "io/netlink.h"

namespace epic::io {
namespace {

constexpr uint16_t kDiscardPort = 9;

}  // namespace

std::optional<Ip> Ipv6NextHop(uint32_t interface_index, Ip to) {
  if (to.is_link_local()) return to;
  NetlinkQuestion question(RTM_GETROUTE, rtmsg{.rtm_family = AF_INET6, .rtm_dst_len = 128});
  question.Add(RTA_DST, to.bytes().data(), Ip::kBytes);
  question.Add(RTA_OIF, &interface_index, sizeof interface_index);
  const nlmsghdr* answer = question.Ask(RTM_NEWROUTE);
  const auto route = answer != nullptr ? FamilyOf<rtmsg>(*answer) : std::nullopt;
  if (!route || (route->rtm_type != RTN_UNICAST && route->rtm_type != RTN_LOCAL)) return std::nullopt;
  const auto gateway = AttributeOf(*answer, sizeof *route, RTA_GATEWAY);
  return gateway.size() == Ip::kBytes ? Ip::Of(gateway.data()) : to;
}

std::optional<Ipv6Neighbour> KernelIpv6Neighbour(uint32_t interface_index, Ip ip) {
  NetlinkQuestion question(RTM_GETNEIGH,
                           ndmsg{.ndm_family = AF_INET6, .ndm_ifindex = static_cast<int>(interface_index)});
  question.Add(NDA_DST, ip.bytes().data(), Ip::kBytes);
  const nlmsghdr* answer = question.Ask(RTM_NEWNEIGH);
  const auto head = answer != nullptr ? FamilyOf<ndmsg>(*answer) : std::nullopt;
  if (!head) return std::nullopt;
  constexpr int kFresh = NUD_REACHABLE | NUD_PERMANENT | NUD_NOARP | NUD_DELAY | NUD_PROBE;
  constexpr int kKnown = kFresh | NUD_STALE;
  Ipv6Neighbour neighbour{.fresh = (head->ndm_state & kFresh) != 0};
  const auto mac = AttributeOf(*answer, sizeof *head, NDA_LLADDR);
  if ((head->ndm_state & kKnown) == 0 || mac.size() != neighbour.mac.size()) return std::nullopt;
  std::ranges::copy(mac, neighbour.mac.begin());
  return neighbour;
}

void AskForIpv6Neighbour(int udp_fd, uint32_t interface_index, Ip ip) {
  // By this interface, whatever the routing table would prefer.
  const int index = static_cast<int>(htonl(interface_index));
  if (setsockopt(udp_fd, IPPROTO_IPV6, IPV6_UNICAST_IF, &index, sizeof index) != 0) return;
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(kDiscardPort);
  to.sin6_scope_id = ip.is_link_local() ? interface_index : 0;
  std::ranges::copy(ip.bytes(), to.sin6_addr.s6_addr);
  sendto(udp_fd, nullptr, 0, MSG_DONTWAIT | MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&to), sizeof to);
}

}  // namespace epic::io
