// Tells that links of this network namespace, or their addresses, have changed (rtnetlink), so that nobody
// has to ask for them all the time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/ip.h"
#include "base/status.h"
#include "io/descriptor.h"

namespace epic::io {

// What one message says of an interface.
struct InterfaceChange {
  enum class Kind : uint8_t {
    kState,      // it has this state, which may be the one that it had
    kGone,       // it is not in this namespace any more
    kAddresses,  // one may have come or gone
  } kind;
  uint32_t index = 0;
  bool up = false;  // of kState, as InterfaceState
  // Of kAddresses: the one that has gone. It may be there again by the time this is heard.
  std::optional<Ip> gone_address = {};
  // Of kState and kGone: its name, while the change is handed over.
  std::string_view name = {};
  // Of kState: how often it has lost its carrier, if the kernel says so. A cable that was pulled and put in
  // again between two changes that were heard shows in it alone.
  std::optional<uint32_t> times_down = {};
};

class LinkWatch {
 public:
  // addresses: those of interfaces are watched as well. UNAVAILABLE if the kernel does not let it be.
  static StatusOr<LinkWatch> Open(bool addresses = false);

  // Readable when links have changed.
  int fd() const { return fd_.get(); }
  // Hands over all that the kernel has said since the last time, in its order. False if something was said
  // that was not heard.
  using ChangeHandler = void (*)(void* user, const InterfaceChange& change);
  bool ReadChanges(ChangeHandler handler, void* user);

 private:
  // Hands over each datagram of the kernel's that waits; true if one was lost.
  template <typename Handler>
  bool ReadAll(const Handler& handler);

  explicit LinkWatch(Descriptor fd) : fd_(std::move(fd)) {}

  Descriptor fd_;
};

// Calls handler(user, change) for each of these rtnetlink messages that is one.
void ForEachChange(std::span<const uint8_t> messages, LinkWatch::ChangeHandler handler, void* user);

}  // namespace epic::io
