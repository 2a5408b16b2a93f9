#include "softnic/port/virtual_network.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <set>
#include <utility>

#include "base/check.h"
#include "io/event_fd.h"
#include "roce/frame.h"
#include "roce/transport/ud.h"

namespace epic::softnic {
// All of its state that the network's thread touches is guarded by the network's lock.
class VirtualNetwork::VirtualPort final : public Port {
 public:
  VirtualPort(VirtualNetwork* network, Ipv4 ip)
      : network_(network),
        ip_(ip),
        packets_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        alarm_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    const std::lock_guard lock(network_->mutex_);
    network_->ports_.emplace(ip_, this);
  }
  ~VirtualPort() override {
    {
      const std::lock_guard lock(network_->mutex_);
      std::erase_if(network_->ports_, [this](const auto& entry) { return entry.second == this; });
    }
    close(packets_fd_);
    close(alarm_fd_);
  }

  int fd() const override { return packets_fd_; }
  Nanos Now() const override { return network_->Now(); }

  bool Wait(int wake_fd, bool for_packets, Nanos until) override {
    if (until != kNever) {
      const std::lock_guard lock(network_->mutex_);
      if (until <= network_->now_) return true;  // perhaps
      const uint64_t alarm = ++alarm_;
      const auto wanted = [network = network_, ip = ip_, this, alarm] {
        const auto [first, last] = network->ports_.equal_range(ip);
        const bool alive =
            std::any_of(first, last, [this](const auto& entry) { return entry.second == this; });
        return alive && alarm_ == alarm;
      };
      const auto signal = [network = network_, this, wanted](Nanos) {
        const std::lock_guard locked(network->mutex_);
        if (wanted()) io::SignalEventFd(alarm_fd_);
      };
      network_->PushTimer(until, signal, wanted);
    }
    std::array<pollfd, 3> fds{pollfd{wake_fd, POLLIN, 0}, pollfd{alarm_fd_, POLLIN, 0},
                              pollfd{packets_fd_, POLLIN, 0}};
    poll(fds.data(), for_packets ? 3 : 2, -1);
    const std::lock_guard lock(network_->mutex_);
    ++alarm_;  // what is still to come is for nobody
    io::TakeEventFd(alarm_fd_);
    return fds[0].revents != 0;
  }

  int Receive(int max_packets, PacketHandler handler, void* user) override {
    std::deque<std::shared_ptr<Owned>> taken;
    {
      const std::lock_guard lock(network_->mutex_);
      for (; !inbox_.empty() && taken.size() < static_cast<size_t>(max_packets); inbox_.pop_front())
        taken.push_back(std::move(inbox_.front()));
      if (inbox_.empty()) io::TakeEventFd(packets_fd_);
      if (!taken.empty()) ++network_->activity_;
    }
    for (const auto& packet : taken) handler(user, packet->head);
    return static_cast<int>(taken.size());
  }

  void Send(const roce::Packet& packet) override { network_->SendFrom(ip_, packet); }
  void Flush() override {}
  Reach Prepare(Ip to) override { return to.is_v4() ? Reach::kReady : Reach::kNoRoute; }
  bool TakesSuperFrames() const override { return network_->config_.super_frames; }
  // Several ports may have one address: each takes what is for its numbers.
  bool AddQpnBlock(uint16_t block) override {
    const std::lock_guard lock(network_->mutex_);
    blocks_.push_back(block);
    return true;
  }

  int JoinGroup(Ip group) override {
    const std::lock_guard lock(network_->mutex_);
    groups_.insert(group);
    return 0;
  }
  void LeaveGroup(Ip group) override {
    const std::lock_guard lock(network_->mutex_);
    groups_.erase(groups_.find(group));
  }
  bool IsIn(Ip group) const { return groups_.contains(group); }

  bool Takes(Qpn qpn) const {
    return qpn == roce::kMulticastQpn || std::ranges::find(blocks_, Raw(qpn) >> 8) != blocks_.end();
  }
  void Deliver(std::shared_ptr<Owned> packet) {
    inbox_.push_back(std::move(packet));
    io::SignalEventFd(packets_fd_);
  }

 private:
  VirtualNetwork* network_;
  Ipv4 ip_;
  int packets_fd_, alarm_fd_;
  uint64_t alarm_ = 0;
  std::vector<uint16_t> blocks_;
  std::multiset<Ip> groups_;  // each as often as it has been joined
  std::deque<std::shared_ptr<Owned>> inbox_;
};

VirtualNetwork::VirtualNetwork(const Config& config) : config_(config), thread_([this] { Run(); }) {}

