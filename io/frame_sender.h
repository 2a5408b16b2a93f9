// A port's frames on their way out by a packet socket, or any other that keeps messages apart, with as few
// system calls and copies as can be. Consecutive packets of one flow leave as one super-frame
// (roce/super_frame.h) where the caller says that the receiver takes them and the socket has virtio-net
// headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "io/clock.h"
#include "io/port_counters.h"
#include "io/port_sender.h"
#include "roce/frame.h"

struct mmsghdr;
struct iovec;

namespace epic::io {

class FrameSender final : public PortSender {
 public:
  // Of frames for which the kernel has no room: what always may wait, or more while the port takes what is
  // sent to it within kLongestWait. Beyond that the newest are dropped.
  enum class Queue : uint8_t { kShort, kLong };

  // fd stays the caller's, and open; max_frame_bytes is for a frame, or a packet, alone. virtio: the socket
  // has PACKET_VNET_HDR, and super-frames leave by it.
  // now: a clock that only goes forward; asked while frames wait.
  FrameSender(int fd, size_t max_frame_bytes, bool virtio, Queue queue, Nanos (*now)() = MonotonicNow);

  void Send(std::span<const uint8_t> frame) override;
  void Send(const roce::FramePieces& packet, Terms terms) override;
  void Send(const roce::SuperFrameView& frame, bool stays) override;
  void Flush() override;
  void Resume() override;
  bool waiting() const override { return waiting_; }
  void Discard() override;
  const PortCounters& counters() const override { return counters_; }

 private:
  static constexpr size_t kBatchFrames = 32;
  // All datagrams that ranks have receives for by default (PROTOCOL-MULTICAST.md, section 4), and what always
  // may wait. A switch whose ports share a memory gives one as much. A slow port would make all late.
  static constexpr size_t kLongQueueBytes = 4 * 1024 * 1024 + kShortQueueBytes;
  static constexpr size_t kLongQueueFrames = 8 * kShortQueueFrames;
  static constexpr Nanos kLongestWait = 50'000'000;
  static constexpr Nanos kTryAgain = 1'000'000;

  // A stretch of a frame: in own_ at `offset`, or where it lies.
  struct Part {
    const uint8_t* borrowed;
    size_t offset;
    size_t bytes;
  };
  struct Frame {
    size_t head = 0;        // of its first packet, in own_
    size_t first_part = 0;  // its parts go on to those of the next frame
    size_t bytes = 0;
    size_t packet_bytes = 0;  // of a packet: of the first from the BTH on; else 0
    size_t packets = 1;
    bool open = false;  // others may join
    Nanos since = 0;    // when it began to wait for the kernel; 0: it has not
  };

  size_t queued() const { return frames_.size() - first_; }
  bool MakeRoom(size_t bytes, size_t packets);
  bool MayWait(size_t bytes) const;
  bool IsLate() const;
  void ForgetStandstill();
  void CutLate();
  void Reserve(size_t bytes);
  bool Joins(const roce::FramePieces& packet) const;
  void StartFrame(bool open);
  void Own(std::span<const uint8_t> bytes);
  void Add(std::span<const uint8_t> bytes, bool stays);
  size_t EndOfParts(size_t frame) const;
  void Seal();
  void BeginToWait(size_t frame);
  size_t SendBatch(size_t first);
  void Pass(size_t frame, size_t bytes);
  void Drop(size_t frame);
  void KeepFrom(size_t frame);

  const int fd_;
  const size_t max_frame_bytes_;
  const bool virtio_;
  const bool long_;
  Nanos (*const now_)();
  std::vector<Frame> frames_;  // those before the one at first_ have left
  size_t first_ = 0;
  std::vector<Part> parts_;
  std::vector<uint8_t> own_;
  size_t bytes_ = 0;       // of all that have not left
  size_t left_bytes_ = 0;  // of those in frames_ that have
  bool borrows_ = false;   // some part is borrowed
  bool waiting_ = false;
  Nanos tried_ = 0;  // when room was last looked for because what waits is old
  PortCounters counters_;
};

}  // namespace epic::io
