// A port on an Ethernet interface, beside the kernel's own stack and with its addresses: frames through a
// packet socket; IPv4 neighbours by ARP, IPv6 ones by the kernel, which is asked to look for them. Packets to
// an address of this machine take the loopback interface, so that processes of one machine reach each other.
// Datagrams to a group take both ways: by the loopback interface they reach members on this machine, the
// sending port's own included.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/thread_time.h"
#include "io/descriptor.h"
#include "io/interface.h"
#include "io/link_watch.h"
#include "io/packet_socket.h"
#include "roce/frame.h"
#include "softnic/port/port.h"

namespace epic::softnic {

struct EthernetPortCounters {
  uint64_t unresolved = 0;  // sent to nobody: no hardware address was known
  std::array<uint64_t, roce::kParseResults> parse_results{};
};

class EthernetPort final : public Port {
 public:
  // NOT_FOUND, PERMISSION_DENIED or INTERNAL, with the interface's name.
  static StatusOr<std::unique_ptr<EthernetPort>> Open(const io::AddressedInterface& interface);

  int fd() const override { return epoll_.get(); }
  void TakeErrors() override;
  Nanos Now() const override;
  Nanos Waited() const override { return OwnWait(); }
  bool Wait(int wake_fd, bool for_packets, Nanos until) override;
  int Receive(int max_packets, PacketHandler handler, void* user) override;
  std::vector<Ip> Addresses() override;
  std::optional<PortNews> FirstNews() override;
  void TakeNews() override { status_->TakeNews(); }
  // Of the smaller ring: whose packets come by which is not the adapter's matter.
  size_t places() const override;
  void Send(const roce::Packet& packet) override;
  void Flush() override;
  Reach Prepare(Ip to) override;
  bool TakesSuperFrames() const override { return wire_->super_frames(); }
  void SendSuperFrames(Ipv4 to, Qpn qpn, bool on) override;
  void SendByWireAlone(Ip group, bool on) override;
  bool AddQpnBlock(uint16_t block) override;
  int JoinGroup(Ip group) override;
  void LeaveGroup(Ip group) override;

  const EthernetPortCounters& counters() const { return counters_; }

 private:
  struct Neighbour {
    Reach reach = Reach::kResolving;
    bool local = false;  // an address of this machine: over the loopback interface
    Ip hop;
    roce::MacAddress mac{};
    Nanos asked_at = INT64_MIN / 2;   // when it was last looked for
    Nanos looked_at = INT64_MIN / 2;  // when the kernel's table was last read
    Nanos known_until = 0;
  };
  struct Receiver;

  EthernetPort(const io::AddressedInterface& interface, std::unique_ptr<io::PacketSocket> wire,
               std::unique_ptr<io::PacketSocket> loop, io::Descriptor udp, io::Descriptor udp6,
               io::Descriptor long_udp);
  int WatchSockets();  // 0, or an errno
  void WatchLink();
  void OnFrame(const io::ReceivedFrame& frame, bool looped, PacketHandler handler, void* user);
  bool IsEcho(const roce::Packet& packet, bool looped);
  bool Joins(Ip to, Qpn qpn);
  bool IsOwn(Ip ip) const;
  // ethernet_neighbours.cc
  Neighbour& Resolve(Ip to);
  bool ReadAddresses();  // false if there is no descriptor to ask by: those last read stay
  bool IsLocal(Ip to) const;
  void FindHop(Ip to, Nanos now, Neighbour& neighbour);
  void LookUpIpv6(Nanos now, Neighbour& neighbour);
  void AskForAddress(Ip hop);
  void OnArpReply(std::span<const uint8_t> frame);

  io::AddressedInterface interface_;
  std::vector<Ip> gids_;                     // its addresses, when they were last read
  std::vector<io::AddressedInterface> all_;  // of the machine, at the same time
  Nanos next_source_look_ = INT64_MIN / 2;   // for a datagram of this machine
  std::unique_ptr<io::PacketSocket> wire_, loop_;
  io::Descriptor udp_, udp6_, long_udp_, members_, epoll_;
  std::optional<io::LinkWatch> links_;      // none: the kernel tells nothing
  std::optional<PortStatus> status_;        // if there is one
  bool has_changes_ = false;                // links_ has something to say; of the thread that waits
  bool missed_changes_ = false;             // something was said that was not heard
  static constexpr size_t kMaxSockets = 4;  // a short and a long one for each of the two
  std::vector<int> fds_;                    // of the sockets, which epoll_ watches
  std::vector<uint16_t> blocks_;
  std::map<Ip, Neighbour> neighbours_;
  // The neighbour of the last packet: mostly the next one's as well.
  Ip last_to_;
  Neighbour* last_ = nullptr;
  std::set<std::pair<Ip, Qpn>> super_frame_peers_;
  std::set<Ip> by_wire_alone_;       // groups
  std::pair<Ip, Qpn> last_asked_{};  // whether it is one of them
  bool last_joins_ = false;
  uint16_t ip_id_ = 0;
  EthernetPortCounters counters_;
};

// The kernel's interfaces.
class EthernetNetwork final : public Network {
 public:
  std::vector<io::AddressedInterface> Interfaces() override { return io::AddressedInterfaces(); }
  io::InterfaceState State(const io::AddressedInterface& interface) override;
  std::vector<Ip> Addresses(const io::AddressedInterface& interface) override;
  StatusOr<std::unique_ptr<Port>> Open(const io::AddressedInterface& interface) override;
};

}  // namespace epic::softnic
