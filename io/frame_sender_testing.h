// What tests of FrameSender share: a sender on a socket, and what leaves by it.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "io/descriptor.h"
#include "io/frame_sender.h"
#include "io/virtio_header.h"
#include "roce/super_frame.h"

namespace epic::io {

// A sender on a socket that keeps messages apart; what it sends is read at the other end.
class FrameSenderTest : public ::testing::Test {
 protected:
  using Bytes = std::vector<uint8_t>;
  static constexpr size_t kMaxFrame = 14 + 4200;
  static constexpr size_t kHead = roce::kSuperFrameHeadBytes;

  FrameSenderTest() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fds), 0);
    near_ = Descriptor(fds[0]);
    far_ = Descriptor(fds[1]);
  }

  FrameSender Sender(bool virtio = true) {
    return FrameSender(near_.get(), kMaxFrame, virtio, FrameSender::Queue::kShort);
  }

  // The next packet of a flow; a payload of `bytes`, all `fill`, which lies in payloads_.
  roce::FramePieces Packet(size_t bytes, uint8_t fill, uint32_t qpn = 0x11) {
    roce::Packet packet;
    packet.src_ip = Ipv4{0x0a000001};
    packet.dst_ip = Ipv4{0x0a000002};
    packet.bth.opcode = roce::Opcode::kRcSendMiddle;
    packet.bth.dest_qp = Qpn{qpn};
    packet.bth.psn = Psn(id_);
    payloads_.push_back(std::make_unique<Bytes>(bytes, fill));
    packet.payload = *payloads_.back();
    roce::FramePieces pieces;
    roce::WritePieces({.dst = {}, .src = {}, .ip_id = id_++, .vlan = {}}, packet, nullptr, &pieces);
    return pieces;
  }

  // What has been sent, one message each.
  std::vector<Bytes> Sent() {
    std::vector<Bytes> messages;
    while (true) {
      Bytes message(70'000);
      const ssize_t bytes = recv(far_.get(), message.data(), message.size(), MSG_DONTWAIT);
      if (bytes <= 0) return messages;
      message.resize(static_cast<size_t>(bytes));
      messages.push_back(message);
    }
  }

  // The payloads' first bytes of the packets in a message with virtio-net header; all must be whole.
  static Bytes Fills(const Bytes& message) {
    VirtioHeader header;
    std::memcpy(&header, message.data(), sizeof header);
    const std::span<const uint8_t> frame = std::span(message).subspan(sizeof header);
    roce::FrameAddress address;
    roce::Packet packet;
    if (header.gso_type == kVirtioNoSegments) {
      EXPECT_EQ(roce::ParseFrame(frame, &address, &packet), roce::ParseResult::kOk);
      return {packet.payload.empty() ? uint8_t{0} : packet.payload[0]};
    }
    EXPECT_EQ(header.gso_type, kVirtioUdpSegments);
    EXPECT_EQ(header.flags, kVirtioNeedsChecksum);
    EXPECT_EQ(header.hdr_len, kHead);
    roce::SuperFrameView view;
    EXPECT_EQ(roce::SuperFrameView::Of(frame, header.gso_size, &view), roce::ParseResult::kOk);
    Bytes fills;
    for (size_t k = 0; k < view.packets(); ++k) {
      EXPECT_EQ(view.Parse(k, &address, &packet), roce::ParseResult::kOk) << k;
      fills.push_back(packet.payload[0]);
    }
    return fills;
  }

  // One whose kernel takes next to nothing, and whose time stands still.
  FrameSender SlowSender(FrameSender::Queue queue = FrameSender::Queue::kLong) {
    const int small = 1;
    EXPECT_EQ(setsockopt(near_.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    time = 1;
    return FrameSender(near_.get(), kMaxFrame, /*virtio=*/true, queue, [] { return time; });
  }

  static inline Nanos time = 1;
  Descriptor near_, far_;
  std::vector<std::unique_ptr<Bytes>> payloads_;
  uint16_t id_ = 0xfffd;
  static constexpr FrameSender::Terms kJoins{.joins = true, .stays = true};
};

}  // namespace epic::io
