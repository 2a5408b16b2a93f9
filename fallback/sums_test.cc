// A group at its fallback server, message by message (docs/PROTOCOL-MODE-V.md, section 5).
#include "fallback/sums.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "reduce/reduce.h"

namespace epic::fallback {
namespace {

constexpr Group kGroup{.world_size = 4, .path_mtu = 256, .message_packets = 2, .slots = 8};

ControlHeader AllReduceOf(uint64_t count, DataType type = DataType::kInt32, uint64_t invocation = 0) {
  return {.collective = Collective::kAllReduce,
          .op = ReduceOp::kSum,
          .type = type,
          .invocation = invocation,
          .count = count};
}

class SumsTest : public testing::Test {
 protected:
  std::string_view Open(const ControlHeader& header, int64_t control_index = 0) {
    const auto bytes = EncodeOpen({.header = header, .control_index = control_index});
    return sums.Take(LegImmediate(LegMessage::kOpen, control_index), bytes);
  }
  template <typename T>
  std::string_view Part(Index index, T value, size_t count = 64, LegMessage kind = LegMessage::kPart) {
    const std::vector<T> words(count, value);
    return sums.Take(LegImmediate(kind, index),
                     {reinterpret_cast<const uint8_t*>(words.data()), words.size() * sizeof(T)});
  }
  template <typename T>
  std::string_view Last(Index index, T value, size_t count = 64) {
    return Part(index, value, count, LegMessage::kLast);
  }
  std::string_view Fetch(Index index) { return sums.Take(LegImmediate(LegMessage::kFetch, index), {}); }
  // The next sum's elements, which are all the same; nothing if there is none.
  template <typename T>
  std::optional<T> Sum(Index index, size_t count = 64) {
    Sums::Fetched fetched;
    if (!sums.NextFetched(&fetched)) return std::nullopt;
    EXPECT_EQ(fetched.immediate, LegImmediate(LegMessage::kSum, index));
    EXPECT_EQ(fetched.bytes.size(), count * sizeof(T));
    T first, last;
    std::memcpy(&first, fetched.bytes.data(), sizeof(T));
    std::memcpy(&last, &fetched.bytes[fetched.bytes.size() - sizeof(T)], sizeof(T));
    EXPECT_EQ(first, last);
    return first;
  }

