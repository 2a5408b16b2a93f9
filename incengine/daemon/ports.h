// The switch's ports: takes frames from the interfaces to the core and back, on the loop's thread. An
// interface that goes away or changes its MTU is opened again as soon as it is there; the others go on
// meanwhile.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "incengine/core/switch.h"
#include "incengine/daemon/trace.h"
#include "io/event_loop.h"
#include "io/pcap_port.h"

namespace epic::daemon {

// What operators see of a port beside the core's counters.
struct PortState {
  std::string name;
  io::InterfaceState interface;
  io::PcapPortCounters counters;
  uint64_t times_lost = 0;
};

class Ports final : public engine::FrameSink {
 public:
  // Opens all interfaces. NOT_FOUND or PERMISSION_DENIED if one is missing or may not be opened; one that is
  // down is waited for. loop, sw and trace (which may be none) outlive this.
  static StatusOr<std::unique_ptr<Ports>> Open(const std::vector<std::string>& interfaces, size_t ring_bytes,
                                               io::EventLoop& loop, engine::Switch& sw, Trace* trace);

  std::vector<PortState> States();

  // Asks another switch for an echo (Switch::Probe).
  engine::ProbeAnswer Probe(const engine::ProbeTarget& target);

  // For the core.
  void Send(PortId port, std::span<const uint8_t> frame) override;
  void SetTimer(engine::TimerId id, Nanos deadline) override;

 private:
  struct Port {
    std::string name;
    std::unique_ptr<io::PcapPort> pcap;  // none while the interface is away
    io::PcapPortCounters closed;         // sums of the interfaces that have been closed
    bool up = false;                     // at the last look
    bool waiting = false;                // frames are queued until the kernel has room
    uint64_t times_lost = 0;             // interface or link
  };

  Ports(io::EventLoop& loop, engine::Switch& sw, size_t ring_bytes, Trace* trace);
  Status OpenPort(PortId port);
  void LosePort(PortId port, const std::string& why);
  bool Receive(PortId port, Nanos now);
  void FlushAll();
  // Watches for room in the kernel where frames wait for it.
  void NoteWaiting(Port& port);
  // Logs and counts a link that has gone down or come up.
  static void NoteLink(Port& port, bool up);
  void CheckInterfaces();

  io::EventLoop& loop_;
  engine::Switch& switch_;
  size_t ring_bytes_;
  Trace* trace_;
  std::vector<Port> ports_;
};

}  // namespace epic::daemon
