// What the kernel says of its network interfaces and routes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ip.h"
#include "base/types.h"
#include "roce/packet.h"

namespace epic::io {

// What the kernel says of an interface now.
struct InterfaceState {
  bool exists = false;
  bool up = false;  // administratively, and with a carrier
  uint32_t mtu = 0;
};
InterfaceState ReadInterface(const std::string& interface);
// For programs that go on when there is no descriptor to ask by: then nothing.
std::optional<InterfaceState> TryReadInterface(const std::string& interface);
// For those that have one: a socket of any kind.
InterfaceState ReadInterface(const std::string& interface, int any_socket);

// How often the interface has lost its carrier, if the kernel says so. It waits for the kernel's lock, which
// whoever makes or deletes interfaces holds.
std::optional<uint32_t> ReadTimesDown(const std::string& interface);

// The rate of the interface's link in Mbit/s as its driver says it; 0 if it does not.
uint32_t ReadRateMbps(const std::string& interface);

// An Ethernet interface, or the loopback one, that has an IPv4 address.
struct AddressedInterface {
  std::string name;
  uint32_t index = 0;
  Ipv4 ip{};  // its first address
  roce::MacAddress mac{};
  bool loopback = false;
  // All of them, IPv4 and then IPv6, each in the kernel's order: of IPv4 the oldest first, of IPv6 by scope,
  // the widest first, and in it the newest first.
  std::vector<Ip> addresses;
};
// Those that are up, in the kernel's order.
std::vector<AddressedInterface> AddressedInterfaces();
// The addresses that the interface has now, up or not, in that order. Nothing if there is no descriptor to
// ask by.
std::optional<std::vector<Ip>> AddressesOf(const std::string& interface);

// What the interface with the index is called now; empty if there is none. Nothing if there is no descriptor to
// ask by.
std::optional<std::string> InterfaceName(uint32_t index);

// Who on the interface gets a packet for `to`: itself, or the gateway of the route with the longest prefix
// (the main table, from /proc/net/route). Nothing if the interface has no route there.
std::optional<Ipv4> NextHop(const std::string& interface, Ipv4 to);

// The hardware address that the kernel knows of a neighbour, learnt or set by hand.
std::optional<roce::MacAddress> KernelNeighbour(const std::string& interface, Ipv4 ip);

}  // namespace epic::io
