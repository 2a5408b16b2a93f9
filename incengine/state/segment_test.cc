#include "incengine/state/segment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace epic::engine {
namespace {

// One part that the direction carries.
void OpenWhole(Direction& d, int64_t invocation, int64_t packets, uint32_t message_packets) {
  d.Open(invocation, {.part_packets = packets}, {{.first_part = 0, .parts = 1}}, message_packets);
}

TEST(DirectionTest, MapsIndexAndPsnThroughTheWrap) {
  Direction d(Psn(0xfffffe));
  OpenWhole(d, 0, 3, 2);
  OpenWhole(d, 1, 0, 2);
  OpenWhole(d, 2, 1, 2);
  for (Index i = 0; i < d.next_index(); ++i) {
    EXPECT_EQ(d.WireOf(i), Psn(0xfffffe) + i);
    EXPECT_EQ(d.IndexOf(Psn(0xfffffe) + i), i);
  }
  EXPECT_EQ(d.next_index(), 7);
  EXPECT_EQ(d.IndexOf(Psn(0xfffffd)), std::nullopt);
  EXPECT_EQ(d.IndexOf(d.next_wire()), std::nullopt);
  EXPECT_EQ(d.WireOf(7), d.next_wire());
}

TEST(DirectionTest, CountsMessagesAsTheReceiverDoes) {
  Direction d(Psn(0));
  OpenWhole(d, 0, 5, 2);  // control, messages of 2, 2 and 1 packets
  const std::vector<uint32_t> msn = {1, 1, 2, 2, 3, 4};
  for (Index i = 0; i < 6; ++i) EXPECT_EQ(d.MsnAfter(i), msn[static_cast<size_t>(i)]) << i;
  OpenWhole(d, 1, 0, 2);
  EXPECT_EQ(d.MsnAfter(6), 5u);
}

TEST(DirectionTest, ForgetsTheOldestInvocation) {
  Direction d(Psn(0));
  for (int64_t k = 0; k < kKeptInvocations; ++k) OpenWhole(d, k, 1, 1);
  EXPECT_TRUE(d.IndexOf(Psn(0)).has_value());
  EXPECT_FALSE(d.CanOpenKeeping(1));
  EXPECT_TRUE(d.CanOpenKeeping(2));
  OpenWhole(d, kKeptInvocations, 1, 1);
  EXPECT_FALSE(d.IndexOf(Psn(1)).has_value());
  EXPECT_TRUE(d.IndexOf(Psn(2)).has_value());
}

// Invocation 1 has 4 parts of 3 packets (two messages of at most 2), of which this direction carries 0 and
// 2, 3.
TEST(DirectionTest, StepsOverPartsThatItDoesNotCarry) {
  Direction d(Psn(100));
  OpenWhole(d, 0, 1, 2);  // indices 0, 1
  const std::vector<PartRun> runs = {{.first_part = 0, .parts = 1}, {.first_part = 2, .parts = 2}};
  d.Open(1, {.parts = 4, .part_packets = 3}, runs,
         2);              // control 2, parts 3..5, 6..8 (not carried), 9..11, 12..14
  OpenWhole(d, 2, 0, 2);  // control 15
  const std::vector<Index> carried = {0, 1, 2, 3, 4, 5, 9, 10, 11, 12, 13, 14, 15};
  const std::vector<uint32_t> msn = {1, 2, 3, 3, 4, 5, 5, 6, 7, 7, 8, 9, 10};
  for (size_t n = 0; n < carried.size(); ++n) {
    EXPECT_EQ(d.IndexOf(Psn(100) + static_cast<int64_t>(n)), carried[n]);
    EXPECT_EQ(d.WireOf(carried[n]), Psn(100) + static_cast<int64_t>(n));
    EXPECT_EQ(d.MsnAfter(carried[n]), msn[n]) << carried[n];
    EXPECT_TRUE(d.Carries(carried[n]));
    EXPECT_EQ(d.Previous(carried[n] + 1), carried[n]);
  }
  for (Index i = 6; i < 9; ++i) {
    EXPECT_FALSE(d.Carries(i));
    EXPECT_EQ(d.Next(i), 9);
    EXPECT_EQ(d.WireOf(i), d.WireOf(9));
    EXPECT_EQ(d.Previous(i), 5);
    EXPECT_EQ(d.MsnAfter(i), 5u);
    EXPECT_FALSE(d.StretchAt(i).carried);
    EXPECT_EQ(d.StretchAt(i).end, 9);
  }
  EXPECT_TRUE(d.StretchAt(3).carried);
  EXPECT_EQ(d.StretchAt(3).end, 6);
  EXPECT_EQ(d.Next(16), d.next_index());
  EXPECT_EQ(d.WireOf(16), d.next_wire());
  EXPECT_EQ(d.Previous(0), -1);
}

// A direction against a list of all that it carries.
class Listed {
 public:
  Listed() : direction(kFirst) {}

