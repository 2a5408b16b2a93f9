#include "io/frame_sender.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "io/frame_sender_testing.h"

namespace {

// How many allocations of this thread succeed before one fails; negative: all do.
thread_local int allocations_left = -1;

}  // namespace

// For the whole program. Inlined, the compiler would take them for a mismatched pair.
[[gnu::noinline]] void* operator new(size_t bytes) {
  const bool fails = allocations_left == 0;
  if (allocations_left >= 0) --allocations_left;
  void* const memory = fails ? nullptr : std::malloc(std::max<size_t>(bytes, 1));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace epic::io {
namespace {

TEST_F(FrameSenderTest, PacketsOfOneFlowLeaveAsOneFrame) {
  FrameSender sender = Sender();
  for (uint8_t i = 0; i < 5; ++i) sender.Send(Packet(1024, i), kJoins);
  EXPECT_TRUE(Sent().empty()) << "before Flush";
  sender.Flush();
  const auto sent = Sent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(Fills(sent[0]), (Bytes{0, 1, 2, 3, 4}));
  EXPECT_EQ(sender.counters().tx_super_frames, 1u);
  sender.Flush();
  EXPECT_TRUE(Sent().empty());
}

TEST_F(FrameSenderTest, AShorterPacketIsTheLastOfItsFrameAndALongerOneBeginsAnother) {
  FrameSender sender = Sender();
  for (const size_t bytes : {1024, 1024, 300, 300, 1024, 1024})
    sender.Send(Packet(bytes, static_cast<uint8_t>(bytes / 4)), kJoins);
  sender.Flush();
  const auto sent = Sent();
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(Fills(sent[0]), (Bytes{0, 0, 75}));
  EXPECT_EQ(Fills(sent[1]), (Bytes{75}));
  EXPECT_EQ(Fills(sent[2]), (Bytes{0, 0}));
}

TEST_F(FrameSenderTest, NothingJoinsWithoutLeave) {
  FrameSender sender = Sender();
  for (uint8_t i = 0; i < 3; ++i) sender.Send(Packet(1024, i), {.joins = false, .stays = true});
  sender.Send(Packet(1024, 3), kJoins);
  sender.Send(Packet(1024, 4), {.joins = false, .stays = true});
  sender.Flush();
  const auto sent = Sent();
  ASSERT_EQ(sent.size(), 5u);
  for (uint8_t i = 0; i < 5; ++i) EXPECT_EQ(Fills(sent[i]), Bytes{i});
  EXPECT_EQ(sender.counters().tx_super_frames, 0u);
}

TEST_F(FrameSenderTest, NothingJoinsOnASocketWithoutVirtioHeaders) {
  FrameSender sender = Sender(/*virtio=*/false);
  for (uint8_t i = 0; i < 3; ++i) sender.Send(Packet(1024, i), kJoins);
  sender.Flush();
  const auto sent = Sent();
  ASSERT_EQ(sent.size(), 3u);
  roce::FrameAddress address;
  roce::Packet packet;
  for (const Bytes& frame : sent)
    EXPECT_EQ(roce::ParseFrame(frame, &address, &packet), roce::ParseResult::kOk);
}

// One that has come in by another port, as in a switch: nothing joins it, and it is sent where it lies.
TEST_F(FrameSenderTest, OneThatIsWholeLeavesAsItIs) {
  FrameSender first = Sender();
  for (uint8_t i = 0; i < 3; ++i) first.Send(Packet(1024, i), kJoins);
  first.Flush();
  Bytes message = Sent().at(0);
  VirtioHeader header;
  std::memcpy(&header, message.data(), sizeof header);
  const std::span<uint8_t> frame = std::span(message).subspan(sizeof header);
  roce::SuperFrameView view;
  ASSERT_EQ(roce::SuperFrameView::Of(frame, header.gso_size, &view), roce::ParseResult::kOk);

  FrameSender sender = Sender();
  sender.Send(view, /*stays=*/true);
  sender.Send(Packet(1024, 3), kJoins);
  sender.Send(view, /*stays=*/false);
  frame.back() ^= 1;  // of the ICRC of the last packet: seen where the frame was not copied
  sender.Flush();
  const auto sent = Sent();
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(Fills(sent[2]), (Bytes{0, 1, 2}));
  EXPECT_EQ(Fills(sent[1]), (Bytes{3}));
  Bytes whole = sent[0];
  whole.back() ^= 1;
  EXPECT_EQ(Fills(whole), (Bytes{0, 1, 2}));
  EXPECT_EQ(sender.counters().tx_super_frames, 2u);

  FrameSender narrow(near_.get(), 1000, /*virtio=*/true, FrameSender::Queue::kShort);
  narrow.Send(view, /*stays=*/false);
  EXPECT_EQ(narrow.counters().tx_too_long, 3u) << "its packets, for this port";
}

TEST_F(FrameSenderTest, OtherFlowsAndFramesKeepTheirPlaces) {
  FrameSender sender = Sender();
  sender.Send(Packet(1024, 1), kJoins);
  sender.Send(Packet(1024, 2, 0x12), kJoins);
  sender.Send(Packet(1024, 3, 0x12), kJoins);
  sender.Send(Bytes(60, 0x77));
  sender.Send(Packet(1024, 4, 0x12), kJoins);
  sender.Flush();
  const auto sent = Sent();
  ASSERT_EQ(sent.size(), 4u);
  EXPECT_EQ(Fills(sent[0]), Bytes{1});
  EXPECT_EQ(Fills(sent[1]), (Bytes{2, 3}));
  EXPECT_EQ(sent[2], [] {
    Bytes frame(sizeof(VirtioHeader) + 60, 0x77);
    std::fill_n(frame.begin(), sizeof(VirtioHeader), 0);
    return frame;
  }());
  EXPECT_EQ(Fills(sent[3]), Bytes{4});
}

TEST_F(FrameSenderTest, AFrameHasABound) {
  FrameSender sender = Sender();
  for (uint8_t i = 0; i < 31; ++i) sender.Send(Packet(4096, i), kJoins);
  sender.Flush();
  auto sent = Sent();
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(Fills(sent[0]).size(), 15u);
  EXPECT_EQ(Fills(sent[2]), Bytes{30});
  for (uint8_t i = 0; i < 65; ++i) sender.Send(Packet(64, i), kJoins);
  sender.Flush();
  sent = Sent();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(Fills(sent[0]).size(), roce::kMaxSuperFramePackets);
}

TEST_F(FrameSenderTest, APayloadThatDoesNotStayIsCopied) {
  FrameSender sender = Sender();
  for (const bool stays : {false, true}) {
    sender.Send(Packet(1024, 1), {.joins = true, .stays = stays});
    std::ranges::fill(*payloads_.back(), 9);
  }
  sender.Flush();
  const auto sent = Sent();
  ASSERT_EQ(sent.size(), 1u);
  roce::SuperFrameView view;
  const std::span<const uint8_t> frame = std::span(sent[0]).subspan(sizeof(VirtioHeader));
  ASSERT_EQ(roce::SuperFrameView::Of(frame, 12 + 1024 + 4, &view), roce::ParseResult::kOk);
  roce::FrameAddress address;
  roce::Packet packet;
  EXPECT_EQ(view.Parse(0, &address, &packet), roce::ParseResult::kOk);
  // What changed under a borrowed payload is found by its ICRC.
  EXPECT_EQ(view.Parse(1, &address, &packet), roce::ParseResult::kBadIcrc);
}

TEST_F(FrameSenderTest, WhatTheMtuForbidsIsCounted) {
  FrameSender sender = Sender();
  sender.Send(Packet(4300, 1), kJoins);
  sender.Send(Bytes(kMaxFrame + 1));
  sender.Flush();
  EXPECT_EQ(sender.counters().tx_too_long, 2u);
  EXPECT_TRUE(Sent().empty());
}

TEST_F(FrameSenderTest, ErrorsAreCountedByPacket) {
  FrameSender sender = Sender();
  far_ = {};
  for (uint8_t i = 0; i < 3; ++i) sender.Send(Packet(1024, i), kJoins);
  std::signal(SIGPIPE, SIG_IGN);
  sender.Flush();
  EXPECT_EQ(sender.counters().tx_failed, 3u);
}

// A packet for which there is no memory is not there at all, and the others leave whole.
TEST_F(FrameSenderTest, WithoutMemoryAPacketIsNotTaken) {
  for (const bool joins : {false, true}) {
    int refused = 0;
    for (int succeed = 0; succeed < 4; ++succeed) {
      FrameSender sender = Sender();
      const FrameSender::Terms terms{.joins = joins};
      sender.Send(Packet(1000, 'a'), terms);
      const roce::FramePieces packet = Packet(1000, 'b');
      allocations_left = succeed;
      try {
        sender.Send(packet, terms);
      } catch (const std::bad_alloc&) {
        ++refused;
      }
      const bool failed = allocations_left < 0;
      allocations_left = -1;
      sender.Flush();
      Bytes fills;
      for (const Bytes& message : Sent()) {
        const Bytes of_message = Fills(message);
        fills.insert(fills.end(), of_message.begin(), of_message.end());
      }
      EXPECT_EQ(fills, failed ? Bytes{'a'} : (Bytes{'a', 'b'})) << succeed;
    }
    EXPECT_GT(refused, 0);
  }
}

// What the kernel has no room for is copied, or is lost and counted.
TEST_F(FrameSenderTest, WithoutMemoryForWhatWaitsItIsLost) {
  for (int succeed = 0;; ++succeed) {
    ASSERT_LT(succeed, 100);
    FrameSender sender = Sender(/*virtio=*/false);
    uint64_t taken = 0;
    while (true) {
      sender.Send(Packet(4000, 'x'), {.stays = true});
      ++taken;
      allocations_left = succeed;
      sender.Flush();
      const bool failed = allocations_left < 0;
      allocations_left = -1;
      if (failed) {
        EXPECT_GT(sender.counters().tx_no_buffer, 0u);
        payloads_.clear();
        sender.Resume();
        EXPECT_FALSE(sender.waiting());
        EXPECT_EQ(Sent().size() + sender.counters().tx_no_buffer, taken);
        break;
      }
      if (!sender.waiting()) continue;
      EXPECT_EQ(sender.counters().tx_no_buffer, 0u);
      (void)Sent();
      return;
    }
  }
}

}  // namespace
}  // namespace epic::io
