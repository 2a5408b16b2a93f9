// The switch's ports: takes frames from the interfaces to the core and back, on the loop's thread. Interfaces
// are the kernel's, or devices of another kind, which the loop may have to poll. An interface that goes away
// or changes its MTU is opened again as soon as it is there; the others go on meanwhile.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "incengine/core/switch.h"
#include "incengine/daemon/trace.h"
#include "io/event_loop.h"
#include "io/frame_port.h"
#include "io/interface.h"
#include "io/kernel_ports.h"
#include "io/link_watch.h"
#include "io/port_source.h"

namespace epic::daemon {

// What operators see of a port beside the core's counters.
struct PortState {
  std::string name;
  io::InterfaceState interface;
  io::PortCounters counters;
  uint64_t times_lost = 0;
  bool super_frames = false;  // taken, and sent in one piece
  uint32_t rate_mbps = 0;     // 0 if it is not known
};

class Ports final : public engine::FrameSink {
 public:
  struct Options {
    std::vector<std::string> interfaces;
    // Has those of them that are none of the kernel's, if there are any; outlives the ports.
    io::PortSource* devices = nullptr;
    size_t ring_bytes = 0;
    bool single_frames = false;  // no super-frames by any port
    // Of `shards` that have ports on these interfaces, each frame comes to one (io::FrameShard). Shard 0 is
    // the one that logs and counts what becomes of interfaces and links, and that says and hears hellos.
    uint32_t shard = 0;
    uint32_t shards = 1;
  };
  // Opens all interfaces. NOT_FOUND or PERMISSION_DENIED if one is missing or may not be opened,
  // INVALID_ARGUMENT with the cure if something of it is set wrongly; one that is down is waited for. loop,
  // sw and trace (which may be none) outlive this.
  static StatusOr<std::unique_ptr<Ports>> Open(const Options& options, io::EventLoop& loop,
                                               engine::Switch& sw, Trace* trace);

  std::vector<PortState> States();

  // Calls back, on the loop's thread, when the state of a port or its neighbours have changed.
  void OnChange(std::function<void()> call) { on_change_ = std::move(call); }

  // Asks another switch for an echo (Switch::Probe).
  engine::ProbeAnswer Probe(const engine::ProbeTarget& target);
  // Asks who has an address (Switch::Locate).
  bool Locate(Ipv4 ip);

  // For the core.
  void Send(PortId port, std::span<const uint8_t> frame) override;
  void SendPacket(PortId port, const roce::FramePieces& packet, bool joins) override;
  bool SendSuperFrame(PortId port, const roce::SuperFrameView& frame) override;
  void SetTimer(engine::TimerId id, Nanos deadline) override;
  void NeighboursChanged() override { changed_ = true; }

 private:
  struct Port {
    std::string name;
    io::PortSource* source;
    std::unique_ptr<io::FramePort> open;  // none while the interface is away
    io::PortCounters closed;              // sums of the interfaces that have been closed
    bool up = false;                      // at the last look
    // How often it had lost its carrier at the last word of its source; and whether that is more than before,
    // so that it was down since the last look.
    std::optional<uint32_t> times_down;
    bool was_down = false;
    uint32_t rate_mbps = 0;   // when it was opened or came up: asking waits for the kernel's lock
    bool waiting = false;     // frames are queued until the kernel has room
    bool taken_from = false;  // frames in this round, which are not given back yet
    uint64_t times_lost = 0;  // interface or link
    std::string why_closed;   // what was last said of one that cannot be opened
  };

  Ports(const Options& options, io::EventLoop& loop, engine::Switch& sw, Trace* trace);
  io::PortSource& SourceOf(const std::string& name);
  io::PortRequest RequestFor(const std::string& name) const;
  // Has the loop look at a port that is open, or no more.
  void Watch(PortId port);
  void Unwatch(const Port& port, PortId id);
  Status OpenPort(PortId port);
  void LosePort(PortId port, const std::string& why);
  bool Receive(PortId port, Nanos now);
  void OnFrame(Nanos now, PortId port, const io::ReceivedFrame& frame);
  void TraceSuperFrame(Nanos now, PortId port, const io::ReceivedFrame& frame);
  // Sends all that a round of the loop, or many packets, have led to: a frame for each port, where it can be,
  // instead of one for each port that something came by. Then nobody looks any more at what has come.
  // Hands on what waits at all ports.
  void Flush();
  void EndRound();
  // Watches for room in the kernel where frames wait for it.
  void NoteWaiting(Port& port);
  // Logs and counts a link that has gone down or come up.
  void NoteLink(PortId id, bool up);
  // Tells the core, if it is to know, and who has asked for changes.
  void TellOfPort(PortId id);
  void WatchLinks();
  void OnLink(const io::InterfaceChange& change);
  static void NoteTimesDown(Port& port, std::optional<uint32_t> times_down);
  void CheckInterfaces();
  // Of what all shards see alike, one speaks.
  bool Reports() const { return options_.shard == 0; }

  io::EventLoop& loop_;
  engine::Switch& switch_;
  const Options options_;
  Trace* trace_;
  io::KernelPorts kernel_;
  std::vector<Port> ports_;
  // The frame that is being processed, if it stays as it is until EndRound has returned; else empty.
  std::span<const uint8_t> kept_;
  int taken_ = 0;                       // packets since EndRound
  std::optional<io::LinkWatch> links_;  // none: interfaces are looked at each second only
  bool links_changed_ = false;          // those of ports, since they were looked at
  bool changed_ = false;                // since on_change_ was called
  std::function<void()> on_change_ = [] {};
};

}  // namespace epic::daemon
