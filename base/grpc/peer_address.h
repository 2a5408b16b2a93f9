// Who calls a server, without what changes with each of his connections.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace epic {

// "10.0.0.1" of gRPC's "ipv4:10.0.0.1:4711" and "ipv6:[::ffff:10.0.0.1]:4711", as it is or in its escapes.
inline std::string PeerAddress(std::string peer) {
  for (const auto& [code, character] : {std::pair{"%5B", "["}, std::pair{"%5D", "]"}, std::pair{"%25", "%"}}) {
    for (size_t at = peer.find(code); at != std::string::npos; at = peer.find(code, at + 1)) peer.replace(at, 3, character);
  }
  const size_t scheme = peer.find(':');
  const size_t port = peer.rfind(':');
  if (!peer.starts_with("ipv") || port <= scheme) return peer;
  std::string address = peer.substr(scheme + 1, port - scheme - 1);
  if (address.starts_with('[') && address.ends_with(']')) address = address.substr(1, address.size() - 2);
  constexpr std::string_view kMapped = "::ffff:";
  const bool is_v4 = address.starts_with(kMapped) && address.find('.') != std::string::npos;
  return is_v4 ? address.substr(kMapped.size()) : address;
}

}  // namespace epic
