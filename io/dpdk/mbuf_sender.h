// Frames on their way out of a device of DPDK's: each is copied into a buffer of its own, and they leave in
// bursts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "io/dpdk/ethdev.h"
#include "io/port_counters.h"
#include "io/port_sender.h"

struct rte_mbuf;

namespace epic::io::dpdk {

class MbufSender final : public PortSender {
 public:
  // By the device, which outlives it, in buffers of the device's pool.
  explicit MbufSender(Ethdev* ethdev);
  ~MbufSender() override;

  void Send(std::span<const uint8_t> frame) override;
  void Send(const roce::FramePieces& packet, Terms terms) override;
  void Send(const roce::SuperFrameView& frame, bool stays) override;
  void Flush() override;
  void Resume() override;
  bool waiting() const override { return waiting_; }
  void Discard() override;
  const PortCounters& counters() const override { return counters_; }

 private:
  static constexpr size_t kBurst = 32;

  // A buffer at the end of the queue with room for a frame of so many bytes; null if there is none, counted.
  uint8_t* Append(size_t bytes);

  Ethdev* const ethdev_;
  const size_t max_frame_bytes_;
  std::vector<rte_mbuf*> queue_;
  size_t bytes_ = 0;  // of the queue
  bool waiting_ = false;
  PortCounters counters_;
};

}  // namespace epic::io::dpdk
