#include "io/ipv6_route.h"

#include <arpa/inet.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "io/descriptor.h"

namespace epic::io {
namespace {

constexpr uint16_t kDiscardPort = 9;

// A question that is put together: header, family header, attributes. Far below the kernel's bounds.
class Request {
 public:
  template <typename Family>
  Request(uint16_t type, const Family& family) {
    auto* header = new (bytes_.data()) nlmsghdr{};
    header->nlmsg_type = type;
    header->nlmsg_flags = NLM_F_REQUEST;
    Append(&family, sizeof family);
  }
  void Add(uint16_t type, const void* value, size_t bytes) {
    const rtattr head{.rta_len = static_cast<uint16_t>(RTA_LENGTH(bytes)), .rta_type = type};
    Append(&head, sizeof head);
    Append(value, bytes);
  }
  std::span<const uint8_t> bytes() {
    const auto length = static_cast<uint32_t>(size_);
    std::memcpy(bytes_.data(), &length, sizeof length);  // nlmsg_len, the first field
    return std::span(bytes_).first(size_);
  }

 private:
  // Every part begins at a multiple of four bytes.
  void Append(const void* from, size_t bytes) {
    size_ = NLMSG_ALIGN(size_);
    std::memcpy(bytes_.data() + size_, from, bytes);
    size_ += bytes;
  }

  alignas(nlmsghdr) std::array<uint8_t, 128> bytes_{};
  size_t size_ = sizeof(nlmsghdr);
};

// The kernel's answer, one message; its type and what follows the header. Nothing if there is an error.
class Answer {
 public:
  explicit Answer(std::span<const uint8_t> request) {
    const Descriptor fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    if (!fd) return;
    sockaddr_nl kernel{};
    kernel.nl_family = AF_NETLINK;
    if (sendto(fd.get(), request.data(), request.size(), 0, reinterpret_cast<const sockaddr*>(&kernel),
               sizeof kernel) < 0) {
      return;
    }
    const ssize_t bytes = recv(fd.get(), bytes_.data(), bytes_.size(), 0);
    nlmsghdr header;
    if (bytes < static_cast<ssize_t>(sizeof header)) return;
    std::memcpy(&header, bytes_.data(), sizeof header);
    if (header.nlmsg_type == NLMSG_ERROR || header.nlmsg_len > static_cast<size_t>(bytes)) return;
    type_ = header.nlmsg_type;
    body_ = std::span(bytes_).first(header.nlmsg_len).subspan(NLMSG_HDRLEN);
  }
  // The family header of a message of this type.
  template <typename Family>
  std::optional<Family> Head(uint16_t type) const {
    if (type_ != type || body_.size() < sizeof(Family)) return std::nullopt;
    Family family;
    std::memcpy(&family, body_.data(), sizeof family);
    return family;
  }
  // An attribute behind the family header; empty if there is none.
  std::span<const uint8_t> Attribute(size_t family_bytes, uint16_t type) const {
    for (size_t at = NLMSG_ALIGN(family_bytes); at + sizeof(rtattr) <= body_.size();) {
      rtattr head;
      std::memcpy(&head, body_.data() + at, sizeof head);
      if (head.rta_len < sizeof head || at + head.rta_len > body_.size()) break;
      if (head.rta_type == type)
        return body_.subspan(at + RTA_LENGTH(0), head.rta_len - size_t{RTA_LENGTH(0)});
      at += RTA_ALIGN(head.rta_len);
    }
    return {};
  }

 private:
  std::array<uint8_t, 4096> bytes_;
  uint16_t type_ = NLMSG_ERROR;
  std::span<const uint8_t> body_;
};

}  // namespace

std::optional<Ip> Ipv6NextHop(uint32_t interface_index, Ip to) {
  if (to.is_link_local()) return to;
  Request request(RTM_GETROUTE, rtmsg{.rtm_family = AF_INET6, .rtm_dst_len = 128});
  request.Add(RTA_DST, to.bytes().data(), Ip::kBytes);
  request.Add(RTA_OIF, &interface_index, sizeof interface_index);
  const Answer answer(request.bytes());
  const auto route = answer.Head<rtmsg>(RTM_NEWROUTE);
  if (!route || (route->rtm_type != RTN_UNICAST && route->rtm_type != RTN_LOCAL)) return std::nullopt;
  const auto gateway = answer.Attribute(sizeof *route, RTA_GATEWAY);
  return gateway.size() == Ip::kBytes ? Ip::Of(gateway.data()) : to;
}

std::optional<Ipv6Neighbour> KernelIpv6Neighbour(uint32_t interface_index, Ip ip) {
  Request request(RTM_GETNEIGH,
                  ndmsg{.ndm_family = AF_INET6, .ndm_ifindex = static_cast<int>(interface_index)});
  request.Add(NDA_DST, ip.bytes().data(), Ip::kBytes);
  const Answer answer(request.bytes());
  const auto head = answer.Head<ndmsg>(RTM_NEWNEIGH);
  if (!head) return std::nullopt;
  constexpr int kFresh = NUD_REACHABLE | NUD_PERMANENT | NUD_NOARP | NUD_DELAY | NUD_PROBE;
  constexpr int kKnown = kFresh | NUD_STALE;
  Ipv6Neighbour neighbour{.fresh = (head->ndm_state & kFresh) != 0};
  const auto mac = answer.Attribute(sizeof *head, NDA_LLADDR);
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
