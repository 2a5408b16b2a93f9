#include "io/kernel_ports.h"

#include <utility>

#include "io/offloads.h"
#include "io/packet_socket.h"
#include "io/pcap_port.h"

namespace epic::io {

std::string KernelPorts::Wrong(const std::string& name) { return WrongOffloads(name, ReadOffloads(name)); }

StatusOr<std::unique_ptr<FramePort>> KernelPorts::Open(const PortRequest& request) {
  if (!request.single_frames && CarriesSuperFrames(ReadOffloads(request.name))) {
    auto opened = PacketSocket::Open({.interface = request.name,
                                      .ring_bytes = request.ring_bytes,
                                      .super_frames = true,
                                      .everything = true,
                                      .shard = request.shard});
    if (!opened.ok()) return opened.status();
    return StatusOr<std::unique_ptr<FramePort>>(*std::move(opened));
  }
  auto opened = PcapPort::Open(request.name, request.ring_bytes, request.shard);
  if (!opened.ok()) return opened.status();
  return StatusOr<std::unique_ptr<FramePort>>(*std::move(opened));
}

std::string KernelPorts::Describe(const std::string& name, bool single_frames) {
  return !single_frames && CarriesSuperFrames(ReadOffloads(name)) ? "super-frames, with who takes them"
                                                                  : "single frames";
}

}  // namespace epic::io