VirtualNetwork::~VirtualNetwork() {
  {
    const std::lock_guard lock(mutex_);
    EPIC_CHECK(ports_.empty());
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void VirtualNetwork::AddInterface(const std::string& name, Ipv4 ip) {
  const std::lock_guard lock(mutex_);
  const auto last = static_cast<uint8_t>(Raw(ip));
  interfaces_.push_back({.name = name, .ip = ip, .mac = {0x02, 0, 0, 0, 0, last}, .addresses = {ip}});
}

void VirtualNetwork::AddNode(Ipv4 ip, PacketHandler on_packet) {
  const std::lock_guard lock(mutex_);
  nodes_[ip] = std::move(on_packet);
}

void VirtualNetwork::SetLossRule(std::function<bool(const roce::Packet&)> lose) {
  const std::lock_guard lock(mutex_);
  lose_ = std::move(lose);
}

Nanos VirtualNetwork::Now() {
  const std::lock_guard lock(mutex_);
  return now_;
}

uint64_t VirtualNetwork::packets_lost() {
  const std::lock_guard lock(mutex_);
  return lost_;
}

std::vector<io::AddressedInterface> VirtualNetwork::Interfaces() {
  const std::lock_guard lock(mutex_);
  return interfaces_;
}

io::InterfaceState VirtualNetwork::State(const io::AddressedInterface&) {
  return {.exists = true, .up = true, .mtu = config_.mtu};
}

StatusOr<std::unique_ptr<Port>> VirtualNetwork::Open(const io::AddressedInterface& interface) {
  return std::unique_ptr<Port>(new VirtualPort(this, interface.ip));
}

void VirtualNetwork::Push(Nanos time, std::function<void(Nanos)> action) {
  events_.push({std::max(time, now_), ++order_, std::move(action), nullptr});
  changed_.notify_all();
}

void VirtualNetwork::PushTimer(Nanos time, std::function<void(Nanos)> action, std::function<bool()> wanted) {
  events_.push({std::max(time, now_), ++order_, std::move(action), std::move(wanted)});
  changed_.notify_all();
}

void VirtualNetwork::At(Nanos time, std::function<void(Nanos)> action, std::function<bool()> wanted) {
  const std::lock_guard lock(mutex_);
  PushTimer(time, std::move(action), std::move(wanted));
}

void VirtualNetwork::Do(const std::function<void()>& action) {
  bool done = false;
  std::unique_lock lock(mutex_);
  Push(now_, [&](Nanos) {
    action();
    const std::lock_guard locked(mutex_);
    done = true;
    changed_.notify_all();
  });
  changed_.wait(lock, [&] { return done; });
}

void VirtualNetwork::SendFrom(Ipv4 from, const roce::Packet& packet) {
  const std::lock_guard lock(mutex_);
  ++activity_;
  if (lose_ && lose_(packet)) return void(++lost_);
  auto owned = std::make_shared<Owned>(Owned{packet, {packet.payload.begin(), packet.payload.end()}});
  owned->head.payload = owned->payload;  // once: several may receive it at the same time
  const auto bits = static_cast<int64_t>(roce::FrameBytes(packet)) * 8;
  Nanos& free_at = free_at_[from];
  free_at = std::max(free_at, now_) + bits * kSecond / config_.bits_per_second;
  Push(free_at + config_.delay_ns, [this, owned = std::move(owned)](Nanos now) {
    PacketHandler handler;
    {
      const std::lock_guard locked(mutex_);
      const auto [first, last] = ports_.equal_range(owned->head.dst_ip);
      for (auto at = first; at != last; ++at) {
        if (at->second->Takes(owned->head.bth.dest_qp)) at->second->Deliver(owned);
      }
      if (owned->head.dst_ip.is_multicast()) {
        for (const auto& [ip, port] : ports_)
          if (port->IsIn(owned->head.dst_ip)) port->Deliver(owned);
      }
      const auto node = nodes_.find(owned->head.dst_ip);
      if (node != nodes_.end()) handler = node->second;
    }
    if (handler) handler(now, owned->head);
  });
}

void VirtualNetwork::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !events_.empty(); });
    if (stop_) return;
    if (events_.top().wanted) {
      if (!events_.top().wanted()) {
        events_.pop();
        continue;
      }
      const uint64_t seen = activity_, order = order_;
      const bool disturbed = changed_.wait_for(lock, std::chrono::nanoseconds(config_.quiet_ns),
                                               [&] { return stop_ || activity_ != seen || order_ != order; });
      if (disturbed) continue;
    }
    const Event event = events_.top();
    events_.pop();
    now_ = event.time;
    lock.unlock();
    event.action(event.time);
    lock.lock();
  }
}

}  // namespace epic::softnic
