// What a packet socket receives, in memory that it shares with the kernel: frames of up to a slot's size,
// each seen without a system call (TPACKET_V2; version 3 hands frames over in blocks, a millisecond late).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "io/frame_port.h"

struct tpacket2_hdr;

namespace epic::io {

class PacketRing {
 public:
  PacketRing() = default;
  ~PacketRing();
  PacketRing(const PacketRing&) = delete;
  PacketRing& operator=(const PacketRing&) = delete;

  // Maps a ring of about `bytes` for frames of up to max_frame_bytes, of a socket that has none and is not
  // bound. virtio: the socket has PACKET_VNET_HDR. INTERNAL.
  Status Map(int fd, size_t bytes, size_t max_frame_bytes, bool virtio);
  bool mapped() const { return memory_ != nullptr; }
  // Frames that it holds.
  size_t slots() const { return slots_; }

  // Whether a frame waits; *time is when it came, for comparison with those of other rings of the interface.
  bool Ready(uint64_t* time) const;
  // Takes it; false if it was cut to fit its slot, or is merged of what is no super-frame. After Ready.
  bool Take(ReceivedFrame* frame);
  // Gives the slots of all that has been taken back to the kernel.
  void Release();
  // None that is not taken can come: all slots are taken.
  bool exhausted() const { return taken_ == slots_; }

 private:
  tpacket2_hdr* Slot(size_t index) const;

  uint8_t* memory_ = nullptr;
  size_t bytes_ = 0, slot_bytes_ = 0, slots_ = 0;
  bool virtio_ = false;
  size_t next_ = 0;   // slot
  size_t taken_ = 0;  // the slots before it that are not given back
};

}  // namespace epic::io
