#include "io/dpdk/dpdk_port.h"

#include <rte_epoll.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>

#include "io/clock.h"
#include "io/dpdk/eal.h"
#include "io/dpdk/mbuf_sender.h"

namespace epic::io::dpdk {
namespace {

constexpr size_t kBurst = 32;
// Whether a memif's peer has gone is looked at once in so many looks that find nothing: it is cheap, and the
// loop's sleeps bound how long it takes.
constexpr uint32_t kEmptyLooks = 64;
// What a driver's own thread may take from when a link is down until nothing of it is left: much more than it
// does.
constexpr Nanos kDriverNeeds = 200 * kMillisecond;
// What the two ends of a memif may take to agree, also on a busy machine. A server that has not noticed yet
// that its last client has gone refuses the next one, and nobody tells: so it is not for ever.
constexpr Nanos kAgree = kSecond;

}  // namespace

StatusOr<std::unique_ptr<DpdkPort>> DpdkPort::Open(Ethdev* ethdev) {
  if (const Status status = ethdev->Start(); !status.ok()) return status;
  return std::unique_ptr<DpdkPort>(new DpdkPort(ethdev));
}

DpdkPort::DpdkPort(Ethdev* ethdev) : ethdev_(ethdev), dropped_before_(ethdev->CountDropped()) {
  sender_ = std::make_unique<MbufSender>(ethdev);
}

DpdkPort::~DpdkPort() {
  Release();
  sender_.reset();
  ethdev_->Stop();
}

std::vector<int> DpdkPort::fds() const {
  if (ethdev_->interrupts() < 0) return {};
  return {ethdev_->interrupts()};
}

bool DpdkPort::Arm() {
  // Of room for what waits no interrupt tells.
  if (ethdev_->interrupts() < 0 || sender_->waiting()) return false;
  if (!armed_) armed_ = rte_eth_dev_rx_intr_enable(ethdev_->id(), 0) == 0;
  return armed_;
}

void DpdkPort::Disarm() {
  rte_eth_dev_rx_intr_disable(ethdev_->id(), 0);
  armed_ = false;
}

bool DpdkPort::PeerHasGone() {
  const Device& device = ethdev_->device();
  if (!device.memif || ++empty_looks_ % kEmptyLooks != 0) return false;
  if (ethdev_->LinkIsUp()) return down_since_ = kNever, was_up_ = true, false;
  if (device.server) return false;  // the next client finds it
  // A client does not find its server again by itself: it is opened anew, when the driver has done with the
  // old one.
  down_since_ = std::min(down_since_, MonotonicNow());
  return MonotonicNow() - down_since_ > (was_up_ ? kDriverNeeds : kAgree);
}

StatusOr<int> DpdkPort::Receive(int max_packets, FrameHandler handler, void* user) {
  RegisterThread();
  const auto wanted = static_cast<size_t>(max_packets);
  size_t count = 0;
  for (bool more = true; more && count < wanted;) {
    std::array<rte_mbuf*, kBurst> burst;
    const auto most = static_cast<uint16_t>(std::min(kBurst, wanted - count));
    const uint16_t came = ethdev_->Receive(burst.data(), most);
    kept_.insert(kept_.end(), burst.begin(), burst.begin() + came);
    for (size_t i = 0; i < came; ++i) {
      if (i + 1 < came) rte_prefetch0(rte_pktmbuf_mtod(burst[i + 1], const void*));
      Take(burst[i], handler, user);
    }
    count += came;
    more = came == most;
  }
  rte_epoll_event event{};
  if (armed_ && (count > 0 || rte_epoll_wait(ethdev_->interrupts(), &event, 1, 0) > 0)) Disarm();
  if (ethdev_->broken())
    return MakeStatus(StatusCode::kUnavailable, "its peer has spoilt the memory that they share");
  if (count == 0 && PeerHasGone())
    return MakeStatus(
        StatusCode::kUnavailable,
        was_up_ ? "nobody is at the other end"
                : "who listens at " + ethdev_->device().socket +
                      " has not taken it (another id or secret, it has another peer, or is too busy)");
  return static_cast<int>(count);
}

void DpdkPort::Take(rte_mbuf* mbuf, FrameHandler handler, void* user) {
  // A peer's buffers may be shorter than a frame. What does not fit into one of ours is longer than the MTU.
  const bool whole = mbuf->nb_segs == 1 || rte_pktmbuf_linearize(mbuf) == 0;
  if (!whole || rte_pktmbuf_pkt_len(mbuf) > MaxFrameBytes(ethdev_->mtu()))
    return void(++received_.rx_too_long);
  handler(user, {.bytes = {rte_pktmbuf_mtod(mbuf, const uint8_t*), rte_pktmbuf_pkt_len(mbuf)}});
}

void DpdkPort::Release() {
  rte_pktmbuf_free_bulk(kept_.data(), static_cast<unsigned>(kept_.size()));
  kept_.clear();
}

}  // namespace epic::io::dpdk
