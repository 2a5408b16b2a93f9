// Messages of the kernel's rtnetlink, by libmnl: a question and its answer, and what a message says.
#pragma once

#include <libmnl/libmnl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace epic::io {

// The family header of a message, if it is long enough to have one.
template <typename Family>
std::optional<Family> FamilyOf(const nlmsghdr& message) {
  if (mnl_nlmsg_get_payload_len(&message) < sizeof(Family)) return std::nullopt;
  Family family;
  std::memcpy(&family, mnl_nlmsg_get_payload(&message), sizeof family);
  return family;
}

// The value of an attribute behind a family header of so many bytes; empty if there is none.
std::span<const uint8_t> AttributeOf(const nlmsghdr& message, size_t family_bytes, uint16_t type);

// How often the interface of an RTM_NEWLINK has lost its carrier, if it says so.
std::optional<uint32_t> TimesDownIn(const nlmsghdr& message);

// Calls handler(message) for each message that is whole. They begin where a message may (NLMSG_ALIGNTO).
template <typename Handler>
void ForEachMessage(std::span<const uint8_t> messages, const Handler& handler) {
  const auto* message = reinterpret_cast<const nlmsghdr*>(messages.data());
  for (int left = static_cast<int>(messages.size()); mnl_nlmsg_ok(message, left);
       message = mnl_nlmsg_next(message, &left)) {
    handler(*message);
  }
}

// A question of a few attributes; far below the kernel's bounds.
class NetlinkQuestion {
 public:
  template <typename Family>
  NetlinkQuestion(uint16_t type, const Family& family) {
    message_->nlmsg_type = type;
    message_->nlmsg_flags = NLM_F_REQUEST;
    std::memcpy(mnl_nlmsg_put_extra_header(message_, sizeof family), &family, sizeof family);
  }
  NetlinkQuestion(const NetlinkQuestion&) = delete;
  NetlinkQuestion& operator=(const NetlinkQuestion&) = delete;

  void Add(uint16_t type, const void* value, size_t bytes) { mnl_attr_put(message_, type, bytes, value); }
  // The kernel's answer, one message of this type, which stays as long as this; null if there is an error.
  const nlmsghdr* Ask(uint16_t answer);

 private:
  alignas(nlmsghdr) std::array<uint8_t, 8192> bytes_{};  // the answer takes the question's place
  nlmsghdr* message_ = mnl_nlmsg_put_header(bytes_.data());
};

}  // namespace epic::io
