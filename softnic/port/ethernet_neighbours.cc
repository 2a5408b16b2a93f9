// Where a port's packets go: which interface, which hardware address.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/ipv6_route.h"
#include "roce/arp.h"
#include "softnic/port/ethernet_port.h"
#include "softnic/port/gids.h"
#include "softnic/port/neighbour.h"

namespace epic::softnic {
namespace {

// The kernel does not tell when it has found an IPv6 neighbour: its table is read again after this.
constexpr Nanos kLookAgain = 5 * kMillisecond;

}  // namespace

// Only an answer to our own question is believed.
void EthernetPort::OnArpReply(std::span<const uint8_t> frame) {
  const auto arp = roce::ParseArp(frame);
  if (!arp || arp->op != roce::ArpOp::kReply || arp->target_ip != interface_.ip) return;
  const Nanos now = Now();
  for (auto& [to, n] : neighbours_) {
    if (n.local || n.hop != arp->sender_ip || now - n.asked_at > kSecond) continue;
    n.mac = arp->sender_mac;
    n.reach = Reach::kReady;
    n.known_until = now + kValid;
  }
}

EthernetPort::Neighbour& EthernetPort::Resolve(Ip to) {
  if (last_ == nullptr || last_to_ != to) {
    const auto [it, fresh] = neighbours_.try_emplace(to);
    last_ = &it->second;
    last_to_ = to;
  }
  Neighbour& n = *last_;
  const Nanos now = Now();
  if (n.known_until > now) return n;
  if (now - n.asked_at < kRepeat) {
    if (!to.is_v4() && n.reach == Reach::kResolving && now - n.looked_at >= kLookAgain) LookUpIpv6(now, n);
    return n;
  }
  n.asked_at = now;
  FindHop(to, now, n);
  if (n.known_until <= now) AskForAddress(n.hop);
  return n;
}

bool EthernetPort::ReadAddresses() {
  all_ = io::AddressedInterfaces();
  const std::optional<std::string> name = io::InterfaceName(interface_.index);
  if (name && !name->empty()) interface_.name = *name;
  std::optional<std::vector<Ip>> addresses = name ? io::AddressesOf(*name) : std::nullopt;
  const bool known = addresses.has_value();
  if (!known && !gids_.empty()) return false;
  io::AddressedInterface now = interface_;  // with its addresses as they were when it was listed
  if (known) now.addresses = *std::move(addresses);
  gids_ = GidsOf(now);
  return known;
}

// An address of this machine. Another link's link-local one means somebody else here.
bool EthernetPort::IsLocal(Ip to) const {
  if (IsOwn(to)) return true;
  return !to.is_link_local() && std::ranges::any_of(all_, [to](const io::AddressedInterface& i) {
    return i.ip == to || std::ranges::find(i.addresses, to) != i.addresses.end();
  });
}

// What is known without asking. An address that was known and has grown old stays in use meanwhile.
void EthernetPort::FindHop(Ip to, Nanos now, Neighbour& n) {
  const auto known = [&](const roce::MacAddress& mac, Nanos until) {
    n.mac = mac;
    n.reach = Reach::kReady;
    n.known_until = until;
  };
  ReadAddresses();
  n.local = IsLocal(to);
  if (n.local) return known({}, now + kValid);
  if (to.is_multicast()) return known(MulticastMac(to), kNever);
  std::optional<Ip> hop;
  if (!to.is_v4()) {
    hop = io::Ipv6NextHop(interface_.index, to);
  } else if (const std::optional<Ipv4> v4 = io::NextHop(interface_.name, to.v4())) {
    hop = *v4;
  }
  if (!hop) {
    n.reach = Reach::kNoRoute;
    n.known_until = now + kRepeat;
    return;
  }
  if (n.reach == Reach::kNoRoute) n.reach = Reach::kResolving;
  n.hop = *hop;
  if (!to.is_v4()) return LookUpIpv6(now, n);
  if (const auto mac = io::KernelNeighbour(interface_.name, hop->v4())) known(*mac, now + kValid);
}

// One that may have changed is used as it is, and asked for.
void EthernetPort::LookUpIpv6(Nanos now, Neighbour& n) {
  n.looked_at = now;
  const std::optional<io::Ipv6Neighbour> found = io::KernelIpv6Neighbour(interface_.index, n.hop);
  if (!found) return;
  n.mac = found->mac;
  n.reach = Reach::kReady;
  n.known_until = found->fresh ? now + kValid : now;
}

void EthernetPort::AskForAddress(Ip hop) {
  if (!hop.is_v4()) return io::AskForIpv6Neighbour(udp6_.get(), interface_.index, hop);
  const roce::Arp request{.dst = roce::kBroadcastMac,
                          .src = interface_.mac,
                          .op = roce::ArpOp::kRequest,
                          .sender_mac = interface_.mac,
                          .sender_ip = interface_.ip,
                          .target_ip = hop.v4()};
  std::array<uint8_t, roce::kMaxArpFrameBytes> frame;
  const size_t bytes = roce::WriteArp(request, frame);
  wire_->sender().Send(std::span(frame).first(bytes));
  wire_->FlushOrDrop();
}

Port::Reach EthernetPort::Prepare(Ip to) { return Resolve(to).reach; }

}  // namespace epic::softnic
