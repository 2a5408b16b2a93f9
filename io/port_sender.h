// Frames on their way out of a port: collected, and sent together. In order. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "io/port_counters.h"
#include "roce/frame.h"
#include "roce/super_frame.h"

namespace epic::io {

class PortSender {
 public:
  virtual ~PortSender() = default;
  PortSender(const PortSender&) = delete;
  PortSender& operator=(const PortSender&) = delete;

  // What may be done with a packet.
  struct Terms {
    bool joins = false;  // may share a super-frame with its neighbours
    bool stays = false;  // its payload lies where it is until the next Flush has returned; else it is copied
  };
  // They leave at Flush, or earlier if many are collected. What cannot be sent is counted.
  virtual void Send(std::span<const uint8_t> frame) = 0;
  virtual void Send(const roce::FramePieces& packet, Terms terms) = 0;
  // A super-frame that is whole, in which nothing joins any more; only by a port that carries them
  // (FramePort::super_frames). stays: as in Terms, of all its bytes.
  virtual void Send(const roce::SuperFrameView& frame, bool stays) = 0;

  // Neither waits: a port that is slower than what is sent to it must not hold up the others. What there is
  // no room for stays queued, copied, and Flush does nothing, until Resume finds that there is room: call it
  // when the port's first descriptor is writable, or at each look at a port that is polled.
  virtual void Flush() = 0;
  virtual void Resume() = 0;
  // There was no room, and frames are queued for Resume.
  virtual bool waiting() const = 0;
  // Drops what is queued; counted as failed.
  virtual void Discard() = 0;

  // Of what leaves; of what comes nothing.
  virtual const PortCounters& counters() const = 0;

 protected:
  // What may always wait for a port: two windows of 64 packets of 4096 bytes, as much as a group sends to one
  // endpoint at once, twice.
  static constexpr size_t kShortQueueBytes = 576 * 1024;
  static constexpr size_t kShortQueueFrames = 1024;

  PortSender() = default;
};

}  // namespace epic::io
