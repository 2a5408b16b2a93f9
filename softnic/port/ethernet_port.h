// A port on an Ethernet interface, beside the kernel's own stack and with its address: frames through a
// packet socket, neighbours by ARP. Packets to an address of this machine take the loopback interface, so
// that processes of one machine reach each other. Datagrams to a group take both ways: by the loopback
// interface they reach members on this machine, the sending port's own included, as with rdma_rxe.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "io/descriptor.h"
#include "io/interface.h"
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
  bool Wait(int wake_fd, bool for_packets, Nanos until) override;
  int Receive(int max_packets, PacketHandler handler, void* user) override;
  void Send(const roce::Packet& packet) override;
  void Flush() override;
  Reach Prepare(Ipv4 to) override;
  bool TakesSuperFrames() const override { return wire_->super_frames(); }
  void SendSuperFrames(Ipv4 to, Qpn qpn, bool on) override;
  bool AddQpnBlock(uint16_t block) override;
  int JoinGroup(Ipv4 group) override;
  void LeaveGroup(Ipv4 group) override;

  const EthernetPortCounters& counters() const { return counters_; }

 private:
  struct Neighbour {
    Reach reach = Reach::kResolving;
    bool local = false;  // an address of this machine: over the loopback interface
    Ipv4 hop{};
    roce::MacAddress mac{};
    Nanos asked_at = INT64_MIN / 2;  // when it was last looked for
    Nanos known_until = 0;
  };
  struct Receiver;

  EthernetPort(const io::AddressedInterface& interface, std::unique_ptr<io::PacketSocket> wire,
               std::unique_ptr<io::PacketSocket> loop, io::Descriptor udp, io::Descriptor long_udp);
  int WatchSockets();  // 0, or an errno
  void OnFrame(const io::ReceivedFrame& frame, bool looped, PacketHandler handler, void* user);
  bool IsEcho(const roce::Packet& packet, bool looped) const;
  bool Joins(Ipv4 to, Qpn qpn);
  Neighbour& Resolve(Ipv4 to);
  void FindHop(Ipv4 to, Nanos now, Neighbour& neighbour);
  void AskForAddress(Ipv4 hop);
  void OnArpReply(std::span<const uint8_t> frame);

  io::AddressedInterface interface_;
  std::unique_ptr<io::PacketSocket> wire_, loop_;
  io::Descriptor udp_, long_udp_, epoll_;
  static constexpr size_t kMaxSockets = 4;  // a short and a long one for each of the two
  std::vector<int> fds_;                    // of the sockets, which epoll_ watches
  std::vector<uint16_t> blocks_;
  std::map<Ipv4, Neighbour> neighbours_;
  // The neighbour of the last packet: mostly the next one's as well.
  Ipv4 last_to_{};
  Neighbour* last_ = nullptr;
  std::set<std::pair<Ipv4, Qpn>> super_frame_peers_;
  std::pair<Ipv4, Qpn> last_asked_{};  // whether it is one of them
  bool last_joins_ = false;
  uint16_t ip_id_ = 0;
  EthernetPortCounters counters_;
};

// The kernel's interfaces.
class EthernetNetwork final : public Network {
 public:
  std::vector<io::AddressedInterface> Interfaces() override { return io::AddressedInterfaces(); }
  io::InterfaceState State(const io::AddressedInterface& interface) override;
  StatusOr<std::unique_ptr<Port>> Open(const io::AddressedInterface& interface) override;
};

}  // namespace epic::softnic
