// Sockets on which a daemon listens.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/address.h"
#include "base/status.h"

namespace epic {

class Listener {
 public:
  // Listens; no socket blocks. A name with several addresses, as localhost, gets a socket for each. [::] and *
  // take IPv4 as well, where this machine has IPv6. NOT_FOUND if this machine knows no such host; UNAVAILABLE
  // if the address cannot be had, with the system's words.
  static StatusOr<Listener> At(const Address& address);
  // Of a Unix socket, which gets these rights before anybody can connect to it; nothing may be at the path.
  static StatusOr<Listener> AtPath(const std::string& path, mode_t rights);

  // Closes the sockets, and removes that of a path.
  ~Listener();
  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&&) = delete;

  const std::vector<int>& sockets() const { return sockets_; }
  // In numbers, of the first socket: what it has been given. A Unix socket has none.
  const Address& bound() const { return bound_; }
  // "127.0.0.1:7400" or a path, for messages.
  std::string ToString() const { return path_.empty() ? bound_.ToString() : path_; }
  bool is_path() const { return !path_.empty(); }

 private:
  Listener() = default;
  std::vector<int> sockets_;
  Address bound_;
  std::string path_;
};

// Whether the address of HOST:PORT, as ManagerAddress gives it, is another machine's, or that of another network
// namespace: what would be sent there comes from another address. False where this machine cannot say: it has no
// way there, or it is a name, for which nobody is asked.
bool IsElsewhere(const std::string& address);

}  // namespace epic
