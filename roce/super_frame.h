// A super-frame: one Ethernet frame whose UDP payload is several whole RoCE packets (BTH to ICRC) of one
// flow, one after the other. All have the same length but the last, which may be shorter. Its header is that
// of the first; the k-th packet's own is the same with its own lengths and an IP identification that is k
// higher, as UDP segmentation (GSO) makes it, and that is what its ICRC covers: each packet is what it would
// be alone (docs/PROTOCOL.md, "Super-frames").
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "roce/frame.h"

namespace epic::roce {

// What a sender keeps to, so that a receiver knows how much room it needs. 15 packets of 4096 bytes.
inline constexpr size_t kMaxSuperFrameBytes = 62'000;
inline constexpr size_t kMaxSuperFramePackets = 64;          // the kernel's bound for a segmented datagram
inline constexpr size_t kSuperFrameHeadBytes = 14 + 20 + 8;  // Ethernet without a tag, IPv4, UDP

// The packets of a super-frame. Views its bytes.
class SuperFrameView {
 public:
  // segment_bytes: the length of all packets but the last, as the kernel says it (gso_size). kOk, or why the
  // frame as a whole is none: as ParseFrame, and kBadLength for a segment_bytes that fits no packet. A frame
  // that was cut has the packets that are whole.
  static ParseResult Of(std::span<const uint8_t> frame, size_t segment_bytes, SuperFrameView* out);

  // Packets, those that were cut off included.
  size_t packets() const { return packets_; }
  // Of all packets but the last.
  size_t segment_bytes() const { return segment_bytes_; }
  // Several packets, no more than a sender joins, of which none was cut off: it can be sent on as it is.
  bool whole() const;
  // The frame, head and packets, without what pads it.
  std::span<const uint8_t> bytes() const { return frame_.first(kSuperFrameHeadBytes + payload_bytes_); }

  // As ParseFrame says of the k-th packet as a frame of its own; kTruncated if it is not whole.
  ParseResult Parse(size_t k, FrameAddress* address, Packet* out, bool check_icrc = true) const;

  // Writes the k-th packet as a frame of its own; returns its length. 0 if it is not whole or does not fit.
  size_t Write(size_t k, std::span<uint8_t> out) const;

 private:
  // Empty if it is not whole.
  std::span<const uint8_t> Segment(size_t k) const;
  // The IPv4 and UDP headers that the k-th packet has alone.
  void WriteHeaders(size_t k, size_t segment, uint8_t* out) const;

  std::span<const uint8_t> frame_;
  size_t segment_bytes_ = 0;
  size_t payload_bytes_ = 0;  // of UDP, as the header says
  size_t packets_ = 0;
};

// Whether a packet's frame, `next`, may follow others in one super-frame whose first packet's frame begins
// with `first`: both are heads (Ethernet to extension headers) without a VLAN tag, written by
// WritePieces. Same flow and queue pair, and an identification that is `packets` higher.
bool SameSuperFrame(std::span<const uint8_t> first, std::span<const uint8_t> next, size_t packets);

// A super-frame that is being put together.
struct OpenSuperFrame {
  std::span<const uint8_t> first;  // the head of its first packet's frame
  size_t packet_bytes = 0;         // of that packet, from BTH to ICRC
  size_t bytes = 0;                // of the frame, with what has joined it
  size_t packets = 0;
};

// Whether a packet may join it, by flow and by bounds: `next` is the head of the frame that the packet would
// have alone, as for SameSuperFrame, and next_bytes is its length. Behind a packet that is shorter than the
// first none may.
bool JoinsSuperFrame(const OpenSuperFrame& frame, std::span<const uint8_t> next, size_t next_bytes);

// Makes the head of a first packet the head of a super-frame: lengths, and the checksums of IPv4 and, as the
// kernel wants it for segmentation, of UDP's pseudo header. payload_bytes: of all packets.
void MakeSuperFrameHead(size_t payload_bytes, std::span<uint8_t> head);

}  // namespace epic::roce
