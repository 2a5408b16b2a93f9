#include "incmanager/policies/window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace epic::manager {
namespace {

Window Choose(const WindowRequest& request) { return *ChooseWindow(request); }

TEST(ChooseWindow, BeginsWithTwiceTheBandwidthDelayProductWithinBounds) {
  WindowRequest request;
  request.path_mtu = 4096;
  request.rate_gbps = 10;
  request.round_trip_us = 80;  // 100 kB: 48.8 packets
  EXPECT_EQ(Choose(request).message_packets, 8u);
  EXPECT_EQ(Choose(request).start_messages, 7u);
  EXPECT_EQ(Choose(request).slots, 128u);
  EXPECT_EQ(Choose(request).reason,
            "2*BDP of 10 Gbit/s and 80 us (80 on links, 50 in each of 0 switches passed) is 49 packets of "
            "4096 bytes; at most 64");
  request.crossings = 1;
  EXPECT_EQ(Choose(request).start_messages, 8u) << "64 of 80 packets";
  EXPECT_NE(Choose(request).reason.find("50 in each of 1 switch passed)"), std::string::npos);
  request.crossings = 0;
  request.path_mtu = 1024;
  EXPECT_EQ(Choose(request).start_messages, 8u) << "the bound";
  request.round_trip_us = 1;
  EXPECT_EQ(Choose(request).start_messages, 2u) << "at least 16 packets";
  EXPECT_EQ(Choose(request).slots, 32u);
  request.nic_packets = 4;
  EXPECT_EQ(Choose(request).message_packets * Choose(request).start_messages, 4u);
}

TEST(ChooseWindow, WIsWhatTheSlotsTake) {
  WindowRequest request;
  request.path_mtu = 4096;
  request.rate_gbps = 10;
  request.round_trip_us = 80;
  EXPECT_EQ(Choose(request).window_messages, 8u) << "56 packets to begin with need 128 slots";
  request.nic_packets = 60;
  EXPECT_EQ(Choose(request).window_messages, 7u) << "what the weakest NIC can have unacknowledged";
  request.nic_packets = 128;
  request.window_packets = 256;
  EXPECT_EQ(Choose(request).window_messages, 8u) << "of 128 slots no more than half";
  request.round_trip_us = 110;  // 67.2 packets
  EXPECT_EQ(Choose(request).start_messages, 9u);
  EXPECT_EQ(Choose(request).slots, 256u);
  EXPECT_EQ(Choose(request).window_messages, 16u);
  request.nic_packets = 100;
  EXPECT_EQ(Choose(request).window_messages, 12u);
  request.window_packets = 80;
  EXPECT_EQ(Choose(request).window_messages, 10u) << "what may be in flight";
  request.message_packets = 3;
  request.round_trip_us = 1;
  EXPECT_EQ(Choose(request).start_messages, 6u);
  EXPECT_EQ(Choose(request).slots, 64u);
  EXPECT_EQ(Choose(request).window_messages, 10u) << "60 of 64";
}

// Whatever is asked for: 1 <= start <= W, 2MW <= N, and no more slots than the window to begin with needs.
TEST(ChooseWindow, EveryWindowFitsItsSlots) {
  for (uint32_t m = 0; m <= 70; ++m) {
    for (uint32_t w = 0; w <= 70; ++w) {
      for (const uint32_t nic : {0u, 1u, 7u, 64u, 128u}) {
        for (const double round_trip_us : {0.0, 33.0, 1000.0}) {
          const WindowRequest request{.path_mtu = 1024,
                                      .rate_gbps = 10,
                                      .round_trip_us = round_trip_us,
                                      .nic_packets = nic,
                                      .message_packets = m,
                                      .window_messages = w};
          const auto chosen = ChooseWindow(request);
          if (!chosen.ok()) continue;
          const Window& window = *chosen;
          SCOPED_TRACE(::testing::Message() << m << ' ' << w << ' ' << nic << ' ' << round_trip_us);
          const uint32_t start = w == 0 ? window.start_messages : window.window_messages;
          ASSERT_EQ(window.start_messages == 0, w != 0) << "a wish is kept to";
          ASSERT_GE(start, 1u);
          ASSERT_LE(start, window.window_messages);
          ASSERT_LE(2 * window.message_packets * window.window_messages, window.slots);
          ASSERT_LE(window.message_packets * window.window_messages, nic == 0 ? 64 : std::min(nic, 64u));
          ASSERT_LT(window.slots, 4 * window.message_packets * start);
        }
      }
    }
  }
}

TEST(ChooseWindow, WishesAreKeptOrRefused) {
  WindowRequest request;
  request.path_mtu = 4096;
  request.rate_gbps = 10;
  request.round_trip_us = 80;
  request.message_packets = 16;
  request.window_messages = 4;
  EXPECT_EQ(Choose(request).message_packets, 16u);
  EXPECT_EQ(Choose(request).window_messages, 4u);
  EXPECT_EQ(Choose(request).slots, 128u);
  EXPECT_EQ(Choose(request).start_messages, 0u) << "ranks try no others";
  request.window_messages = 0;
  EXPECT_EQ(Choose(request).start_messages, 4u);
  EXPECT_EQ(Choose(request).window_messages, 4u);
  request.message_packets = 0;
  request.window_messages = 32;
  EXPECT_EQ(Choose(request).message_packets, 2u);
  request.window_messages = 65;
  EXPECT_EQ(ChooseWindow(request).failure().message,
            "M*W: 65 packets are more than the 64 that may be in flight");
}

// Of a group whose longest call is known no more is in flight than that has, with its header.
TEST(ChooseWindow, HoldsNoMoreThanTheLongestCall) {
  WindowRequest request{.path_mtu = 4096, .rate_gbps = 10, .round_trip_us = 80, .inline_bytes = 8128};
  const auto sizes = [&request](uint64_t max_bytes) {
    request.max_bytes = max_bytes;
    const Window window = Choose(request);
    return std::array{window.message_packets, window.window_messages, window.start_messages, window.slots};
  };
  using Sizes = std::array<uint32_t, 4>;
  EXPECT_EQ(sizes(1), (Sizes{1, 1, 1, 2})) << "one packet, with the header in it";
  EXPECT_EQ(sizes(4096 - 64), (Sizes{1, 1, 1, 2}));
  EXPECT_EQ(sizes(4096 - 63), (Sizes{2, 1, 1, 4}));
  EXPECT_EQ(sizes(8129), (Sizes{3, 1, 1, 8})) << "the header before the data";
  EXPECT_EQ(sizes(uint64_t{1} << 60), sizes(0)) << "more than may be in flight";
  EXPECT_EQ(sizes(32 << 10), (Sizes{5, 2, 2, 32})) << "messages of one length, and a place for each packet";
  request.path_mtu = 256;
  EXPECT_EQ(sizes(4000), (Sizes{6, 3, 3, 64})) << "more than a message is not inlined";
  request.path_mtu = 4096;
  request.max_bytes = 1000;
  EXPECT_THAT(Choose(request).reason, ::testing::HasSubstr("; a call of 1000 bytes has 1"));
  // Wishes go first.
  request.message_packets = 2;
  request.window_messages = 3;
  EXPECT_EQ(Choose(request).slots, 16u);
  request.window_messages = 0;
  EXPECT_EQ(sizes(1000), (Sizes{2, 1, 1, 4}));
  request.message_packets = 0;
  request.window_messages = 4;
  EXPECT_EQ(sizes(1000), (Sizes{1, 4, 0, 8}));
}

// Whatever is wished and declared: what is in flight has slots, and stays below what may be.
TEST(ChooseWindow, EveryWindowOfADeclaredCallFitsItsSlots) {
  for (uint32_t m = 0; m <= 20; ++m) {
    for (uint32_t w = 0; w <= 20; ++w) {
      for (const uint32_t nic : {0u, 1u, 7u, 30u, 128u}) {
        for (uint64_t bytes = 1; bytes < 200'000; bytes += 1 + bytes / 3) {
          const WindowRequest request{.path_mtu = 1024,
                                      .rate_gbps = 100,
                                      .round_trip_us = 100,
                                      .nic_packets = nic,
                                      .message_packets = m,
                                      .window_messages = w,
                                      .max_bytes = bytes,
                                      .inline_bytes = 8128};
          const auto chosen = ChooseWindow(request);
          if (!chosen.ok()) continue;
          const Window& window = *chosen;
          SCOPED_TRACE(::testing::Message() << m << ' ' << w << ' ' << nic << ' ' << bytes);
          const uint32_t packets = window.message_packets * window.window_messages;
          ASSERT_GE(packets, 1u);
          ASSERT_LE(2 * packets, window.slots);
          ASSERT_LE(packets, nic == 0 ? 64 : std::min(nic, 64u));
          if (m != 0 || w != 0) continue;
          ASSERT_LT(packets, (bytes + 64) / 1024 + 10) << "no more than it fills";
        }
      }
    }
  }
}

}  // namespace
}  // namespace epic::manager
