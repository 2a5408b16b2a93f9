// A device of DPDK's, with one queue each way and the buffers for both. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "io/descriptor.h"
#include "io/dpdk/device.h"

struct rte_mbuf;
struct rte_mempool;

namespace epic::io::dpdk {

// Buffers of a device. Those of frames that come: as many as a NIC's queue holds, and as a loop takes before
// it gives them back; of those that leave as many as a queue holds, and as may wait for it.
inline constexpr uint16_t kRingFrames = 512;
inline constexpr uint32_t kReceiveBuffers = 1023;
inline constexpr uint32_t kSendBuffers = 2047;
// Memory that a device takes, for an MTU.
constexpr uint64_t DeviceBytes(uint32_t mtu) {
  constexpr uint64_t kOfEach = 512;  // the buffer's own head, room before the frame, the pool's share
  // Of ordinary memory each buffer has whole pages (rte_mempool, which takes none that crosses into another).
  constexpr uint64_t kPage = 4096;
  const auto pages = [](uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; };
  return uint64_t{kReceiveBuffers} * pages(ReceiveRoom(mtu) + kOfEach) +
         uint64_t{kSendBuffers} * pages(SendRoom(mtu) + kOfEach) + (1 << 20);
}

class Ethdev {
 public:
  using Say = decltype(DpdkOptions::say);

  // Has DPDK take the device, and makes its queues. With the port's name: NOT_FOUND (no driver, no such
  // device), INVALID_ARGUMENT (its arguments, or the device cannot do what a port has to), INTERNAL.
  // say: as DpdkOptions'; outlives the device.
  static StatusOr<std::unique_ptr<Ethdev>> Make(const Device& device, uint32_t mtu, const Say& say);
  // Gives it back.
  ~Ethdev();
  Ethdev(const Ethdev&) = delete;
  Ethdev& operator=(const Ethdev&) = delete;

  // Frames come and go from when the link is up. UNAVAILABLE: nobody listens at a memif's socket yet. Its two
  // ends agree in a thread of the driver's, which must not be disturbed: DPDK 22.11's may crash if the device
  // is stopped meanwhile.
  Status Start();
  void Stop();

  // Takes frames that have come, at most `count`; returns how many. They are the caller's.
  uint16_t Receive(rte_mbuf** frames, uint16_t count);
  // Hands over so many of these at most; returns how many. They are the driver's.
  uint16_t Send(rte_mbuf** frames, uint16_t count);
  // A memif's memory was not as it has to be in the midst of one of these, while its peer was there: what the
  // peer wrote there was nonsense. It has to be stopped. If the peer had gone it has not, and only its link
  // is down.
  bool broken() const { return broken_; }

  // Looks.
  bool LinkIsUp();
  // How often the looks have found it down that was up.
  uint32_t times_down() const { return times_down_; }
  // As the driver says it of hardware; 0 if it does not.
  uint32_t RateMbps() const;
  // Frames that came while there was no room, since the device was taken.
  uint64_t CountDropped() const;

  uint16_t id() const { return id_; }
  const Device& device() const { return device_; }
  uint32_t mtu() const { return mtu_; }
  rte_mempool* send_pool() const { return send_pool_; }
  // An epoll descriptor of DPDK's (rte_epoll_wait) that is readable after an interrupt; or -1.
  int interrupts() const { return interrupts_.get(); }

 private:
  Ethdev(const Device& device, uint16_t id, uint32_t mtu, const Say& say)
      : device_(device), id_(id), mtu_(mtu), say_(say) {}
  Status Configure();

  const Device device_;
  const uint16_t id_;
  uint32_t mtu_;
  const Say& say_;
  rte_mempool* receive_pool_ = nullptr;
  rte_mempool* send_pool_ = nullptr;
  Descriptor interrupts_;
  // Makes a call of the driver's, unless the device is broken; false, and it may be so now.
  template <typename Call>
  bool Drive(const Call& call);

  bool started_ = false;
  bool broken_ = false;
  bool up_ = false;  // at the last look
  uint32_t times_down_ = 0;
};

}  // namespace epic::io::dpdk
