// A device of DPDK's as a port. It is polled; before a sleep its interrupt is asked for, where it has one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "io/dpdk/ethdev.h"
#include "io/frame_port.h"

struct rte_mbuf;

namespace epic::io::dpdk {

class DpdkPort final : public FramePort {
 public:
  // The device is the caller's, and outlives the port. As Ethdev::Start.
  static StatusOr<std::unique_ptr<DpdkPort>> Open(Ethdev* ethdev);
  ~DpdkPort() override;

  std::vector<int> fds() const override;
  bool polled() const override { return true; }
  bool Arm() override;
  StatusOr<int> Receive(int max_packets, FrameHandler handler, void* user) override;
  bool keeps_received() const override { return true; }
  void Release() override;
  uint32_t mtu() const override { return ethdev_->mtu(); }
  bool super_frames() const override { return false; }

 protected:
  uint64_t CountDropped() override { return ethdev_->CountDropped() - dropped_before_; }

 private:
  explicit DpdkPort(Ethdev* ethdev);
  void Take(rte_mbuf* mbuf, FrameHandler handler, void* user);
  void Disarm();
  bool PeerHasGone();

  Ethdev* const ethdev_;
  const uint64_t dropped_before_;
  std::vector<rte_mbuf*> kept_;  // until Release
  bool armed_ = false;
  uint32_t empty_looks_ = 0;
  Nanos down_since_ = kNever;  // of a memif's client
  bool was_up_ = false;
};

}  // namespace epic::io::dpdk
