// What a port does not take at once waits: how much, and for how long.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "io/frame_sender.h"
#include "io/frame_sender_testing.h"

namespace epic::io {
namespace {

TEST_F(FrameSenderTest, WhatTheKernelHasNoRoomForLeavesLaterInOrder) {
  FrameSender sender = Sender();
  const int small = 1;
  ASSERT_EQ(setsockopt(near_.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
  Bytes expected, fills;
  for (uint8_t i = 0; i < 60; ++i) {
    sender.Send(Packet(4096, i), {.joins = i % 2 == 0, .stays = true});
    expected.push_back(i);
    if (i % 10 == 9) sender.Flush();
  }
  EXPECT_TRUE(sender.waiting());
  for (auto& payload : payloads_) std::ranges::fill(*payload, 0xee);  // queued copies do not see it
  for (int round = 0; round < 100; ++round) {
    for (const Bytes& message : Sent()) std::ranges::copy(Fills(message), std::back_inserter(fills));
    if (!sender.waiting()) break;
    sender.Resume();
  }
  EXPECT_FALSE(sender.waiting());
  EXPECT_EQ(fills, expected);
  EXPECT_EQ(sender.counters().tx_failed + sender.counters().tx_no_buffer, 0u);
}

// In pieces of any size, and also what follows while some have left.
TEST_F(FrameSenderTest, ALongQueueLeavesInOrder) {
  FrameSender sender = SlowSender();
  Bytes expected, fills;
  uint8_t next = 0;
  const auto send = [&](int packets) {
    for (int i = 0; i < packets; ++i) {
      sender.Send(Packet(i % 3 == 0 ? 4096 : 100, next), {.joins = i % 2 == 0, .stays = true});
      expected.push_back(next++);
    }
    sender.Flush();
    for (auto& payload : payloads_) std::ranges::fill(*payload, 0xee);
  };
  send(700);
  ASSERT_TRUE(sender.waiting());
  for (int round = 0; sender.waiting() && round < 10'000; ++round) {
    for (const Bytes& message : Sent()) std::ranges::copy(Fills(message), std::back_inserter(fills));
    sender.Resume();
    if (round % 4 == 0 && round < 200) send(1 + round % 3);
  }
  for (const Bytes& message : Sent()) std::ranges::copy(Fills(message), std::back_inserter(fills));
  EXPECT_EQ(fills, expected);
  EXPECT_EQ(sender.counters().tx_failed + sender.counters().tx_no_buffer, 0u);
}

TEST_F(FrameSenderTest, TheQueueHasABound) {
  FrameSender sender = SlowSender();
  constexpr int kPackets = 1500;
  for (int i = 0; i < kPackets; ++i) sender.Send(Packet(4096, 1), {.joins = false, .stays = true});
  EXPECT_TRUE(sender.waiting());
  EXPECT_GT(sender.counters().tx_no_buffer, 300u);
  EXPECT_LT(sender.counters().tx_no_buffer, 450u) << "all of a staging ring of 1,024 datagrams may wait";
  sender.Discard();
  EXPECT_FALSE(sender.waiting());
  size_t sent = 0;
  for (const Bytes& message : Sent()) sent += Fills(message).size();
  EXPECT_EQ(sent + sender.counters().tx_no_buffer + sender.counters().tx_failed, size_t{kPackets});
}

// As softnic's, which is done with all of it after some milliseconds.
TEST_F(FrameSenderTest, AShortQueueIsShortAtOnce) {
  FrameSender sender = SlowSender(FrameSender::Queue::kShort);
  for (int i = 0; i < 400; ++i) sender.Send(Packet(4096, 1), {.joins = false, .stays = true});
  EXPECT_GT(sender.counters().tx_no_buffer, 250u);
  EXPECT_LT(sender.counters().tx_no_buffer, 270u);
}

// What it takes late would make all behind it late, hellos as well; also what came before that was known.
TEST_F(FrameSenderTest, ASlowPortHasAShortQueue) {
  for (const int burst : {100, 1000}) {
    FrameSender sender = SlowSender();
    for (int i = 0; i < burst; ++i) sender.Send(Packet(4096, 1), {.joins = false, .stays = true});
    EXPECT_TRUE(sender.waiting());
    EXPECT_EQ(sender.counters().tx_no_buffer, 0u);
    time += 50'000'001;
    for (int i = 0; i < 400; ++i) sender.Send(Packet(4096, 1), {.joins = false, .stays = true});
    const auto packets = static_cast<uint64_t>(burst) + 400;
    EXPECT_GT(sender.counters().tx_no_buffer, packets - 150);
    EXPECT_LT(sender.counters().tx_no_buffer, packets - 130) << "576 KiB are kept, and what the kernel has";
    size_t sent = 0;
    for (int round = 0; round < 1000; ++round) {
      for (const Bytes& message : Sent()) sent += Fills(message).size();
      if (!sender.waiting()) break;
      sender.Resume();
    }
    for (const Bytes& message : Sent()) sent += Fills(message).size();
    EXPECT_EQ(sent, packets - sender.counters().tx_no_buffer) << "whole, each of them";
  }
}

TEST_F(FrameSenderTest, ASlowPortHasFewShortFrames) {
  FrameSender sender = SlowSender();
  for (int i = 0; i < 3000; ++i) sender.Send(Bytes(70));
  EXPECT_EQ(sender.counters().tx_no_buffer, 0u);
  time += 50'000'000;
  for (int i = 0; i < 1000; ++i) {
    time += 1'000'000;
    sender.Send(Bytes(70));
  }
  EXPECT_GT(sender.counters().tx_no_buffer, 900u);
}

// What waited for the program has not waited for the port.
TEST_F(FrameSenderTest, WhoHasNotRunLosesNothing) {
  FrameSender sender = SlowSender();
  size_t packets = 400, sent = 0;
  for (size_t i = 0; i < packets; ++i) sender.Send(Packet(4096, 1), {.joins = false, .stays = true});
  EXPECT_TRUE(sender.waiting());
  for (int round = 0; round < 1000 && sender.waiting(); ++round) {
    for (const Bytes& message : Sent()) sent += Fills(message).size();
    time += 60'000'000;
    if (round < 50) {
      sender.Send(Packet(4096, 1), {.joins = false, .stays = true});
      ++packets;
    }
    sender.Resume();
  }
  for (const Bytes& message : Sent()) sent += Fills(message).size();
  EXPECT_EQ(sender.counters().tx_no_buffer, 0u);
  EXPECT_EQ(sent, packets);
}

}  // namespace
}  // namespace epic::io
