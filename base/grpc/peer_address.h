// Who calls a server, without what changes with each of his connections.
#pragma once

#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>

namespace epic {

// Of ServerContext::peer() behind an Acceptor: "unix-abstract:epic-9f3c-7/10.0.0.1", in which the last part has been named by
// Relay, is "10.0.0.1". Of any other it is what gRPC says.
inline std::string PeerAddress(const std::string& peer) {
  constexpr std::string_view kOfRelay = "unix-abstract:epic-";
  const size_t slash = peer.find('/');
  if (!peer.starts_with(kOfRelay) || slash == std::string::npos) return peer;
  std::string name;
  for (size_t at = slash + 1; at < peer.size(); ++at) {
    unsigned code = 0;
    const char* const digits = peer.data() + at + 1;
    const bool escaped = peer[at] == '%' && peer.size() - at > 2 &&
                         std::from_chars(digits, digits + 2, code, 16).ptr == digits + 2;
    name += escaped ? static_cast<char>(code) : peer[at];
    if (escaped) at += 2;
  }
  return name;
}

}  // namespace epic
