// A port on a device that the kernel does not know (io/dpdk_ports.h). So what the kernel does for an
// interface is here: it has the address that it is given, asks for others by ARP and answers for itself, and
// nobody else speaks by it. IPv4 alone.
//
// The device is polled. Who waits sleeps shortly, and longer each time that nothing has come; what comes
// first after a pause waits for so long.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/status.h"
#include "base/thread_time.h"
#include "io/descriptor.h"
#include "io/frame_port.h"
#include "roce/arp.h"
#include "softnic/port/device_address.h"
#include "softnic/port/port.h"

namespace epic::softnic {

struct DevicePortCounters {
  uint64_t unresolved = 0;  // sent to nobody: no hardware address was known, or there was no link
  uint64_t others = 0;      // came for another address
  std::array<uint64_t, roce::kParseResults> parse_results{};
};

class DevicePort final : public Port {
 public:
  // What it sends and receives by, and what is known of that. By the thread that uses the port.
  class Device {
   public:
    virtual ~Device() = default;
    // Opens it, also again once it was of no more use. UNAVAILABLE: not now.
    virtual StatusOr<std::unique_ptr<io::FramePort>> Open() = 0;
    virtual bool LinkIsUp() = 0;
    // Tells whoever asks what the port's link is.
    virtual void Publish(bool up) = 0;
    virtual Nanos Now() const = 0;
  };

  // Waits up to `patience` for a link, by Device::Now; without one it has none yet. What Device::Open says
  // but for UNAVAILABLE.
  static StatusOr<std::unique_ptr<DevicePort>> Open(std::unique_ptr<Device> device,
                                                    const DeviceAddress& address, Nanos patience);
  ~DevicePort() override;

  int fd() const override;
  void TakeErrors() override;
  Nanos Now() const override { return device_->Now(); }
  Nanos Waited() const override { return OwnWait(); }
  bool Wait(int wake_fd, bool for_packets, Nanos until) override;
  int Receive(int max_packets, PacketHandler handler, void* user) override;
  std::vector<Ip> Addresses() override;
  std::optional<PortNews> FirstNews() override;
  void TakeNews() override { news_.pop_front(); }
  size_t places() const override { return kPlaces; }
  void Send(const roce::Packet& packet) override;
  void Flush() override;
  Reach Prepare(Ip to) override { return Resolve(to).reach; }
  void SendByWireAlone(Ip group, bool on) override;
  bool AddQpnBlock(uint16_t) override { return true; }  // the device is this port's alone
  // Nobody is told: switches flood what they do not know, or know by the manager.
  int JoinGroup(Ip) override { return 0; }
  void LeaveGroup(Ip) override {}

  const DevicePortCounters& counters() const { return counters_; }

 private:
  // Frames in a device's queue (io/dpdk/ethdev.h, kRingFrames).
  static constexpr size_t kPlaces = 512;

  struct Neighbour {
    Reach reach = Reach::kResolving;
    Ipv4 hop{};
    roce::MacAddress mac{};
    Nanos asked_at = INT64_MIN / 2;
    Nanos known_until = INT64_MIN / 2;
  };
  struct Looped {  // a datagram to a group, for members here
    roce::Packet head;
    std::vector<uint8_t> payload;
  };

  DevicePort(std::unique_ptr<Device> device, const DeviceAddress& address, io::Descriptor timer);
  Status TryToOpen();
  void LookAtLink();
  void OnFrame(const io::ReceivedFrame& frame, PacketHandler handler, void* user);
  void OnArp(const roce::Arp& arp);
  Neighbour& Resolve(Ip to);
  // Who gets what is for this address; nothing if there is no way there.
  std::optional<Ipv4> HopTo(Ipv4 to) const;
  void AskFor(Ipv4 ip);
  void SendArp(const roce::Arp& arp);
  Nanos NextNap() const;

  const std::unique_ptr<Device> device_;
  const DeviceAddress address_;
  const io::Descriptor timer_;  // of who sleeps by fd()
  std::unique_ptr<io::FramePort> port_;
  bool up_ = false;
  Nanos next_look_ = INT64_MIN / 2;  // at the link
  Nanos next_try_ = INT64_MIN / 2;   // to open it
  std::deque<PortNews> news_;
  mutable std::atomic<Nanos> nap_;  // of the next that sleeps, who may be another thread
  std::atomic<bool> has_looped_ = false;
  std::deque<Looped> looped_;
  std::map<Ip, Neighbour> neighbours_;
  // The neighbour of the last packet: mostly the next one's as well.
  Ip last_to_;
  Neighbour* last_ = nullptr;
  std::set<Ip> by_wire_alone_;  // groups
  uint16_t ip_id_ = 0;
  DevicePortCounters counters_;
};

}  // namespace epic::softnic
