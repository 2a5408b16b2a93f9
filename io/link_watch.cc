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

}  // namespace

std::vector<std::string> InterfacesIn(std::span<const uint8_t> messages) {
  std::vector<std::string> names;
  nlmsghdr head;
  while (messages.size() >= sizeof head) {
    std::memcpy(&head, messages.data(), sizeof head);
    if (head.nlmsg_len < sizeof head || head.nlmsg_len > messages.size()) break;
    const auto body = messages.first(head.nlmsg_len).subspan(NLMSG_HDRLEN);
    const bool link = head.nlmsg_type == RTM_NEWLINK || head.nlmsg_type == RTM_DELLINK;
    constexpr size_t kFamilyBytes = NLMSG_ALIGN(sizeof(ifinfomsg));
    if (link && body.size() >= kFamilyBytes) {
      if (std::string name = NameIn(body.subspan(kFamilyBytes)); !name.empty())
        names.push_back(std::move(name));
    }
    messages = messages.subspan(std::min<size_t>(NLMSG_ALIGN(head.nlmsg_len), messages.size()));
  }
  return names;
}

StatusOr<LinkWatch> LinkWatch::Open() {
  Descriptor fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  sockaddr_nl own{};
  own.nl_family = AF_NETLINK;
  own.nl_groups = RTMGRP_LINK;
  if (!fd || bind(fd.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0) {
    return MakeStatus(StatusCode::kUnavailable,
                      fmt::format("the kernel does not tell of changed links: {}", std::strerror(errno)));
  }
  return StatusOr<LinkWatch>(LinkWatch(std::move(fd)));
}

bool LinkWatch::Read(std::span<const std::string> interfaces) {
  bool changed = false;
  std::array<uint8_t, kReadBytes> bytes;
  for (;;) {
    sockaddr_nl from{};
    socklen_t from_bytes = sizeof from;
    const ssize_t got = recvfrom(fd_.get(), bytes.data(), bytes.size(), MSG_TRUNC,
                                 reinterpret_cast<sockaddr*>(&from), &from_bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == ENOBUFS) {  // more than it keeps for us
      changed = true;
      continue;
    }
    if (got <= 0) return changed;
    if (from.nl_pid != 0) continue;  // not the kernel
    if (static_cast<size_t>(got) > bytes.size()) {
      changed = true;
      continue;
    }
    for (const std::string& name : InterfacesIn(std::span(bytes).first(static_cast<size_t>(got))))
      changed |= std::find(interfaces.begin(), interfaces.end(), name) != interfaces.end();
  }
}

}  // namespace epic::io
