// What a switch tells of calls that differ, in every order in which their headers can come.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "incengine/modules/buffer.h"

namespace epic::engine {
namespace {

using Ranks = std::vector<uint32_t>;

// What a switch makes of what its children send, in this order of arrival.
ControlHeader Merged(const std::vector<Ranks>& children, const std::vector<ControlHeader>& headers,
                     const std::vector<size_t>& order) {
  Context ctx;
  for (const Ranks& ranks : children) {
    ctx.config.children.emplace_back();
    ctx.config.children.back().ranks = ranks;
  }
  ControlSlot slot{.header = headers[order[0]]};
  for (const size_t child : order) MergeControl(ctx, slot, child, headers[child], false);
  EXPECT_EQ(ctx.counters.aggregated_packets, order.size());
  return slot.header;
}

ControlHeader Barrier(uint64_t invocation = 0) {
  return {.collective = Collective::kBarrier, .invocation = invocation};
}

ControlHeader Call(uint64_t count, uint32_t root) {
  return {.collective = Collective::kBroadcast, .type = DataType::kInt32, .count = count, .root = root};
}

// The lowest rank whose header is not that of the lowest of all, with the field; kOk if there is none.
ControlHeader Expected(const std::map<uint32_t, ControlHeader>& of_ranks) {
  ControlHeader expected = of_ranks.begin()->second;
  for (const auto& [rank, header] : of_ranks) {
    const ControlField field = FirstDifference(of_ranks.begin()->second, header);
    if (field == ControlField::kNone) continue;
    expected.status = ControlStatus::kMismatch;
    expected.field = field;
    expected.culprit = rank;
    break;
  }
  return expected;
}

TEST(MergeControlTest, NamesTheLowestRankThatDiffersFromTheLowestInEveryOrder) {
  const std::vector<ControlHeader> kinds = {Call(1, 0), Call(2, 0), Call(1, 3)};
  const std::vector<Ranks> children = {{4}, {0}, {7}, {2}};
  for (int kind = 0; kind < 3 * 3 * 3 * 3; ++kind) {
    const std::vector<ControlHeader> headers = {kinds[kind % 3], kinds[kind / 3 % 3], kinds[kind / 9 % 3],
                                                kinds[kind / 27]};
    std::map<uint32_t, ControlHeader> of_ranks;
    for (size_t c = 0; c < 4; ++c) of_ranks[children[c][0]] = headers[c];
    std::vector<size_t> order = {0, 1, 2, 3};
    do {
      EXPECT_EQ(Merged(children, headers, order), Expected(of_ranks)) << kind;
    } while (std::ranges::next_permutation(order).found);
  }
}

// Of ranks that lie below switches in whatever way, rank 5 beside rank 0: each lower switch merges first.
TEST(MergeControlTest, NamesTheSameBehindTwoLevelsOfSwitches) {
  const std::vector<Ranks> children = {{1, 2}, {0, 5}, {3, 4}};
  for (int odd = 0; odd < 64; ++odd) {
    std::map<uint32_t, ControlHeader> of_ranks;
    for (uint32_t rank = 0; rank < 6; ++rank) of_ranks[rank] = Call((odd >> rank & 1) != 0 ? 2 : 1, 0);
    for (int first = 0; first < 8; ++first) {
      std::vector<ControlHeader> headers;
      for (size_t c = 0; c < children.size(); ++c) {
        const size_t begin = first >> c & 1;
        headers.push_back(Merged({{children[c][0]}, {children[c][1]}},
                                 {of_ranks[children[c][0]], of_ranks[children[c][1]]}, {begin, 1 - begin}));
      }
      std::vector<size_t> order = {0, 1, 2};
      do {
        EXPECT_EQ(Merged(children, headers, order), Expected(of_ranks)) << odd << ", " << first;
      } while (std::ranges::next_permutation(order).found);
    }
  }
}

TEST(MergeControlTest, WhatIsRefusedForAnotherReasonBelowIsKept) {
  ControlHeader refused = Call(1, 0);
  refused.status = ControlStatus::kUnsupported;
  refused.field = ControlField::kType;
  refused.culprit = 4;
  std::vector<size_t> order = {0, 1, 2};
  do {
    const ControlHeader merged = Merged({{0}, {1}, {4}}, {Call(1, 0), Call(2, 0), refused}, order);
    EXPECT_EQ(merged.status, ControlStatus::kUnsupported);
    EXPECT_EQ(merged.field, ControlField::kType);
    EXPECT_EQ(merged.culprit, 4u);
  } while (std::ranges::next_permutation(order).found);
}

TEST(MergeControlTest, WhoAgreesAndWhoIsBusyIsNoDifference) {
  ControlHeader asks = Call(1, 0), busy = asks;
  asks.flags = busy.flags = kRequestFlag;
  asks.window = 8;
  busy.window = 4;
  busy.status = ControlStatus::kBusy;
  for (const auto& order : {std::vector<size_t>{0, 1}, std::vector<size_t>{1, 0}}) {
    const ControlHeader merged = Merged({{0}, {1}}, {asks, busy}, order);
    EXPECT_EQ(merged.status, ControlStatus::kBusy);
    EXPECT_EQ(merged.window, 4u);
  }
  EXPECT_EQ(Merged({{0}, {1}}, {Barrier(), Barrier()}, {1, 0}), Barrier());
}

}  // namespace
}  // namespace epic::engine
