#include "softnic/port/device_port.h"

#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <span>
#include <string>
#include <utility>

#include "roce/frame.h"
#include "softnic/port/gids.h"
#include "softnic/port/neighbour.h"

namespace epic::softnic {
namespace {

constexpr Nanos kShortNap = 50 * kMicrosecond, kLongNap = kMillisecond;
constexpr Nanos kLinkLook = 50 * kMillisecond;
constexpr Nanos kTry = kSecond;

timespec TimeOf(Nanos nanos) { return {.tv_sec = nanos / kSecond, .tv_nsec = nanos % kSecond}; }

}  // namespace

StatusOr<std::unique_ptr<DevicePort>> DevicePort::Open(std::unique_ptr<Device> device,
                                                       const DeviceAddress& address, Nanos patience) {
  io::Descriptor timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer) return MakeStatus(StatusCode::kInternal, std::string("a timer: ") + std::strerror(errno));
  std::unique_ptr<DevicePort> port(new DevicePort(std::move(device), address, std::move(timer)));
  const Nanos give_up = port->Now() + patience;
  while (true) {
    if (const Status status = port->TryToOpen(); !status.ok() && status.code() != StatusCode::kUnavailable)
      return status;
    port->next_look_ = INT64_MIN / 2;
    port->LookAtLink();
    if (port->up_ || port->Now() >= give_up) break;
    // Nobody is here yet to whom anything could have come; a device of no more use says so.
    port->Receive(
        1, [](void*, const roce::Packet&) {}, nullptr);
    const timespec nap = TimeOf(kLongNap);
    nanosleep(&nap, nullptr);
  }
  port->news_.clear();  // so it is from the first
  return port;
}

DevicePort::DevicePort(std::unique_ptr<Device> device, const DeviceAddress& address, io::Descriptor timer)
    : device_(std::move(device)), address_(address), timer_(std::move(timer)), nap_(kShortNap) {}

DevicePort::~DevicePort() { device_->Publish(false); }

Status DevicePort::TryToOpen() {
  if (port_ != nullptr) return {};
  auto opened = device_->Open();
  if (!opened.ok()) return opened.status();
  port_ = *std::move(opened);
  return {};
}

void DevicePort::LookAtLink() {
  const Nanos now = Now();
  if (now < next_look_) return;
  next_look_ = now + kLinkLook;
  if (port_ == nullptr && now >= next_try_) {
    next_try_ = now + kTry;
    static_cast<void>(TryToOpen());
  }
  const bool up = port_ != nullptr && device_->LinkIsUp();
  if (std::exchange(up_, up) == up) return;
  device_->Publish(up);
  news_.push_back(up ? PortNews::kActive : PortNews::kError);
  // Who is new at a switch is not known there before he has said something.
  if (up) AskFor(address_.ip);
}

std::optional<PortNews> DevicePort::FirstNews() {
  LookAtLink();
  return news_.empty() ? std::nullopt : std::optional(news_.front());
}

Nanos DevicePort::NextNap() const {
  const Nanos nap = nap_.load(std::memory_order_relaxed);
  nap_.store(std::min(2 * nap, kLongNap), std::memory_order_relaxed);
  return nap;
}

int DevicePort::fd() const {
  const itimerspec once{.it_interval = {}, .it_value = TimeOf(NextNap())};
  timerfd_settime(timer_.get(), 0, &once, nullptr);
  return timer_.get();
}

void DevicePort::TakeErrors() {
  uint64_t expired = 0;
  static_cast<void>(read(timer_.get(), &expired, sizeof expired));
}

bool DevicePort::Wait(int wake_fd, bool for_packets, Nanos until) {
  Nanos left = until == kNever ? kSecond : std::max<Nanos>(until - Now(), 0);
  if (for_packets) left = has_looped_.load() ? 0 : std::min(left, NextNap());
  pollfd wake{wake_fd, POLLIN, 0};
  const timespec timeout = TimeOf(left);
  return ppoll(&wake, 1, &timeout, nullptr) > 0 && wake.revents != 0;
}

int DevicePort::Receive(int max_packets, PacketHandler handler, void* user) {
  int count = 0;
  for (; !looped_.empty() && count < max_packets; ++count) {
    Looped one = std::move(looped_.front());
    looped_.pop_front();
    one.head.payload = one.payload;
    handler(user, one.head);
  }
  if (looped_.empty()) has_looped_ = false;
  if (port_ != nullptr && count < max_packets) {
    struct Receiver {
      DevicePort* port;
      PacketHandler handler;
      void* user;
    } receiver{this, handler, user};
    const auto received = port_->Receive(
        max_packets - count,
        [](void* self, const io::ReceivedFrame& frame) {
          auto* r = static_cast<Receiver*>(self);
          r->port->OnFrame(frame, r->handler, r->user);
        },
        &receiver);
    port_->Release();
    if (received.ok()) {
      count += *received;
      if (port_->sender().waiting()) port_->sender().Resume();
    } else {
      port_.reset();
      next_look_ = INT64_MIN / 2;
    }
  }
  if (count > 0) nap_.store(kShortNap, std::memory_order_relaxed);
  return count;
}