  Sums sums{kGroup};
};

TEST_F(SumsTest, PartsAreAddedAndTheSumIsFetchedOnce) {
  EXPECT_EQ(Open(AllReduceOf(128)), "");
  EXPECT_EQ(Part(1, 3), "");
  EXPECT_EQ(Part(2, 100), "");
  EXPECT_EQ(Part(1, 4), "");
  EXPECT_EQ(Last(1, 5), "");
  EXPECT_EQ(Sum<int32_t>(1), std::nullopt) << "nobody has asked";
  EXPECT_EQ(Fetch(1), "");
  EXPECT_EQ(Sum<int32_t>(1), 12);
  EXPECT_EQ(sums.size(), 1u);
  EXPECT_EQ(Last(2, 1), "");
  EXPECT_EQ(Fetch(2), "");
  EXPECT_EQ(Sum<int32_t>(2), 101);
  EXPECT_EQ(sums.size(), 0u);
  EXPECT_EQ(Fetch(2), "order") << "it has been sent";
}

TEST_F(SumsTest, WhatDoesNotFitTheStateIsRefused) {
  EXPECT_EQ(Open(AllReduceOf(128)), "");
  EXPECT_EQ(Fetch(1), "order") << "absent";
  EXPECT_EQ(Part(1, 3), "");
  EXPECT_EQ(Fetch(1), "order") << "adding";
  EXPECT_EQ(Last(1, 3), "");
  EXPECT_EQ(Part(1, 3), "order") << "whole";
  EXPECT_EQ(Last(1, 3), "order");
}

TEST_F(SumsTest, WhatIsMalformedIsNamed) {
  EXPECT_EQ(Part(1, 3), "index") << "of a call that was not opened";
  EXPECT_EQ(Open(AllReduceOf(100)), "");
  EXPECT_EQ(Part(0, 3), "index") << "a control packet without data";
  EXPECT_EQ(Part(3, 3), "index") << "behind the call";
  EXPECT_EQ(Part(1, 3, 63), "length");
  EXPECT_EQ(Part(2, 3, 64), "length") << "the last packet is shorter";
  EXPECT_EQ(Part(2, 3, 36), "");
  EXPECT_EQ(Part(1, 3, 64, LegMessage::kSum), "kind");
  EXPECT_EQ(Part(1, 3, 64, LegMessage{0}), "kind");
  EXPECT_EQ(Part(1, 3, 64, LegMessage{15}), "kind");
  EXPECT_EQ(Part(2, 3, 36, LegMessage::kFetch), "length");
  EXPECT_EQ(sums.Take(LegImmediate(LegMessage::kOpen, 3), {}), "header");
  EXPECT_EQ(Open(AllReduceOf(64, DataType::kByte), 3), "header") << "bytes have no sum";
  ControlHeader refused = AllReduceOf(64);
  refused.status = ControlStatus::kMismatch;
  EXPECT_EQ(Open(refused, 3), "header");
  EXPECT_EQ(Open(AllReduceOf(64), 2), "control_index") << "within the call before it";
}

// The next call's would be compared with where this one ends.
TEST_F(SumsTest, NoCallBeginsWhereIndicesEnd) {
  for (const Index at : {std::numeric_limits<Index>::max(), (Index{1} << 62) + 1})
    EXPECT_EQ(Open(AllReduceOf(64), at), "control_index") << at;
  EXPECT_EQ(Open(AllReduceOf(64), Index{1} << 62), "");
  EXPECT_EQ(Open(AllReduceOf(64), 5), "control_index") << "before the one before";
}

TEST_F(SumsTest, ATypeWhoseSumsHaveNoRoomIsNoCallOfTheGroup) {
  Group narrow = kGroup;
  narrow.accumulator_mtus = 1;
  sums = Sums(narrow);
  EXPECT_EQ(Open(AllReduceOf(64, DataType::kFloat16)), "header");
  EXPECT_EQ(Open({.collective = Collective::kBroadcast, .type = DataType::kFloat16, .count = 64}), "")
      << "copies take no more than they have";
}

TEST_F(SumsTest, NoMoreIndicesThanTheGroupHasSlots) {
  EXPECT_EQ(Open(AllReduceOf(64 * 9)), "");
  for (Index index = 1; index <= 8; ++index) EXPECT_EQ(Part(index, 1), "");
  EXPECT_EQ(Part(9, 1), "slots");
  EXPECT_EQ(sums.size(), 8u) << "of what is refused nothing stays";
}

TEST_F(SumsTest, SixteenBitElementsAreRoundedOnce) {
  EXPECT_EQ(Open(AllReduceOf(128, DataType::kBFloat16)), "");
  EXPECT_EQ(Part(1, 256.0f, 128), "");
  EXPECT_EQ(Part(1, 0.75f, 128), "");
  EXPECT_EQ(Last(1, 0.75f, 128), "");
  EXPECT_EQ(Fetch(1), "");
  EXPECT_EQ(Sum<uint16_t>(1, 128), 0x4381) << "257.5 to even is 258; rounded each time it were 256";
}

TEST_F(SumsTest, CopiesArePassedOnAndInlinedOnesMerged) {
  ControlHeader broadcast{.collective = Collective::kBroadcast, .type = DataType::kByte, .count = 300};
  EXPECT_EQ(Open(broadcast), "");
  EXPECT_EQ(Last<uint8_t>(1, 7, 256), "");
  EXPECT_EQ(Fetch(1), "");
  EXPECT_EQ((Sum<uint8_t>(1, 256)), 7);
  broadcast.invocation = 1;
  broadcast.count = 16;
  broadcast.flags = kInlinedFlag;
  EXPECT_EQ(Open(broadcast, 3), "");
  EXPECT_EQ(Part<uint8_t>(3, 9, 16), "");
  EXPECT_EQ(Last<uint8_t>(3, 0, 16), "");
  EXPECT_EQ(Fetch(3), "");
  EXPECT_EQ((Sum<uint8_t>(3, 16)), 9);
}

TEST_F(SumsTest, TheLowerBitsOfAnIndexAreEnough) {
  const Index first = (int64_t{5} << 28) - 1;
  EXPECT_EQ(Open(AllReduceOf(128), first), "");
  EXPECT_EQ(Last(first + 1, 6), "");
  EXPECT_EQ(Fetch(first + 1), "");
  EXPECT_EQ(Sum<int32_t>(first + 1), 6);
}

TEST_F(SumsTest, CallsLongGoneAreForgotten) {
  for (uint64_t call = 0; call <= 32; ++call)
    EXPECT_EQ(Open(AllReduceOf(64, DataType::kInt32, call), static_cast<Index>(2 * call)), "");
  EXPECT_EQ(Part(1, 3), "index");
  EXPECT_EQ(Part(3, 3), "");
}

}  // namespace
}  // namespace epic::fallback
