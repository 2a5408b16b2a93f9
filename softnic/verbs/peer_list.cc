#include "softnic/verbs/peer_list.h"

#include <arpa/inet.h>

#include <algorithm>
#include <optional>

#include "base/number.h"

namespace epic::softnic {
namespace {

constexpr uint32_t kAddressBits = 32;

// The length behind the slash; nothing if it is none.
std::optional<uint32_t> LengthOf(std::string_view text) {
  uint32_t length = 0;
  return ReadNumber(text, &length) && length <= kAddressBits ? std::optional(length) : std::nullopt;
}

}  // namespace

PeerList PeerList::Parse(std::string_view text, std::vector<std::string>* wrong) {
  PeerList list;
  while (!text.empty()) {
    const std::string entry(text.substr(0, text.find(',')));
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
    if (entry.empty()) continue;
    const size_t slash = entry.find('/');
    const auto length =
        slash == std::string::npos ? kAddressBits : LengthOf(std::string_view(entry).substr(slash + 1));
    in_addr address{};
    if (!length || inet_pton(AF_INET, entry.substr(0, slash).c_str(), &address) != 1) {
      wrong->push_back(entry);
      continue;
    }
    const uint32_t mask = *length == 0 ? 0 : ~uint32_t{0} << (kAddressBits - *length);
    list.prefixes_.push_back({ntohl(address.s_addr) & mask, mask});
  }
  return list;
}

bool PeerList::Contains(Ipv4 ip) const {
  return std::ranges::any_of(prefixes_, [ip](const Prefix& p) { return (Raw(ip) & p.mask) == p.bits; });
}

}  // namespace epic::softnic
