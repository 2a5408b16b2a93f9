#include "io/frame_sender.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <utility>
#include <vector>

#include "base/check.h"
#include "io/virtio_header.h"
#include "roce/super_frame.h"

namespace epic::io {
namespace {

constexpr size_t kHead = roce::kSuperFrameHeadBytes;
// A shorter payload is cheaper copied than as two more parts for the kernel.
constexpr size_t kMinBorrowed = 512;
constexpr size_t kMaxParts = 1024;  // of one message: UIO_MAXIOV
constexpr uint16_t kUdpStart = 34, kUdpChecksum = 6;
constexpr size_t kPartsOfFrame = 3;  // at most, that one call adds: head, payload, tail

template <typename T>
void ReserveMore(std::vector<T>& to, size_t more) {
  if (to.capacity() - to.size() < more) to.reserve(std::max(to.size() + more, 2 * to.capacity()));
}

}  // namespace

FrameSender::FrameSender(int fd, size_t max_frame_bytes, bool virtio, Queue queue, Nanos (*now)())
    : fd_(fd), max_frame_bytes_(max_frame_bytes), virtio_(virtio), long_(queue == Queue::kLong), now_(now) {
  static_assert(2 * roce::kMaxSuperFramePackets + 2 < kMaxParts);
}

void FrameSender::Send(std::span<const uint8_t> frame) {
  if (frame.size() > max_frame_bytes_) return void(++counters_.tx_too_long);
  if (!MakeRoom(frame.size(), 1)) return;
  StartFrame(/*open=*/false);
  Own(frame);
}

void FrameSender::Send(const roce::FramePieces& packet, Terms terms) {
  if (packet.size() > max_frame_bytes_) return void(++counters_.tx_too_long);
  if (!MakeRoom(packet.size(), 1)) return;
  const bool joins = terms.joins && virtio_;
  size_t skip = 0;
  if (joins && Joins(packet)) {
    skip = kHead;
    ++frames_.back().packets;
  } else {
    StartFrame(joins);
    frames_.back().packet_bytes = packet.size() - kHead;
  }
  Own(packet.head().subspan(skip));
  Add(packet.payload, terms.stays && !waiting_ && packet.payload.size() >= kMinBorrowed);
  Own(packet.tail());
}

void FrameSender::Send(const roce::SuperFrameView& frame, bool stays) {
  EPIC_CHECK(virtio_ && frame.whole());
  if (kHead + frame.segment_bytes() > max_frame_bytes_) return void(counters_.tx_too_long += frame.packets());
  const std::span<const uint8_t> bytes = frame.bytes();
  if (!MakeRoom(bytes.size(), frame.packets())) return;
  StartFrame(/*open=*/false);
  frames_.back().packet_bytes = frame.segment_bytes();
  frames_.back().packets = frame.packets();
  Own(bytes.first(kHead));
  Add(bytes.subspan(kHead), stays && !waiting_);
}

// Whether the last frame can take the packet as well.
bool FrameSender::Joins(const roce::FramePieces& packet) const {
  if (frames_.empty() || !frames_.back().open) return false;
  const Frame& frame = frames_.back();
  return roce::JoinsSuperFrame({.first = std::span(own_).subspan(frame.head),
                                .packet_bytes = frame.packet_bytes,
                                .bytes = frame.bytes,
                                .packets = frame.packets},
                               packet.head(), packet.size());
}

// Whether a frame of so many bytes finds room as the queue is.
bool FrameSender::MayWait(size_t bytes) const {
  if (bytes_ + bytes <= kShortQueueBytes && queued() < kShortQueueFrames) return true;
  return long_ && bytes_ + bytes <= kLongQueueBytes && queued() < kLongQueueFrames && !IsLate();
}

bool FrameSender::IsLate() const {
  return queued() > 0 && frames_[first_].since != 0 && now_() - frames_[first_].since >= kLongestWait;
}

// False if there is none; counted. Behind it a frame is added whole: what throws here has changed nothing.
bool FrameSender::MakeRoom(size_t bytes, size_t packets) {
  if (queued() >= kBatchFrames || bytes_ + bytes > kShortQueueBytes) Flush();
  bool has_room = MayWait(bytes);
  if (!has_room && long_) {
    // The kernel may have some by now. Not asked for each frame of a flood.
    const Nanos now = now_();
    if (now - tried_ >= kTryAgain) {
      tried_ = now;
      Resume();
      has_room = MayWait(bytes);
    }
  }
  if (!has_room) {
    counters_.tx_no_buffer += packets;
    return false;
  }
  Reserve(bytes);
  return true;
}

void FrameSender::Reserve(size_t bytes) {
  ReserveMore(frames_, 1);
  ReserveMore(parts_, kPartsOfFrame);
  ReserveMore(own_, bytes);
}

void FrameSender::StartFrame(bool open) {
  frames_.push_back(
      {.head = own_.size(), .first_part = parts_.size(), .open = open, .since = waiting_ ? now_() : 0});
}

void FrameSender::Own(std::span<const uint8_t> bytes) { Add(bytes, /*stays=*/false); }

void FrameSender::Add(std::span<const uint8_t> bytes, bool stays) {
  if (bytes.empty()) return;
  bytes_ += bytes.size();
  frames_.back().bytes += bytes.size();
  if (stays) {
    borrows_ = true;
    return parts_.push_back({bytes.data(), 0, bytes.size()});
  }
  // What is copied in one piece is sent in one piece.
  const bool follows = parts_.size() > frames_.back().first_part && parts_.back().borrowed == nullptr;
  if (follows) {
    parts_.back().bytes += bytes.size();
  } else {
    parts_.push_back({nullptr, own_.size(), bytes.size()});
  }
  own_.insert(own_.end(), bytes.begin(), bytes.end());
}

size_t FrameSender::EndOfParts(size_t frame) const {
  return frame + 1 < frames_.size() ? frames_[frame + 1].first_part : parts_.size();
}

// Nothing joins any more: the heads of super-frames are made.
void FrameSender::Seal() {
  for (Frame& frame : std::span(frames_).subspan(first_)) {
    if (frame.packets > 1)
      roce::MakeSuperFrameHead(frame.bytes - kHead, std::span(own_).subspan(frame.head, kHead));
    frame.open = false;
  }
}

void FrameSender::Flush() {
  if (waiting_ || frames_.empty()) return;
  Seal();
  size_t done = first_;
  while (done < frames_.size()) {
    const size_t sent = SendBatch(done);
    for (size_t i = done; i < done + sent; ++i) counters_.tx_super_frames += frames_[i].packets > 1 ? 1 : 0;
    done += sent;
    if (sent > 0 || errno == EINTR) continue;
    waiting_ = errno == EAGAIN;
    if (waiting_) break;
    // ENOBUFS: the device's own queue was full, and the frame is gone.
    (errno == ENOBUFS    ? counters_.tx_no_buffer
     : errno == EMSGSIZE ? counters_.tx_too_long
                         : counters_.tx_failed) += frames_[done].packets;
    ++done;
  }
  if (done < frames_.size()) BeginToWait(done);
  Drop(done);
  if (waiting_) CutLate();
}

// What came in a burst to a port that turns out to be slow.
void FrameSender::CutLate() {
  if (bytes_ <= kShortQueueBytes || !IsLate()) return;
  while (bytes_ > kShortQueueBytes) {
    const Frame& newest = frames_.back();
    counters_.tx_no_buffer += newest.packets;
    bytes_ -= newest.bytes;
    parts_.resize(newest.first_part);
    own_.resize(newest.head);
    frames_.pop_back();
  }
}

// If all that the kernel had has left, frames have waited for this program, and not for the port.
void FrameSender::ForgetStandstill() {
  int unsent = 0;
  if (ioctl(fd_, SIOCOUTQ, &unsent) != 0 || unsent != 0) return;
  const Nanos now = now_();
  for (Frame& frame : std::span(frames_).subspan(first_)) frame.since = now;
}

void FrameSender::BeginToWait(size_t frame) {
  if (frames_.back().since != 0) return;  // all of them wait already
  const Nanos now = now_();
  for (; frame < frames_.size(); ++frame) {
    if (frames_[frame].since == 0) frames_[frame].since = now;
  }
}

void FrameSender::Resume() {
  if (waiting_ && bytes_ > kShortQueueBytes) ForgetStandstill();
  waiting_ = false;
  Flush();
}

void FrameSender::Discard() {
  for (size_t i = first_; i < frames_.size(); ++i) counters_.tx_failed += frames_[i].packets;
  Drop(frames_.size());
  waiting_ = false;
}

// The frames before this one have left, in so many bytes, and stay where they lie.
void FrameSender::Pass(size_t frame, size_t bytes) {
  first_ = frame;
  left_bytes_ += bytes;
  bytes_ -= bytes;
}

// Forgets the frames before this one. What is left and borrowed is copied: it leaves when its payload may be
// gone. Without memory for that it is lost, as in a queue that is full.
void FrameSender::Drop(size_t frame) {
  if (frame < frames_.size()) {
    size_t gone = 0;
    for (size_t i = first_; i < frame; ++i) gone += frames_[i].bytes;
    if (!borrows_ && left_bytes_ + gone < bytes_ - gone) {
      // Copied when half of it has left: so a byte is copied twice on the average, however long the queue is.
      return Pass(frame, gone);
    }
    try {
      return KeepFrom(frame);
    } catch (const std::bad_alloc&) {
      if (!borrows_) return Pass(frame, gone);
      for (; frame < frames_.size(); ++frame) counters_.tx_no_buffer += frames_[frame].packets;
    }
  }
  frames_.clear();
  parts_.clear();
  own_.clear();
  first_ = bytes_ = left_bytes_ = 0;
  borrows_ = false;
}

// All or nothing.
void FrameSender::KeepFrom(size_t frame) {
  std::vector<Frame> frames;
  std::vector<Part> parts;
  std::vector<uint8_t> own;
  size_t bytes = 0;
  for (; frame < frames_.size(); ++frame) {
    Frame left = frames_[frame];
    left.head = own.size();
    left.first_part = parts.size();
    left.open = false;
    for (size_t p = frames_[frame].first_part; p < EndOfParts(frame); ++p) {
      const Part& part = parts_[p];
      const uint8_t* const at = part.borrowed != nullptr ? part.borrowed : &own_[part.offset];
      own.insert(own.end(), at, at + part.bytes);
    }
    parts.push_back({nullptr, left.head, left.bytes});
    bytes += left.bytes;
    frames.push_back(left);
  }
  frames_ = std::move(frames);
  parts_ = std::move(parts);
  own_ = std::move(own);
  bytes_ = bytes;
  first_ = left_bytes_ = 0;
  borrows_ = false;
}

// Sends a batch of frames from `first` on; returns how many left. If none, errno says why.
size_t FrameSender::SendBatch(size_t first) {
  std::array<mmsghdr, kBatchFrames> messages{};
  std::array<VirtioHeader, kBatchFrames> headers{};
  std::array<iovec, kMaxParts> pieces;
  size_t count = 0, used = 0;
  for (; count < kBatchFrames && first + count < frames_.size(); ++count) {
    const Frame& frame = frames_[first + count];
    const size_t end = EndOfParts(first + count);
    if (used + 1 + end - frame.first_part > pieces.size()) break;
    msghdr& message = messages[count].msg_hdr;
    message.msg_iov = &pieces[used];
    if (virtio_) pieces[used++] = {&headers[count], sizeof headers[count]};
    if (frame.packets > 1) {
      // hdr_len: what the kernel keeps in one piece; without it, it would want 64 KB in one.
      headers[count] = {.flags = kVirtioNeedsChecksum,
                        .gso_type = kVirtioUdpSegments,
                        .hdr_len = kHead,
                        .gso_size = static_cast<uint16_t>(frame.packet_bytes),
                        .csum_start = kUdpStart,
                        .csum_offset = kUdpChecksum};
    }
    for (size_t p = frame.first_part; p < end; ++p) {
      const Part& part = parts_[p];
      const uint8_t* const at = part.borrowed != nullptr ? part.borrowed : &own_[part.offset];
      pieces[used++] = {const_cast<uint8_t*>(at), part.bytes};
    }
    message.msg_iovlen = static_cast<size_t>(&pieces[used] - message.msg_iov);
  }
  const int sent = sendmmsg(fd_, messages.data(), static_cast<unsigned>(count), MSG_DONTWAIT);
  return sent > 0 ? static_cast<size_t>(sent) : 0;
}

}  // namespace epic::io
