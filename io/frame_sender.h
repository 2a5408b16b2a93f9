// A port's frames on their way out by a packet socket, or any other that keeps messages apart, with as few
// system calls and copies as can be. Consecutive packets of one flow leave as one super-frame
// (roce/super_frame.h) where the caller says that the receiver takes them and the socket has virtio-net
// headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "io/port_counters.h"
#include "io/port_sender.h"
#include "roce/frame.h"

struct mmsghdr;
struct iovec;

namespace epic::io {

class FrameSender final : public PortSender {
 public:
  // fd stays the caller's, and open; max_frame_bytes is for a frame, or a packet, alone. virtio: the socket
  // has PACKET_VNET_HDR, and super-frames leave by it.
  FrameSender(int fd, size_t max_frame_bytes, bool virtio);

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
  // Two windows of 64 packets of 4096 bytes: as much as a group sends to one endpoint at once, twice.
  static constexpr size_t kMaxWaitingBytes = 576 * 1024;
  static constexpr size_t kMaxWaitingFrames = 1024;

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
  };

  bool MakeRoom(size_t bytes, size_t packets);
  void Reserve(size_t bytes);
  bool Joins(const roce::FramePieces& packet) const;
  void StartFrame(bool open);
  void Own(std::span<const uint8_t> bytes);
  void Add(std::span<const uint8_t> bytes, bool stays);
  size_t EndOfParts(size_t frame) const;
  void Seal();
  size_t SendBatch(size_t first);
  void Drop(size_t frames);
  void KeepFrom(size_t frame);

  const int fd_;
  const size_t max_frame_bytes_;
  const bool virtio_;
  std::vector<Frame> frames_;
  std::vector<Part> parts_;
  std::vector<uint8_t> own_;
  size_t bytes_ = 0;  // of all frames
  bool waiting_ = false;
  PortCounters counters_;
};

}  // namespace epic::io
