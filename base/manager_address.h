// The manager's address as a user writes it: one reading for every program that takes one.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace epic {

// Of an address that says none.
inline constexpr int kManagerPort = 7400;

// `text` as HOST:PORT, or as unix:PATH if it is that: the socket of a host's daemon. HOST is a name, an IPv4
// address or an IPv6 address in brackets. INVALID_ARGUMENT quotes `text` and says what is wrong with it and
// what would be right; the caller says in front of that which option or variable has it. Whether there is
// such a host nobody is asked.
StatusOr<std::string> ManagerAddress(std::string_view text);

}  // namespace epic
