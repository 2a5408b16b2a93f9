// Where an adapter's packets go and come from, and its clock: the network, or a simulated one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "io/interface.h"
#include "roce/transport/memory.h"
#include "softnic/port/port_status.h"

namespace epic::softnic {

// One thread at a time uses a port.
//
// Packets to several destinations are queued by Send and leave at Flush, to those that take them in
// super-frames.
class Port : public roce::PacketSink {
 public:
  // Readable while packets wait to be received, or an error of the network's to be taken.
  virtual int fd() const = 0;
  // Takes errors, such as that the interface has gone down, so that fd() is readable for packets only again.
  virtual void TakeErrors() {}
  virtual Nanos Now() const = 0;
  // How long the calling thread has waited for a processor since it began, by this clock; 0 where that is not
  // known. Takes some 10 us.
  virtual Nanos Waited() const { return 0; }

  // Sleeps until `until`, by this clock, or until wake_fd is readable, or (only if for_packets) packets wait.
  // Returns whether wake_fd is readable. The one call that another thread may make at the same time as this
  // one.
  virtual bool Wait(int wake_fd, bool for_packets, Nanos until) = 0;

  using PacketHandler = void (*)(void* user, const roce::Packet& packet);
  // Hands over at most max_packets that have arrived whole and with a right ICRC; each is valid only during
  // the call. Returns how many frames were looked at: fewer than max_packets if none waits any more.
  virtual int Receive(int max_packets, PacketHandler handler, void* user) = 0;

  // Its addresses as they are now, some perhaps kNoGid; empty if they never change.
  virtual std::vector<Ip> Addresses() { return {}; }

  // What is to be told of it, the oldest first; nothing if there is none. It stays until it is taken. Of the
  // thread that waits: Wait also ends when there may be some. What finds no memory is told by a later call.
  virtual std::optional<PortNews> FirstNews() { return {}; }
  virtual void TakeNews() {}

  // Packets that wait for Receive at most: what comes when so many do is lost.
  virtual size_t places() const { return SIZE_MAX; }

  // Send (of PacketSink): queues a copy, but for a payload that stays, at the least until Flush: the caller
  // flushes before it lets anybody take a completion. What cannot be sent is lost, as on any network.
  virtual void Flush() = 0;

  // Whether packets to the address can leave; if not, finding out how is under way (call again after
  // Receive). kNever: there is no way there.
  enum class Reach : uint8_t { kReady, kResolving, kNoRoute };
  virtual Reach Prepare(Ip to) = 0;

  // Whether super-frames are taken, and sent in one piece. And: packets to the queue pair may leave in them
  // from now on, or no longer; only where they are taken. IPv4 only.
  virtual bool TakesSuperFrames() const { return false; }
  virtual void SendSuperFrames(Ipv4 /*to*/, Qpn /*qpn*/, bool /*on*/) {}
  // Whether datagrams to the group that are sent here leave by the wire alone: no queue pair of this machine
  // is to have them.
  virtual void SendByWireAlone(Ip /*group*/, bool /*on*/) {}

  // Receive for the 256 queue pair numbers from block * 256 on as well.
  virtual bool AddQpnBlock(uint16_t block) = 0;

  // Asks the network for datagrams to the group from now on, or no longer: 0 or an errno. The caller pairs
  // them.
  virtual int JoinGroup(Ip group) = 0;
  virtual void LeaveGroup(Ip group) = 0;
};

// What there is to open ports on. Outlives its ports.
class Network {
 public:
  virtual ~Network() = default;
  virtual std::vector<io::AddressedInterface> Interfaces() = 0;
  // As it is now, whatever it is called; of one that has gone for ever, even if there is another of its name.
  virtual io::InterfaceState State(const io::AddressedInterface& interface) = 0;
  // Its addresses now, up or not.
  virtual std::vector<Ip> Addresses(const io::AddressedInterface& interface) { return interface.addresses; }
  // NOT_FOUND, PERMISSION_DENIED, UNAVAILABLE or INTERNAL, with the interface's name.
  virtual StatusOr<std::unique_ptr<Port>> Open(const io::AddressedInterface& interface) = 0;
};

}  // namespace epic::softnic
