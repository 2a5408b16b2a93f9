// The addresses of an interface in the order in which RoCE numbers them: its GID table.
#pragma once

#include <vector>

#include "base/ip.h"
#include "io/interface.h"

namespace epic::softnic {

// The link-local address that the hardware address makes: the modified EUI-64 (RFC 4291, appendix A).
Ip LinkLocalOf(const roce::MacAddress& mac);

// What a place is that no address has.
inline constexpr Ip kNoGid{};

// By index: 0 is LinkLocalOf the hardware address, whether the interface uses it or not; then IPv4 (1 is the
// interface's `ip`, or kNoGid if that is not among its addresses any more), then IPv6, the oldest first, so
// that the others keep their index when one is added. The kernel's table for rdma_rxe is the same if the
// addresses came in this order.
std::vector<Ip> GidsOf(const io::AddressedInterface& interface);
// Makes a table of GidsOf what it is once its interface has lost this address. False if it is the same.
bool RemoveGid(Ip gone, std::vector<Ip>* gids);

}  // namespace epic::softnic
