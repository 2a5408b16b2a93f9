#include "io/dpdk/mbuf_sender.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"

namespace epic::io::dpdk {

MbufSender::MbufSender(Ethdev* ethdev) : ethdev_(ethdev), max_frame_bytes_(MaxFrameBytes(ethdev->mtu())) {
  queue_.reserve(kShortQueueFrames);
}

MbufSender::~MbufSender() { Discard(); }

uint8_t* MbufSender::Append(size_t bytes) {
  if (bytes > max_frame_bytes_) return ++counters_.tx_too_long, nullptr;
  if (queue_.size() >= kBurst || bytes_ + bytes > kShortQueueBytes) Flush();
  if (queue_.size() >= kShortQueueFrames || bytes_ + bytes > kShortQueueBytes)
    return ++counters_.tx_no_buffer, nullptr;
  rte_mbuf* const mbuf = rte_pktmbuf_alloc(ethdev_->send_pool());
  if (mbuf == nullptr) return ++counters_.tx_no_buffer, nullptr;
  queue_.push_back(mbuf);
  bytes_ += bytes;
  return reinterpret_cast<uint8_t*>(rte_pktmbuf_append(mbuf, static_cast<uint16_t>(bytes)));
}

void MbufSender::Send(std::span<const uint8_t> frame) {
  if (uint8_t* const to = Append(frame.size())) std::memcpy(to, frame.data(), frame.size());
}

void MbufSender::Send(const roce::FramePieces& packet, Terms) {
  uint8_t* to = Append(packet.size());
  if (to == nullptr) return;
  for (const std::span<const uint8_t> piece : {packet.head(), packet.payload, packet.tail()})
    to = std::copy(piece.begin(), piece.end(), to);
}

void MbufSender::Send(const roce::SuperFrameView&, bool) { EPIC_CHECK(false); }  // the port carries none

void MbufSender::Flush() {
  if (waiting_ || queue_.empty()) return;
  size_t done = 0;
  while (done < queue_.size()) {
    const auto count = static_cast<uint16_t>(std::min(kBurst, queue_.size() - done));
    // What the driver takes it frees, some time.
    std::array<size_t, kBurst> lengths;
    for (size_t i = 0; i < count; ++i) lengths[i] = rte_pktmbuf_pkt_len(queue_[done + i]);
    const uint16_t sent = ethdev_->Send(&queue_[done], count);
    for (size_t i = 0; i < sent; ++i) bytes_ -= lengths[i];
    done += sent;
    if (sent < count) break;
  }
  queue_.erase(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(done));
  if (queue_.empty()) return;
  // Whose link is down takes nothing, and what is old by then is of no use.
  if (!ethdev_->LinkIsUp()) return Discard();
  waiting_ = true;
}

void MbufSender::Resume() {
  waiting_ = false;
  Flush();
}

void MbufSender::Discard() {
  counters_.tx_failed += queue_.size();
  rte_pktmbuf_free_bulk(queue_.data(), static_cast<unsigned>(queue_.size()));
  queue_.clear();
  bytes_ = 0;
  waiting_ = false;
}

}  // namespace epic::io::dpdk
