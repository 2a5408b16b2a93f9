// Queue pair numbers that the processes of one machine share out among themselves.
#pragma once

#include <cstdint>
#include <memory>

#include "base/types.h"
#include "io/descriptor.h"

namespace epic::softnic {

// kQpns numbers, those with number() above their last byte. The kernel gives them back when the process ends,
// however it ends: the claim is a Unix socket in the abstract name space of the network namespace.
class QpnBlock {
 public:
  static constexpr uint32_t kQpns = 256;

  // A block that no other process has for the address; null if none is left. Where the search begins depends
  // on the process, so that numbers of one that has ended do not come up again at once.
  static std::unique_ptr<QpnBlock> Take(Ipv4 ip);

  uint16_t number() const { return number_; }

 private:
  QpnBlock(io::Descriptor fd, uint16_t number) : fd_(std::move(fd)), number_(number) {}
  io::Descriptor fd_;
  uint16_t number_;
};

}  // namespace epic::softnic