  void Open(const DataLayout& layout, const std::vector<bool>& carries, uint32_t message_packets) {
    std::vector<PartRun> runs;
    for (size_t part = 0; part < carries.size(); ++part) {
      if (!carries[part]) continue;
      if (part > 0 && carries[part - 1]) {
        ++runs.back().parts;
      } else {
        runs.push_back({.first_part = static_cast<int64_t>(part), .parts = 1});
      }
    }
    direction.Open(direction.next_invocation(), layout, runs, message_packets);
    direction.CheckInvariants();
    begins_.push_back({next_, carried_.size()});
    for (int64_t k = 0; k < layout.control_packets; ++k) Append(k == layout.control_packets - 1);
    for (int64_t at = 0; at < layout.packets(); ++at) {
      const DataPlace place = PlaceOf(layout, at);
      if (!carries[static_cast<size_t>(place.part)]) {
        ++next_;
        continue;
      }
      Append(place.in_part % message_packets == message_packets - 1 ||
             place.in_part == layout.part_packets - 1);
    }
  }

  void ExpectAll() const {
    ASSERT_EQ(direction.next_index(), next_);
    ASSERT_EQ(direction.next_wire(), kFirst + std::ssize(carried_));
    const size_t forgotten = begins_.size() > kKeptInvocations ? begins_.size() - kKeptInvocations : 0;
    const auto [first_kept, carried_before] = begins_[forgotten];
    for (size_t n = carried_before; n < carried_.size(); ++n) {
      const Index index = carried_[n];
      ASSERT_EQ(direction.IndexOf(kFirst + static_cast<int64_t>(n)), index);
      ASSERT_EQ(direction.WireOf(index), kFirst + static_cast<int64_t>(n));
      ASSERT_EQ(direction.MsnAfter(index), messages_[n]) << index;
    }
    const std::span<const Index> kept = std::span(carried_).subspan(carried_before);
    for (Index index = first_kept; index < next_; ++index) {
      const auto at = std::lower_bound(kept.begin(), kept.end(), index);
      const bool carries = at != kept.end() && *at == index;
      ASSERT_EQ(direction.Carries(index), carries) << index;
      ASSERT_EQ(direction.Next(index), at == kept.end() ? next_ : *at) << index;
      ASSERT_EQ(direction.Previous(index), at == kept.begin() ? -1 : *std::prev(at)) << index;
      const Stretch stretch = direction.StretchAt(index);
      ASSERT_EQ(stretch.carried, carries) << index;
      ASSERT_GT(stretch.end, index);
      for (Index i = index; i < stretch.end; ++i) ASSERT_EQ(direction.Carries(i), carries) << index;
    }
  }

  Direction direction;

 private:
  static constexpr Psn kFirst{0xffffc0};

  void Append(bool ends_message) {
    carried_.push_back(next_++);
    messages_.push_back((messages_.empty() ? 0 : messages_.back()) + (ends_message ? 1 : 0));
  }

  std::vector<std::pair<Index, size_t>> begins_;  // of each invocation: its index, what is carried before it
  std::vector<Index> carried_;
  std::vector<uint32_t> messages_;  // complete with each
  Index next_ = 0;
};

TEST(DirectionTest, MapsEveryIndexAsAListOfAllDoes) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const auto below = [&random](uint32_t n) { return static_cast<int64_t>(random() % n); };
    Listed listed;
    const auto message_packets = static_cast<uint32_t>(1 + below(3));
    for (int64_t calls = seed % 10 == 0 ? 30 + below(40) : 1 + below(6); calls > 0; --calls) {
      DataLayout layout{.parts = 1 + below(5), .part_packets = below(3) == 0 ? 0 : 1 + below(14)};
      if (layout.part_packets == 0) layout.control_packets = 1 + below(message_packets);
      const int64_t turn = (1 + below(3)) * message_packets;
      if (below(3) > 0 && turn < layout.part_packets) layout.turn_packets = turn;
      std::vector<bool> carries(static_cast<size_t>(layout.parts));
      for (size_t part = 0; part < carries.size(); ++part) carries[part] = below(2) == 0;
      listed.Open(layout, carries, message_packets);
    }
    ASSERT_NO_FATAL_FAILURE(listed.ExpectAll());
  }
}

}  // namespace
}  // namespace epic::engine
