#include "io/link_watch.h"

#include <fmt/format.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace epic::io {
namespace {

constexpr size_t kReadBytes = 32768;  // more than the kernel ever gives at once

// The value of IFLA_IFNAME behind the family header; empty if there is none.
std::string NameIn(std::span<const uint8_t> attributes) {
  rtattr head;
  while (attributes.size() >= sizeof head) {
    std::memcpy(&head, attributes.data(), sizeof head);
    if (head.rta_len < sizeof head || head.rta_len > attributes.size()) break;
    if (head.rta_type == IFLA_IFNAME) {
      const auto value = attributes.first(head.rta_len).subspan(RTA_LENGTH(0));
      return {value.begin(), std::find(value.begin(), value.end(), 0)};
    }
    attributes = attributes.subspan(std::min<size_t>(RTA_ALIGN(head.rta_len), attributes.size()));
  }
  return {};
}

// Calls handler(type, body) for each message that is whole.
template <typename Handler>
void ForEachMessage(std::span<const uint8_t> messages, const Handler& handler) {
  nlmsghdr head;
  while (messages.size() >= sizeof head) {
    std::memcpy(&head, messages.data(), sizeof head);
    if (head.nlmsg_len < sizeof head || head.nlmsg_len > messages.size()) break;
    handler(head.nlmsg_type, messages.first(head.nlmsg_len).subspan(NLMSG_HDRLEN));
    messages = messages.subspan(std::min<size_t>(NLMSG_ALIGN(head.nlmsg_len), messages.size()));
  }
}

}  // namespace

std::vector<std::string> InterfacesIn(std::span<const uint8_t> messages) {
  std::vector<std::string> names;
  ForEachMessage(messages, [&names](uint16_t type, std::span<const uint8_t> body) {
    const bool link = type == RTM_NEWLINK || type == RTM_DELLINK;
    constexpr size_t kFamilyBytes = NLMSG_ALIGN(sizeof(ifinfomsg));
    if (!link || body.size() < kFamilyBytes) return;
    if (std::string name = NameIn(body.subspan(kFamilyBytes)); !name.empty())
      names.push_back(std::move(name));
  });
  return names;
}

void ForEachChange(std::span<const uint8_t> messages, LinkWatch::ChangeHandler handler, void* user) {
  using Kind = InterfaceChange::Kind;
  ForEachMessage(messages, [&](uint16_t type, std::span<const uint8_t> body) {
    if (type == RTM_NEWADDR || type == RTM_DELADDR) {
      ifaddrmsg address;
      if (body.size() < sizeof address) return;
      std::memcpy(&address, body.data(), sizeof address);
      handler(user, {.kind = Kind::kAddresses, .index = address.ifa_index});
      return;
    }
    ifinfomsg link;
    if ((type != RTM_NEWLINK && type != RTM_DELLINK) || body.size() < sizeof link) return;
    std::memcpy(&link, body.data(), sizeof link);
    // Others are of what the interface is to a bridge: one that leaves it has not gone.
    if (link.ifi_family != AF_UNSPEC) return;
    constexpr unsigned kUp = IFF_UP | IFF_RUNNING;
    handler(user, {.kind = type == RTM_DELLINK ? Kind::kGone : Kind::kState,
                   .index = static_cast<uint32_t>(link.ifi_index),
                   .up = (link.ifi_flags & kUp) == kUp});
  });
}

StatusOr<LinkWatch> LinkWatch::Open(bool addresses) {
  Descriptor fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  sockaddr_nl own{};
  own.nl_family = AF_NETLINK;
  own.nl_groups = RTMGRP_LINK;
  if (addresses) own.nl_groups |= RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (!fd || bind(fd.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0) {
    return MakeStatus(StatusCode::kUnavailable,
                      fmt::format("the kernel does not tell of changed links: {}", std::strerror(errno)));
  }
  return StatusOr<LinkWatch>(LinkWatch(std::move(fd)));
}

template <typename Handler>
bool LinkWatch::ReadAll(const Handler& handler) {
  bool lost = false;
  std::array<uint8_t, kReadBytes> bytes;
  for (;;) {
    sockaddr_nl from{};
    socklen_t from_bytes = sizeof from;
    const ssize_t got = recvfrom(fd_.get(), bytes.data(), bytes.size(), MSG_TRUNC,
                                 reinterpret_cast<sockaddr*>(&from), &from_bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == ENOBUFS) {  // more than it keeps for us
      lost = true;
      continue;
    }
    if (got <= 0) return lost;
    if (from.nl_pid != 0) continue;  // not the kernel
    if (static_cast<size_t>(got) > bytes.size()) {
      lost = true;
      continue;
    }
    handler(std::span(bytes).first(static_cast<size_t>(got)));
  }
}

bool LinkWatch::Read(std::span<const std::string> interfaces) {
  bool changed = false;
  const bool lost = ReadAll([&](std::span<const uint8_t> messages) {
    for (const std::string& name : InterfacesIn(messages))
      changed |= std::find(interfaces.begin(), interfaces.end(), name) != interfaces.end();
  });
  return changed || lost;
}

bool LinkWatch::ReadChanges(ChangeHandler handler, void* user) {
  return !ReadAll([&](std::span<const uint8_t> messages) { ForEachChange(messages, handler, user); });
}

}  // namespace epic::io
