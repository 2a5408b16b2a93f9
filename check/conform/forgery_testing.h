// Recordings of a right switch for forgeries, and what must come of them.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "check/conform/recording_testing.h"

namespace epic::conform {

using engine::Mode;

inline constexpr ControlHeader kSum{
    .collective = Collective::kAllReduce, .op = ReduceOp::kSum, .type = DataType::kInt32, .count = 640};
inline constexpr ControlHeader kCopy{
    .collective = Collective::kBroadcast, .type = DataType::kInt32, .count = 640, .root = 1};
inline constexpr ControlHeader kReduce{.collective = Collective::kReduce,
                                       .op = ReduceOp::kSum,
                                       .type = DataType::kInt32,
                                       .count = 640,
                                       .root = 1};

// Messages of one packet, so that MSN and PSN go together.
inline sim::WorldConfig Config(Mode mode, const sim::TreeSpec& tree) {
  return {.mode = mode, .tree = tree, .path_mtu = 256, .message_packets = 1, .window_messages = 4};
}
inline Recording RootOfStar(Mode mode, const ControlHeader& header = kSum) {
  return Record(Config(mode, sim::Star(3)), 0, {header, header});
}
inline Recording Leaf(Mode mode, const ControlHeader& header = kSum) {
  return Record(Config(mode, sim::FullTree(2, 2)), 1, {header, header});
}
inline Recording Lossy(Mode mode) {
  return Record(Config(mode, sim::Star(3)), 0, {kSum, kSum, kSum, kSum}, {.loss_ppm = 40000});
}

// The first thing found wrong is this rule, at this event.
inline void ExpectRefused(const Recording& recording, Rule rule, size_t at) {
  const Verdict verdict = Play(recording);
  ASSERT_FALSE(verdict.accepted()) << "not refused by " << Name(rule);
  EXPECT_EQ(std::string(Name(verdict.first[0].rule)), Name(rule)) << Describe(verdict.first[0]);
  EXPECT_EQ(verdict.first[0].line, at) << Describe(verdict.first[0]);
}

inline bool OutData(const Event& e) { return e.out() && e.IsData(); }
inline bool OutControl(const Event& e) { return e.out() && e.IsControl(); }
inline bool OutAck(const Event& e) { return e.out() && e.IsAck(); }
inline bool InData(const Event& e) { return e.in() && e.IsData(); }

}  // namespace epic::conform
