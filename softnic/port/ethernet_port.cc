#include "softnic/port/ethernet_port.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/path_mtu.h"
#include "io/clock.h"
#include "io/offloads.h"
#include "roce/super_frame.h"

namespace epic::softnic {
namespace {

// One window of a queue pair is 128 packets.
constexpr size_t kRingBytes = 8 << 20;
constexpr size_t kLoopRingBytes = 4 << 20;
// No RoCE packet is longer than IPv6 and UDP headers, BTH, RETH, immediate data, a payload and the ICRC.
constexpr uint32_t kMaxMtu = 40 + 8 + 12 + 16 + 4 + kMaxPathMtu + 4;

// For so long the interface's addresses are not read again for a datagram from another one of the machine's.
constexpr Nanos kSourceLook = 100 * kMillisecond;

// An interface that has gone down is an error of its sockets until somebody takes it off: nobody would sleep
// until then.
void TakeErrorsOf(std::span<const pollfd> fds) {
  for (const pollfd& one : fds) {
    if ((one.revents & POLLERR) != 0) io::TakeSocketError(one.fd);
  }
}

// Whatever it is called now. Nothing if there is no descriptor to ask by.
std::optional<io::InterfaceState> StateOf(const io::AddressedInterface& interface) {
  const std::optional<std::string> name = io::InterfaceName(interface.index);
  return name ? io::TryReadInterface(*name) : std::nullopt;
}

}  // namespace

StatusOr<std::unique_ptr<EthernetPort>> EthernetPort::Open(const io::AddressedInterface& interface) {
  const bool single_frames = std::getenv("EPIC_SOFTNIC_SINGLE_FRAMES") != nullptr;
  io::PacketSocket::Options options{
      .interface = interface.name,
      .ring_bytes = kRingBytes,
      .max_mtu = kMaxMtu,
      .super_frames = !single_frames && io::CarriesSuperFrames(io::ReadOffloads(interface.name)),
      .udp_port = roce::kUdpPort,
      .arp_replies = true};
  auto wire = io::PacketSocket::Open(options);
  if (!wire.ok()) return wire.status();
  std::unique_ptr<io::PacketSocket> loop;
  if (!interface.loopback) {
    options = {
        .interface = "lo", .ring_bytes = kLoopRingBytes, .max_mtu = kMaxMtu, .udp_port = roce::kUdpPort};
    // Without it processes of this machine do not reach each other over their own address; all else works.
    if (auto opened = io::PacketSocket::Open(options); opened.ok()) loop = std::move(*opened);
  }
  io::Descriptor udp = io::HoldUdpPort(roce::kUdpPort);
  if (!udp) {
    const int error = errno;
    return MakeStatus(StatusCode::kUnavailable,
                      std::string("UDP port 4791 cannot be shared") +
                          (error == EADDRINUSE ? " (does rdma_rxe hold it?): " : ": ") +
                          std::strerror(error));
  }
  io::Descriptor udp6 = io::HoldIpv6UdpPort(roce::kUdpPort);
  if (!udp6 && errno != EAFNOSUPPORT) {
    return MakeStatus(StatusCode::kUnavailable,
                      std::string("UDP port 4791 of IPv6 cannot be shared: ") + std::strerror(errno));
  }
  // Without it everything works as well, and more slowly.
  io::Descriptor long_udp;
  if ((*wire)->super_frames()) long_udp = io::HoldUdpPortForSuperFrames(roce::kUdpPort, interface.name);
  std::unique_ptr<EthernetPort> port(new EthernetPort(interface, std::move(*wire), std::move(loop),
                                                      std::move(udp), std::move(udp6), std::move(long_udp)));
  if (const int error = port->WatchSockets(); error != 0) {
    return MakeStatus(StatusCode::kInternal,
                      "interface " + interface.name + ": epoll: " + std::strerror(error));
  }
  port->WatchLink();
  return port;
}

EthernetPort::EthernetPort(const io::AddressedInterface& interface, std::unique_ptr<io::PacketSocket> wire,
                           std::unique_ptr<io::PacketSocket> loop, io::Descriptor udp, io::Descriptor udp6,
                           io::Descriptor long_udp)
    : interface_(interface),
      wire_(std::move(wire)),
      loop_(std::move(loop)),
      udp_(std::move(udp)),
      udp6_(std::move(udp6)),
      long_udp_(std::move(long_udp)) {
  ReadAddresses();
}

int EthernetPort::WatchSockets() {
  epoll_ = io::Descriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return errno;
  for (const io::PacketSocket* socket : {wire_.get(), loop_.get()}) {
    if (socket == nullptr) continue;
    for (const int fd : socket->fds()) {
      epoll_event event{.events = EPOLLIN, .data = {}};
      if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return errno;
      fds_.push_back(fd);
    }
  }
  return 0;
}

// Without a socket for it there are no news, and all else works.
void EthernetPort::WatchLink() {
  auto links = io::LinkWatch::Open(/*addresses=*/true);
  if (!links.ok()) return;
  links_ = std::move(*links);
  // What changes from here on is told.
  ReadAddresses();
  status_.emplace(interface_.index, EthernetNetwork().State(interface_).up, gids_);
}

std::optional<PortNews> EthernetPort::FirstNews() {
  if (!status_) return std::nullopt;
  if (has_changes_ || missed_changes_) {
    bool missed = std::exchange(missed_changes_, true);  // if this does not come to its end
    has_changes_ = false;
    const auto on_change = [](void* status, const io::InterfaceChange& change) {
      static_cast<PortStatus*>(status)->OnChange(change);
    };
    missed |= !links_->ReadChanges(on_change, &*status_);
    if (missed) {
      const std::optional<io::InterfaceState> now = StateOf(interface_);
      if (!now) return status_->FirstNews();
      status_->OnState(now->exists, now->up);
    }
    if (status_->wants_gids() || missed) {
      if (!ReadAddresses()) return status_->FirstNews();
      status_->OnGids(gids_);
    }
    missed_changes_ = false;
  }
  return status_->FirstNews();
}

io::InterfaceState EthernetNetwork::State(const io::AddressedInterface& interface) {
  // One that cannot be asked about counts as down: this is a library, and does not end the program.
  return StateOf(interface).value_or(io::InterfaceState{});
}

std::vector<Ip> EthernetNetwork::Addresses(const io::AddressedInterface& interface) {
  const std::optional<std::string> name = io::InterfaceName(interface.index);
  return (name ? io::AddressesOf(*name) : std::nullopt).value_or(interface.addresses);
}

StatusOr<std::unique_ptr<Port>> EthernetNetwork::Open(const io::AddressedInterface& interface) {
  auto port = EthernetPort::Open(interface);
  if (!port.ok()) return port.status();
  return std::unique_ptr<Port>(std::move(*port));
}

Nanos EthernetPort::Now() const { return io::MonotonicNow(); }

bool EthernetPort::Wait(int wake_fd, bool for_packets, Nanos until) {
  // A descriptor of -1 is none.
  std::array<pollfd, 2 + kMaxSockets> fds{pollfd{wake_fd, POLLIN, 0},
                                          pollfd{links_ ? links_->fd() : -1, POLLIN, 0}};
  size_t count = 2;
  for (size_t i = 0; for_packets && i < fds_.size(); ++i) fds[count++] = {fds_[i], POLLIN, 0};
  const Nanos left = until == kNever ? 0 : std::max<Nanos>(until - Now(), 0);
  const timespec timeout{.tv_sec = left / kSecond, .tv_nsec = left % kSecond};
  if (ppoll(fds.data(), count, until == kNever ? nullptr : &timeout, nullptr) <= 0) return false;
  TakeErrorsOf(std::span(fds).subspan(2, count - 2));
  has_changes_ |= fds[1].revents != 0;
  return fds[0].revents != 0;
}

void EthernetPort::TakeErrors() {
  std::array<pollfd, kMaxSockets> fds{};
  for (size_t i = 0; i < fds_.size(); ++i) fds[i].fd = fds_[i];
  if (poll(fds.data(), fds_.size(), 0) > 0) TakeErrorsOf(std::span(fds).first(fds_.size()));
}

bool EthernetPort::AddQpnBlock(uint16_t block) {
  blocks_.push_back(block);
  if (wire_->SetQpnBlocks(blocks_).ok() && (loop_ == nullptr || loop_->SetQpnBlocks(blocks_).ok()))
    return true;
  // One of the sockets may receive for it, to nobody, until the next block is added.
  blocks_.pop_back();
  return false;
}

// By the kernel's means: its IGMP or MLD tells switches that snoop, and the interface lets the group's frames
// in.
int EthernetPort::JoinGroup(Ip group) {
  if (group.is_v4() && !members_ && !(members_ = io::OpenMembership())) return errno;
  if (!group.is_v4() && !udp6_) return EAFNOSUPPORT;  // the kernel has no IPv6
  ReadAddresses();
  return io::JoinGroup(group.is_v4() ? members_.get() : udp6_.get(), interface_.index, group);
}
void EthernetPort::LeaveGroup(Ip group) {
  io::LeaveGroup(group.is_v4() ? members_.get() : udp6_.get(), interface_.index, group);
}

struct EthernetPort::Receiver {
  EthernetPort* port;
  PacketHandler handler;
  void* user;
  bool looped = false;  // from the loopback interface, and that is not the port's own
  static void OnFrame(void* self, const io::ReceivedFrame& frame) {
    auto* r = static_cast<Receiver*>(self);
    r->port->OnFrame(frame, r->looped, r->handler, r->user);
  }
};

int EthernetPort::Receive(int max_packets, PacketHandler handler, void* user) {
  Receiver receiver{this, handler, user};
  int count = 0;
  for (io::PacketSocket* socket : {wire_.get(), loop_.get()}) {
    if (socket == nullptr || count >= max_packets) continue;
    receiver.looped = socket == loop_.get();
    const auto received = socket->Receive(max_packets - count, Receiver::OnFrame, &receiver);
    socket->Release();
    if (received.ok()) count += *received;
  }
  return count;
}

std::vector<Ip> EthernetPort::Addresses() {
  ReadAddresses();
  return gids_;
}

size_t EthernetPort::places() const {
  return loop_ == nullptr ? wire_->places() : std::min(wire_->places(), loop_->places());
}

bool EthernetPort::IsOwn(Ip ip) const { return std::ranges::find(gids_, ip) != gids_.end(); }

// Of a datagram to a group one copy counts: that by the loopback interface if it comes from this interface's
// address, else that by the wire. So nobody has it twice where the network gives frames back, and members on
// another interface of the machine have only what its network brings. The interface may have got the address
// since its addresses were last read.
bool EthernetPort::IsEcho(const roce::Packet& packet, bool looped) {
  if (interface_.loopback || !packet.dst_ip.is_multicast()) return false;
  if (looped && !IsOwn(packet.src_ip)) {
    const Nanos now = Now();
    if (now < next_source_look_) return true;
    next_source_look_ = now + kSourceLook;
    ReadAddresses();
  }
  return looped != IsOwn(packet.src_ip);
}

void EthernetPort::OnFrame(const io::ReceivedFrame& frame, bool looped, PacketHandler handler, void* user) {
  roce::FrameAddress address;
  roce::Packet packet;
  const auto take = [&](roce::ParseResult result) {
    ++counters_.parse_results[static_cast<size_t>(result)];
    if (result == roce::ParseResult::kOk && !IsEcho(packet, looped)) handler(user, packet);
  };
  if (frame.segment_bytes == 0) {
    roce::ParseResult result = roce::ParseFrame(frame.bytes, &address, &packet);
    if (result == roce::ParseResult::kNotRoce) result = roce::ParseIpv6Frame(frame.bytes, &address, &packet);
    return result == roce::ParseResult::kNotRoce ? OnArpReply(frame.bytes) : take(result);
  }
  roce::SuperFrameView view;
  const roce::ParseResult whole = roce::SuperFrameView::Of(frame.bytes, frame.segment_bytes, &view);
  if (whole != roce::ParseResult::kOk) return take(whole);
  for (size_t k = 0; k < view.packets(); ++k) take(view.Parse(k, &address, &packet));
}

void EthernetPort::Send(const roce::Packet& packet) {
  const Neighbour& n = Resolve(packet.dst_ip);
  io::PacketSocket* socket = n.local && loop_ != nullptr ? loop_.get() : wire_.get();
  if (n.reach != Reach::kReady || (n.local && loop_ == nullptr && !interface_.loopback))
    return void(++counters_.unresolved);
  const roce::MacAddress own = n.local ? roce::MacAddress{} : interface_.mac;
  roce::FramePieces pieces;
  roce::WritePieces({.dst = n.mac, .src = own, .ip_id = ip_id_++, .vlan = {}}, packet, nullptr, &pieces);
  const bool joins = !super_frame_peers_.empty() && Joins(packet.dst_ip, packet.bth.dest_qp);
  socket->sender().Send(pieces, {.joins = joins, .stays = packet.payload_stays});
  if (packet.dst_ip.is_multicast() && loop_ != nullptr && !by_wire_alone_.contains(packet.dst_ip))
    loop_->sender().Send(pieces, {.joins = false, .stays = packet.payload_stays});
}

bool EthernetPort::Joins(Ip to, Qpn qpn) {
  if (last_asked_ != std::pair(to, qpn)) {
    last_asked_ = {to, qpn};
    last_joins_ = super_frame_peers_.contains(last_asked_);
  }
  return last_joins_;
}

void EthernetPort::SendSuperFrames(Ipv4 to, Qpn qpn, bool on) {
  if (on) {
    super_frame_peers_.emplace(to, qpn);
  } else {
    super_frame_peers_.erase({to, qpn});
  }
  last_asked_ = {};
  last_joins_ = false;
}

void EthernetPort::SendByWireAlone(Ip group, bool on) {
  if (on) {
    by_wire_alone_.insert(group);
  } else {
    by_wire_alone_.erase(group);
  }
}

void EthernetPort::Flush() {
  wire_->FlushOrDrop();
  if (loop_ != nullptr) loop_->FlushOrDrop();
}

}  // namespace epic::softnic
