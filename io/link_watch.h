// Tells that links of this network namespace have changed (rtnetlink, RTMGRP_LINK), so that nobody has to ask
// for them all the time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "io/descriptor.h"

namespace epic::io {

class LinkWatch {
 public:
  // UNAVAILABLE if the kernel does not let it be.
  static StatusOr<LinkWatch> Open();

  // Readable when links have changed.
  int fd() const { return fd_.get(); }
  // Takes all that the kernel has said since the last time. True if one of these interfaces may have changed:
  // it has come, gone, gone up or down or changed its MTU, or something was said that was not heard.
  bool Read(std::span<const std::string> interfaces);

 private:
  explicit LinkWatch(Descriptor fd) : fd_(std::move(fd)) {}

  Descriptor fd_;
};

// The interfaces that these rtnetlink messages are about.
std::vector<std::string> InterfacesIn(std::span<const uint8_t> messages);

}  // namespace epic::io
