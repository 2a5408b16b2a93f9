#include "softnic/port/gids.h"

#include <algorithm>
#include <array>

namespace epic::softnic {

Ip LinkLocalOf(const roce::MacAddress& mac) {
  const std::array<uint8_t, Ip::kBytes> bytes = {
      0xfe,   0x80,   0,    0,    0,      0,      0,     0, static_cast<uint8_t>(mac[0] ^ 2),
      mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
  return Ip::Of(bytes.data());
}

std::vector<Ip> GidsOf(const io::AddressedInterface& interface) {
  const bool has_first =
      std::ranges::find(interface.addresses, Ip(interface.ip)) != interface.addresses.end();
  std::vector<Ip> gids = {LinkLocalOf(interface.mac), has_first ? Ip(interface.ip) : kNoGid};
  const auto add = [&gids](Ip address) {
    if (std::ranges::find(gids, address) == gids.end()) gids.push_back(address);
  };
  // The kernel lists IPv4 addresses as they came, IPv6 ones of a scope the other way round.
  for (const Ip address : interface.addresses) {
    if (address.is_v4()) add(address);
  }
  for (auto at = interface.addresses.rbegin(); at != interface.addresses.rend(); ++at) {
    if (!at->is_v4()) add(*at);
  }
  return gids;
}

bool RemoveGid(Ip gone, std::vector<Ip>* gids) {
  const auto at = std::ranges::find(*gids, gone);
  const auto place = at - gids->begin();
  if (at == gids->end() || place == 0 || gone == kNoGid) return false;
  if (place == 1) {
    *at = kNoGid;
  } else {
    gids->erase(at);
  }
  return true;
}

}  // namespace epic::softnic
