#include "io/link_watch.h"

#include <fmt/format.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "io/netlink.h"
#include "roce/wire.h"

namespace epic::io {
namespace {

constexpr size_t kReadBytes = 32768;  // more than the kernel ever gives at once

std::string_view NameIn(const nlmsghdr& message) {
  const auto name = AttributeOf(message, sizeof(ifinfomsg), IFLA_IFNAME);
  const auto end = std::find(name.begin(), name.end(), 0);
  return {reinterpret_cast<const char*>(name.data()), static_cast<size_t>(end - name.begin())};
}

// An interface's own address: that of a peer, where IFA_ADDRESS is one, is not (rtnetlink(7)).
std::optional<Ip> AddressIn(const nlmsghdr& message) {
  auto bytes = AttributeOf(message, sizeof(ifaddrmsg), IFA_LOCAL);
  if (bytes.empty()) bytes = AttributeOf(message, sizeof(ifaddrmsg), IFA_ADDRESS);
  if (bytes.size() == Ip::kBytes) return Ip::Of(bytes.data());
  if (bytes.size() != sizeof(Ipv4)) return std::nullopt;
  return Ip(Ipv4{roce::LoadBe32(bytes.data())});
}

}  // namespace

void ForEachChange(std::span<const uint8_t> messages, LinkWatch::ChangeHandler handler, void* user) {
  using Kind = InterfaceChange::Kind;
  ForEachMessage(messages, [&](const nlmsghdr& message) {
    const uint16_t type = message.nlmsg_type;
    if (type == RTM_NEWADDR || type == RTM_DELADDR) {
      if (const auto address = FamilyOf<ifaddrmsg>(message))
        handler(user, {.kind = Kind::kAddresses,
                       .index = address->ifa_index,
                       .gone_address = type == RTM_DELADDR ? AddressIn(message) : std::nullopt});
      return;
    }
    if (type != RTM_NEWLINK && type != RTM_DELLINK) return;
    const auto link = FamilyOf<ifinfomsg>(message);
    // Others are of what the interface is to a bridge: one that leaves it has not gone.
    if (!link || link->ifi_family != AF_UNSPEC) return;
    constexpr unsigned kUp = IFF_UP | IFF_RUNNING;
    handler(user, {.kind = type == RTM_DELLINK ? Kind::kGone : Kind::kState,
                   .index = static_cast<uint32_t>(link->ifi_index),
                   .up = (link->ifi_flags & kUp) == kUp,
                   .name = NameIn(message),
                   .times_down = TimesDownIn(message)});
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
  alignas(nlmsghdr) std::array<uint8_t, kReadBytes> bytes;
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

bool LinkWatch::ReadChanges(ChangeHandler handler, void* user) {
  return !ReadAll([&](std::span<const uint8_t> messages) { ForEachChange(messages, handler, user); });
}

}  // namespace epic::io
