#include "softnic/verbs/qpn_block.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <string>

namespace epic::softnic {
namespace {

// Block 0 has the special queue pairs 0 and 1. From block 0xf000 on numbers are of switches that speak under
// hosts' addresses (docs/PROTOCOL-MODE-IV.md, section 3), and 0xffff has the multicast queue pair.
constexpr uint32_t kFirst = 1, kCount = 0xf000 - kFirst;

}  // namespace

std::unique_ptr<QpnBlock> QpnBlock::Take(Ipv4 ip) {
  io::Descriptor fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return nullptr;
  // A multiplicative hash (Knuth): neighbouring process ids begin far apart.
  const uint32_t start = static_cast<uint32_t>(getpid()) * 2654435761u >> 16;
  for (uint32_t i = 0; i < kCount; ++i) {
    const auto number = static_cast<uint16_t>(kFirst + (start + i) % kCount);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    // A first byte of 0: the abstract name space.
    const std::string name = fmt::format("epic-softnic/{:08x}/{:04x}", Raw(ip), number);
    std::ranges::copy(name, address.sun_path + 1);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0)
      return std::unique_ptr<QpnBlock>(new QpnBlock(std::move(fd), number));
    if (errno != EADDRINUSE) break;
  }
  return nullptr;
}

}  // namespace epic::softnic
