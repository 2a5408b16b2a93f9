// What the kernel's offloads of an interface mean for super-frames.
#pragma once

#include <string>

namespace epic::io {

// Of an interface, as ethtool shows them.
struct Offloads {
  bool virtual_pair = false;      // a veth: the other end gets what is sent, in one piece
  bool checksum = false;          // tx-checksum-ip-generic
  bool udp_segmentation = false;  // tx-udp-segmentation
  bool tcp_segmentation = false;  // tx-tcp-segmentation
  bool segmentation = false;      // tx-generic-segmentation
  bool receive_merging = false;   // rx-gro
};
// Everything off for one that there is not, or that does not say.
Offloads ReadOffloads(const std::string& interface);

// Super-frames leave in one piece. Elsewhere, as from a hardware port, the kernel would cut them.
constexpr bool CarriesSuperFrames(const Offloads& offloads) {
  return offloads.virtual_pair && offloads.udp_segmentation;
}

// What is set wrongly, and the command that cures it; empty if nothing is.
std::string WrongOffloads(const std::string& interface, const Offloads& offloads);

}  // namespace epic::io
