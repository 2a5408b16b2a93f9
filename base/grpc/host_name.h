// Whether this machine knows the host of an address: gRPC says of it only that it cannot connect, after its
// whole time.
#pragma once

#include <netdb.h>

#include <string>

#include "base/status.h"

namespace epic {

// Of HOST:PORT, as ManagerAddress gives it. NOT_FOUND if there is no such host; UNAVAILABLE if whoever knows
// names cannot be asked now, as when a machine has just started. Both say so in words. Takes what the
// resolver takes (resolv.conf(5)); nothing for an IP address and unix:PATH.
inline Status FindHost(const std::string& address) {
  if (address.starts_with("unix:") || address.starts_with("[")) return absl::OkStatus();
  const std::string host = address.substr(0, address.rfind(':'));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error == 0) {
    freeaddrinfo(found);
    return absl::OkStatus();
  }
  const bool unknown = error == EAI_NONAME || error == EAI_NODATA;
  return MakeStatus(unknown ? StatusCode::kNotFound : StatusCode::kUnavailable,
                    unknown ? "this machine knows no host " + host
                            : "the host " + host + " cannot be looked up now: " + gai_strerror(error));
}

}  // namespace epic
