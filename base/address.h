// Addresses as a user writes them: one reading for every program that takes one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace epic {

// Of a manager's address that says none.
inline constexpr int kManagerPort = 7400;

// HOST:PORT. Whether there is such a host nobody has asked.
struct Address {
  std::string host;  // a name, an IPv4 address, or an IPv6 address without its brackets; empty: any ("*")
  int port = 0;      // 0 to 65535

  // With brackets where it needs them; "*" for an empty host.
  std::string ToString() const;
  // 0.0.0.0, :: or *: all addresses of a machine, under none of which anybody can call it.
  bool IsAny() const;
  // 127.0.0.0/8, ::1 or localhost: this machine itself.
  bool IsLoopback() const;
};

// `text` as HOST:PORT, as several of them with commas between if one of several managers leads, or as
// unix:PATH if it is that: the socket of a host's daemon. HOST is a name, an IPv4 address or an IPv6 address
// in brackets. INVALID_ARGUMENT quotes `text` and says what is wrong with it and what would be right; the
// caller says in front of that which option or variable has it. Whether there is such a host nobody is asked.
StatusOr<std::string> ManagerAddress(std::string_view text);
// Of a list.
inline constexpr size_t kMostManagers = 8;
// Each of what ManagerAddress has given, in its order; at least one.
std::vector<std::string> AddressesOf(const std::string& managers);

// Where a daemon is to listen: HOST:PORT, of which it has to say both. PORT 0: any that is free. HOST may also
// be 0.0.0.0, [::] or *. Errors as above.
StatusOr<Address> ListenAddress(std::string_view text);

// Where somebody else can call a daemon: HOST:PORT with a port from 1 on, and no host that stands for all.
// Errors as above.
StatusOr<Address> CallableAddress(std::string_view text);

}  // namespace epic
