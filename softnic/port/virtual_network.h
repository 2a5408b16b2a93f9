// A network in virtual time within one process: packets take their time on links, are lost as a rule says,
// and timers fire at their time, but the clock jumps from one event to the next. Ports and nodes are reached
// by their address, of IPv4; ports that have joined a group, by that, who sends among them.
//
// The programs on the ports are threads that the network cannot see into. A packet arrives as soon as its
// turn comes; before a timer fires, the network waits until the threads have been silent for a moment of real
// time, so that a second of virtual waiting costs milliseconds and a timer hardly ever overtakes a thread
// that is just at work. Where one does, the transport repeats something for nothing.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <queue>
#include <string>
#include <thread>
#include <vector>

#include "softnic/port/port.h"

namespace epic::softnic {

class VirtualNetwork final : public Network {
 public:
  struct Config {
    Nanos delay_ns = kMicrosecond;
    int64_t bits_per_second = 100'000'000'000;  // of each sender's link
    Nanos quiet_ns = 2 * kMillisecond;          // of real time, before a timer fires
    uint32_t mtu = 4200;
    bool super_frames = false;  // ports say that they take them; packets travel one by one all the same
  };
  explicit VirtualNetwork(const Config& config);
  // Its ports are gone, and so are the threads that use it.
  ~VirtualNetwork() override;

  // An interface that a device can be opened on.
  void AddInterface(const std::string& name, Ipv4 ip);

  // Something else with an address. on_packet and what is set by At run on the network's thread, and may call
  // SendFrom and At. A timer that is not `wanted` any more when its turn comes is dropped, without the moment
  // of real time that one takes; wanted runs on the network's thread, and calls nothing of the network.
  using PacketHandler = std::function<void(Nanos now, const roce::Packet& packet)>;
  void AddNode(Ipv4 ip, PacketHandler on_packet);
  void SendFrom(Ipv4 from, const roce::Packet& packet);
  void At(
      Nanos time, std::function<void(Nanos now)> action, std::function<bool()> wanted = [] { return true; });
  // Runs the action on the network's thread and returns when it is done. Not from that thread.
  void Do(const std::function<void()>& action);

  // True for a packet that is to be lost; runs on whichever thread sends, one at a time.
  void SetLossRule(std::function<bool(const roce::Packet&)> lose);

  Nanos Now();
  uint64_t packets_lost();

  // Network.
  std::vector<io::AddressedInterface> Interfaces() override;
  io::InterfaceState State(const io::AddressedInterface& interface) override;
  StatusOr<std::unique_ptr<Port>> Open(const io::AddressedInterface& interface) override;

 private:
  class VirtualPort;
  struct Owned {
    roce::Packet head;
    std::vector<uint8_t> payload;
  };
  struct Event {
    Nanos time = 0;
    uint64_t order = 0;
    std::function<void(Nanos)> action;
    std::function<bool()> wanted;  // of a timer; of a packet null
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };

  void Push(Nanos time, std::function<void(Nanos)> action);
  void PushTimer(Nanos time, std::function<void(Nanos)> action, std::function<bool()> wanted);
  void Run();

  const Config config_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  uint64_t activity_ = 0;  // counts what ports and nodes have done
  Nanos now_ = 0;
  uint64_t order_ = 0;
  uint64_t lost_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<io::AddressedInterface> interfaces_;
  std::multimap<Ip, VirtualPort*> ports_;
  std::map<Ip, PacketHandler> nodes_;
  std::map<Ipv4, Nanos> free_at_;  // when each sender's link is idle again
  std::function<bool(const roce::Packet&)> lose_;
  std::thread thread_;
};

}  // namespace epic::softnic
