// An unreliable queue pair for the datagrams of one multicast group: plain libibverbs, and the kernel's
// membership of the group.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/types.h"
#include "commlib/verbs/any_qp.h"
#include "epic/epic.h"

namespace epic::verbs {

// A datagram's receive begins with so many bytes of headers (IBTA, Global Route Header).
inline constexpr uint32_t kGrhBytes = 40;

struct MulticastInfo {
  Ipv4 address{};             // of the group, host byte order
  uint32_t qkey = 0;          // of what is sent and taken; its uppermost bit is 0
  bool super_frames = false;  // all members, and all links to them, take super-frames
  bool alone = false;         // no other member is on this host, and its own datagrams are not to come back
};

// Which queue pair sent a datagram.
struct DatagramSource {
  Ipv4 ip{};
  uint32_t qpn = 0;

  friend bool operator==(const DatagramSource&, const DatagramSource&) = default;
};

// Of a completed receive; `grh` has its first kGrhBytes bytes. Nothing if it has no such header, or if that
// is not certain to be of IPv4 without options.
std::optional<DatagramSource> SourceOf(const ibv_wc& wc, const uint8_t* grh);

// Not thread-safe; its owner has a lock. What a NIC does with receives that are posted when it goes to ERR is
// as with QueuePair: softnic and rdma_rxe flush them.
class DatagramQp : public AnyQp {
 public:
  // A queue pair in state INIT, so that its number can be told when the rank joins; completions go to `cq`.
  // Receives may be posted. kNoResource or kInternal if verbs refuse.
  static Error Create(std::shared_ptr<Device> device, std::shared_ptr<CompletionQueue> cq, uint32_t max_sends,
                      uint32_t max_recvs, std::unique_ptr<DatagramQp>* qp);
  ~DatagramQp() { DestroyQp(); }

  // INIT to RTR to RTS; attached to the group, which the host joins. From then on datagrams come. Once.
  // kTransport, or kNoResource where there are too many groups, naming what failed and the device.
  Error Join(const MulticastInfo& info);

  // From now on datagrams with this key are taken, and no others, and such are sent. After Join. kTransport
  // if verbs refuse.
  Error SetQkey(uint32_t qkey);

  // As PostRecvs, of sends; after Join. Each request goes to the group, with the key of now.
  int PostSends(ibv_send_wr* first, ibv_send_wr** rest);

  // Leaves the group and destroys the queue pair: afterwards the NIC does not touch any buffer, and nothing
  // completes.
  void DestroyQp();

 private:
  DatagramQp() = default;
  Error ToReady(uint32_t qkey);
  Error Attach(Ipv4 address);
  Error JoinByKernel(Ipv4 address);
  Error Failed(const std::string& what, int error) const;

  uint32_t qkey_ = 0;
  std::optional<Ipv4> attached_;
  ibv_ah* group_ = nullptr;
  int membership_ = -1;  // a socket whose membership is ours
};

}  // namespace epic::verbs
