#include "io/netlink.h"

#include <sys/socket.h>

#include <memory>

namespace epic::io {

std::span<const uint8_t> AttributeOf(const nlmsghdr& message, size_t family_bytes, uint16_t type) {
  struct Wanted {
    uint16_t type;
    std::span<const uint8_t> value;
  } wanted{type, {}};
  const auto look = [](const nlattr* attribute, void* user) -> int {
    auto* to = static_cast<Wanted*>(user);
    if (mnl_attr_get_type(attribute) != to->type) return MNL_CB_OK;
    to->value = {static_cast<const uint8_t*>(mnl_attr_get_payload(attribute)),
                 mnl_attr_get_payload_len(attribute)};
    return MNL_CB_STOP;
  };
  mnl_attr_parse(&message, static_cast<unsigned>(family_bytes), look, &wanted);
  return wanted.value;
}

std::optional<uint32_t> TimesDownIn(const nlmsghdr& message) {
  const auto count = AttributeOf(message, sizeof(ifinfomsg), IFLA_CARRIER_DOWN_COUNT);
  uint32_t times = 0;
  if (count.size() != sizeof times) return std::nullopt;
  std::memcpy(&times, count.data(), sizeof times);
  return times;
}

const nlmsghdr* NetlinkQuestion::Ask(uint16_t answer) {
  const std::unique_ptr<mnl_socket, int (*)(mnl_socket*)> socket(
      mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC), &mnl_socket_close);
  if (socket == nullptr || mnl_socket_sendto(socket.get(), message_, message_->nlmsg_len) < 0) return nullptr;
  const ssize_t bytes = mnl_socket_recvfrom(socket.get(), bytes_.data(), bytes_.size());
  if (bytes < 0 || !mnl_nlmsg_ok(message_, static_cast<int>(bytes))) return nullptr;
  return message_->nlmsg_type == answer ? message_ : nullptr;
}

}  // namespace epic::io
