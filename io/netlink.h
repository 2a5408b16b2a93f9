// One question to the kernel's rtnetlink, and its answer.
#pragma once

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "io/descriptor.h"

namespace epic::io {

// A question that is put together: header, family header, attributes. Far below the kernel's bounds.
class NetlinkRequest {
 public:
  template <typename Family>
  NetlinkRequest(uint16_t type, const Family& family) {
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
class NetlinkAnswer {
 public:
  explicit NetlinkAnswer(std::span<const uint8_t> request) {
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
  std::array<uint8_t, 8192> bytes_;
  uint16_t type_ = NLMSG_ERROR;
  std::span<const uint8_t> body_;
};

}  // namespace epic::io