void DevicePort::OnFrame(const io::ReceivedFrame& frame, PacketHandler handler, void* user) {
  roce::FrameAddress address;
  roce::Packet packet;
  const roce::ParseResult result = roce::ParseFrame(frame.bytes, &address, &packet);
  ++counters_.parse_results[static_cast<size_t>(result)];
  if (result == roce::ParseResult::kNotRoce) {
    if (const auto arp = roce::ParseArp(frame.bytes)) OnArp(*arp);
    return;
  }
  if (result != roce::ParseResult::kOk) return;
  // Switches flood. What was sent to a group from here has had its copy.
  const bool ours =
      packet.dst_ip == Ip(address_.ip) || (packet.dst_ip.is_multicast() && packet.src_ip != Ip(address_.ip));
  if (!ours) return void(++counters_.others);
  handler(user, packet);
}

// Only an answer to our own question is believed.
void DevicePort::OnArp(const roce::Arp& arp) {
  if (arp.target_ip != address_.ip) return;
  if (arp.op == roce::ArpOp::kRequest) {
    if (arp.sender_ip != address_.ip) SendArp(roce::ArpReplyTo(arp, address_.mac));
    return;
  }
  const Nanos now = Now();
  for (auto& [to, n] : neighbours_) {
    if (n.hop != arp.sender_ip || now - n.asked_at > kSecond) continue;
    n.mac = arp.sender_mac;
    n.reach = Reach::kReady;
    n.known_until = now + kValid;
  }
}

std::optional<Ipv4> DevicePort::HopTo(Ipv4 to) const {
  const uint32_t bits = address_.prefix_bits;
  const uint32_t mask = bits == 0 ? 0 : ~uint32_t{0} << (32 - bits);
  if (((Raw(to) ^ Raw(address_.ip)) & mask) == 0) return to;
  return address_.gateway;
}

DevicePort::Neighbour& DevicePort::Resolve(Ip to) {
  if (last_ == nullptr || last_to_ != to) {
    last_ = &neighbours_[to];
    last_to_ = to;
  }
  Neighbour& n = *last_;
  const Nanos now = Now();
  if (n.known_until > now || now - n.asked_at < kRepeat) return n;
  n.asked_at = now;
  if (to.is_multicast() && to.is_v4()) {
    n.mac = MulticastMac(to);
    n.reach = Reach::kReady;
    n.known_until = kNever;
    return n;
  }
  const std::optional<Ipv4> hop = to.is_v4() ? HopTo(to.v4()) : std::nullopt;
  if (!hop) {
    n.reach = Reach::kNoRoute;
    n.known_until = kNever;
    return n;
  }
  n.hop = *hop;
  AskFor(*hop);
  return n;
}

void DevicePort::AskFor(Ipv4 ip) {
  SendArp({.dst = roce::kBroadcastMac,
           .src = address_.mac,
           .op = roce::ArpOp::kRequest,
           .sender_mac = address_.mac,
           .sender_ip = address_.ip,
           .target_ip = ip});
}

void DevicePort::SendArp(const roce::Arp& arp) {
  if (port_ == nullptr) return;
  std::array<uint8_t, roce::kMaxArpFrameBytes> frame;
  const size_t bytes = roce::WriteArp(arp, frame);
  port_->sender().Send(std::span(frame).first(bytes));
  port_->sender().Flush();
}

std::vector<Ip> DevicePort::Addresses() { return {LinkLocalOf(address_.mac), Ip(address_.ip)}; }

void DevicePort::Send(const roce::Packet& packet) {
  const Neighbour& n = Resolve(packet.dst_ip);
  if (n.reach != Reach::kReady || port_ == nullptr) return void(++counters_.unresolved);
  roce::FramePieces pieces;
  roce::WritePieces({.dst = n.mac, .src = address_.mac, .ip_id = ip_id_++, .vlan = {}}, packet, nullptr,
                    &pieces);
  port_->sender().Send(pieces, {.joins = false, .stays = packet.payload_stays});
  if (!packet.dst_ip.is_multicast() || by_wire_alone_.contains(packet.dst_ip) || looped_.size() >= kPlaces)
    return;
  looped_.push_back({packet, {packet.payload.begin(), packet.payload.end()}});
  has_looped_ = true;
}

void DevicePort::SendByWireAlone(Ip group, bool on) {
  if (on) {
    by_wire_alone_.insert(group);
  } else {
    by_wire_alone_.erase(group);
  }
}

void DevicePort::Flush() {
  if (port_ != nullptr) port_->sender().Flush();
}

}  // namespace epic::softnic
