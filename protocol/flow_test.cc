#include "protocol/flow.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "protocol/number_blocks.h"

namespace epic {
namespace {

using Ranks = std::vector<uint32_t>;

ControlHeader Of(Collective collective, uint32_t root, uint32_t parts) {
  return {.collective = collective,
          .op = Reduces(collective) ? ReduceOp::kSum : ReduceOp::kNone,
          .type = DataType::kFloat32,
          .count = 100,
          .root = root,
          .parts = parts};
}

TEST(Flow, ReductionsGoFromAllToTheRootOfThePart) {
  const ControlHeader reduce = Of(Collective::kReduce, 2, 1);
  EXPECT_TRUE(Sends(reduce, 0, Ranks{0}));
  EXPECT_TRUE(Sends(reduce, 0, Ranks{2}));
  EXPECT_FALSE(Receives(reduce, 0, Ranks{0, 1, 3}));
  EXPECT_TRUE(Receives(reduce, 0, Ranks{1, 2}));
  const ControlHeader scatter = Of(Collective::kReduceScatter, 0, 4);
  EXPECT_FALSE(Receives(scatter, 3, Ranks{0}));
  EXPECT_TRUE(Receives(scatter, 3, Ranks{3}));
  EXPECT_TRUE(Sends(scatter, 3, Ranks{0}));
}

TEST(Flow, CopiesGoFromTheRootOfThePartToAllOthers) {
  const ControlHeader broadcast = Of(Collective::kBroadcast, 1, 1);
  EXPECT_TRUE(Sends(broadcast, 0, Ranks{0, 1}));
  EXPECT_FALSE(Sends(broadcast, 0, Ranks{0, 2}));
  EXPECT_FALSE(Receives(broadcast, 0, Ranks{1}));
  EXPECT_TRUE(Receives(broadcast, 0, Ranks{0, 1}));
  EXPECT_TRUE(Receives(broadcast, 0, Ranks{3}));
  const ControlHeader gather = Of(Collective::kAllGather, 0, 4);
  EXPECT_TRUE(Sends(gather, 3, Ranks{3}));
  EXPECT_FALSE(Sends(gather, 2, Ranks{3}));
  EXPECT_FALSE(Receives(gather, 3, Ranks{3}));
}

TEST(Flow, EveryPartEndsWithAShortPacketOfItsOwn) {
  const DataLayout layout = LayoutOf(Of(Collective::kAllGather, 0, 3), 256, 4);
  EXPECT_EQ(layout.part_packets, 2);
  EXPECT_EQ(layout.packets(), 6);
  EXPECT_EQ(PartMessages(layout, 4), 1);
  EXPECT_EQ(DataPacketBytes(layout, 256, 0), 256u);
  EXPECT_EQ(DataPacketBytes(layout, 256, 1), 144u);
  EXPECT_EQ(DataPacketBytes(layout, 256, 4), 256u);
  EXPECT_EQ(DataPacketBytes(layout, 256, 5), 144u);
}

// Parts of 3 of 5 packets in messages of 2, a message at a time.
TEST(Flow, PartsThatTakeTurnsLieStretchByStretch) {
  ControlHeader header = Of(Collective::kAllGather, 0, 3);
  header.count = 320 - 10;
  header.turn = 1;
  EXPECT_EQ(WrongField(header, 3), ControlField::kNone);
  const DataLayout layout = LayoutOf(header, 256, 2);
  EXPECT_EQ(layout.part_packets, 5);
  EXPECT_EQ(layout.turn_packets, 2);
  const std::vector<std::vector<int64_t>> lies = {// part, packet of it, begin and length of its stretch
                                                  {0, 0, 0, 2},  {0, 1, 0, 2},  {1, 0, 2, 2},  {1, 1, 2, 2},
                                                  {2, 0, 4, 2},  {2, 1, 4, 2},  {0, 2, 6, 2},  {0, 3, 6, 2},
                                                  {1, 2, 8, 2},  {1, 3, 8, 2},  {2, 2, 10, 2}, {2, 3, 10, 2},
                                                  {0, 4, 12, 1}, {1, 4, 13, 1}, {2, 4, 14, 1}};
  ASSERT_EQ(layout.packets(), std::ssize(lies));
  for (int64_t at = 0; at < layout.packets(); ++at) {
    const DataPlace place = PlaceOf(layout, at);
    EXPECT_EQ((std::vector<int64_t>{place.part, place.in_part, place.begin, place.stretch}),
              lies[static_cast<size_t>(at)])
        << at;
    EXPECT_EQ(DataPacketAt(layout, place.part, place.in_part), at);
    EXPECT_EQ(DataPacketBytes(layout, 256, at), place.in_part == 4 ? 1240u - 1024 : 256u) << at;
  }
  header.turn = 3;
  EXPECT_EQ(LayoutOf(header, 256, 2).turn_packets, 0) << "one turn is enough";
}

TEST(Flow, StepsThroughTheMessagesOfTheOrder) {
  DataLayout layout{.parts = 4, .part_packets = 7, .turn_packets = 4};
  const auto listed = [&layout](const auto& carried) {
    std::vector<std::pair<int64_t, int64_t>> all;
    MessagePlace place;
    while (StepToNext(layout, 2, carried, &place)) all.emplace_back(place.part, place.message);
    EXPECT_EQ(place.part, -1) << "ready for the next call";
    EXPECT_EQ(place.message, 0);
    return all;
  };
  using Messages = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(listed([](int64_t part) { return part == 1 || part == 2; }),
            (Messages{{1, 0}, {1, 1}, {2, 0}, {2, 1}, {1, 2}, {1, 3}, {2, 2}, {2, 3}}));
  EXPECT_EQ(listed([](int64_t) { return false; }), Messages{});
  layout.turn_packets = 0;
  EXPECT_EQ(listed([](int64_t part) { return part > 1; }),
            (Messages{{2, 0}, {2, 1}, {2, 2}, {2, 3}, {3, 0}, {3, 1}, {3, 2}, {3, 3}}));
  layout.part_packets = 0;
  EXPECT_EQ(listed([](int64_t) { return true; }), Messages{});
}

TEST(Flow, PartsTakeTurnsWhereTheyAreLongerThanTheWindow) {
  ControlHeader header = Of(Collective::kAllGather, 0, 4);
  const auto turn = [&header](uint64_t packets_of_part, uint32_t window) {
    header.count = packets_of_part * 64;
    return TurnOf(header, 256, 2, window);
  };
  EXPECT_EQ(turn(32, 64), 0u) << "all of them fit";
  EXPECT_EQ(turn(33, 64), 12u) << "three quarters of the window";
  EXPECT_EQ(turn(33, 11), 2u);
  EXPECT_EQ(turn(33, 10), 5u) << "two windows";
  EXPECT_EQ(turn(33, 1), 1u);
  EXPECT_EQ(turn(4, 3), 0u) << "a part is no longer than its turn";
  header.parts = 2;
  EXPECT_EQ(turn(100, 64), 1u) << "of two ranks";
  EXPECT_EQ(turn(2, 1), 0u);
  header.parts = 4;
  for (const Collective other :
       {Collective::kReduceScatter, Collective::kBroadcast, Collective::kAllReduce}) {
    header.collective = other;
    EXPECT_EQ(turn(1000, 4), 0u);
  }
}

TEST(Flow, RefusesTurnsOfCallsThatHaveNone) {
  ControlHeader header = Of(Collective::kAllGather, 0, 4);
  header.turn = 7;
  EXPECT_EQ(WrongField(header, 4), ControlField::kNone);
  header.flags = kInlinedFlag;
  EXPECT_EQ(WrongField(header, 4), ControlField::kFlags);
  header.flags = kByHostsFlag;
  EXPECT_EQ(WrongField(header, 4), ControlField::kFlags);
  header = Of(Collective::kReduceScatter, 0, 4);
  header.turn = 1;
  EXPECT_EQ(WrongField(header, 4), ControlField::kFlags);
}

TEST(Flow, AnInlinedCallHasItsDataBehindTheHeader) {
  ControlHeader header = Of(Collective::kAllGather, 0, 3);
  header.count = 16;
  header.flags = kInlinedFlag;
  EXPECT_EQ(CallBytes(header), 192u);
  DataLayout layout = LayoutOf(header, 256, 4);
  EXPECT_EQ(layout.control_packets, 1);
  EXPECT_EQ(layout.packets(), 0);
  EXPECT_EQ(layout.indices(), 1);
  EXPECT_EQ(ControlPacketBytes(layout, 256, 0), 256u);
  header.count = 17;
  layout = LayoutOf(header, 256, 4);
  EXPECT_EQ(layout.control_packets, 2);
  EXPECT_EQ(ControlPacketBytes(layout, 256, 0), 256u);
  EXPECT_EQ(ControlPacketBytes(layout, 256, 1), 64u + 204 - 256);
}

TEST(Flow, InlinesWhatFitsIntoAMessageWithItsHeader) {
  ControlHeader header = Of(Collective::kAllReduce, 0, 1);
  EXPECT_TRUE(MayInline(header, 464, 400));
  EXPECT_FALSE(MayInline(header, 463, 400));
  EXPECT_FALSE(MayInline(header, 464, 399));
  header.count = 0;
  EXPECT_FALSE(MayInline(header, 464, 400));
}

TEST(Flow, RefusesWhatCannotBeInlined) {
  ControlHeader header = Of(Collective::kAllReduce, 0, 1);
  EXPECT_EQ(WrongField(header, 4, 463), ControlField::kNone);
  header.flags = kInlinedFlag;
  EXPECT_EQ(WrongField(header, 4, 464), ControlField::kNone);
  EXPECT_EQ(WrongField(header, 4, 463), ControlField::kFlags);
  header.count = 0;
  EXPECT_EQ(WrongField(header, 4, 464), ControlField::kFlags);
  EXPECT_EQ(WrongField({.collective = Collective::kBarrier, .flags = kInlinedFlag}, 4, 464),
            ControlField::kFlags);
}

TEST(Flow, OfACallByTheHostsTheGroupHasTheControlPacketAlone) {
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kReduceScatter, Collective::kBroadcast}) {
    ControlHeader header = Of(collective, 0, HasPartPerRank(collective) ? 3 : 1);
    header.flags = kByHostsFlag;
    EXPECT_EQ(WrongField(header, 3, 4096), ControlField::kNone);
    const DataLayout layout = LayoutOf(header, 256, 4);
    EXPECT_EQ(layout.indices(), 1);
    EXPECT_EQ(layout.control_bytes(), kControlBytes);
    EXPECT_EQ(PartMessages(layout, 4), 0);
    EXPECT_FALSE(MayInline(header, 4096, 4096));
    header.flags |= kInlinedFlag;
    EXPECT_FALSE(IsInlined(header)) << "a header of both has no data behind it either";
    EXPECT_EQ(LayoutOf(header, 256, 4).indices(), 1);
    EXPECT_EQ(WrongField(header, 3, 4096), ControlField::kFlags);
  }
}

// Nothing of the group carries their data, so nobody there needs to know what they are.
TEST(Flow, ALaterTypeOrOperationGoesByTheHostsAlone) {
  ControlHeader header = Of(Collective::kAllReduce, 0, 1);
  header.type = DataType{40};
  EXPECT_EQ(WrongField(header, 3), ControlField::kType);
  header.flags = kByHostsFlag;
  header.op = ReduceOp{41};
  header.count = kMaxBytes;
  EXPECT_EQ(WrongField(header, 3, 4096), ControlField::kNone);
  EXPECT_EQ(LayoutOf(header, 256, 4).indices(), 1);
  header.collective = Collective::kReduceScatter;
  header.parts = 3;
  EXPECT_EQ(WrongField(header, 3), ControlField::kCount);
  header = Of(Collective::kAllReduce, 0, 1);
  header.op = ReduceOp{41};
  EXPECT_EQ(WrongField(header, 3), ControlField::kOp);
}

TEST(Flow, NamesTheWrongField) {
  EXPECT_EQ(WrongField(Of(Collective::kReduce, 3, 1), 4), ControlField::kNone);
  EXPECT_EQ(WrongField(Of(Collective::kReduce, 4, 1), 4), ControlField::kRoot);
  EXPECT_EQ(WrongField(Of(Collective::kAllGather, 0, 3), 4), ControlField::kParts);
  EXPECT_EQ(WrongField(Of(Collective::kAllReduce, 0, 4), 4), ControlField::kParts);
  ControlHeader header = Of(Collective::kBroadcast, 0, 1);
  header.op = ReduceOp::kSum;
  EXPECT_EQ(WrongField(header, 4), ControlField::kOp);
  header = Of(Collective::kAllGather, 0, 4);
  header.count = kMaxBytes / 16;
  EXPECT_EQ(WrongField(header, 4), ControlField::kNone);
  header.count += 1;
  EXPECT_EQ(WrongField(header, 4), ControlField::kCount);
  header = InBlocks(Of(Collective::kAllReduce, 0, 1));
  EXPECT_EQ(WrongField(header, 4), ControlField::kNone);
  header.last = 0;
  EXPECT_EQ(WrongField(header, 4), ControlField::kCount);
  header.last = kBlockElements + 1;
  EXPECT_EQ(WrongField(header, 4), ControlField::kCount);
  header.called = DataType::kInt32;
  EXPECT_EQ(WrongField(header, 4), ControlField::kType);
  EXPECT_EQ(WrongField({.collective = Collective::kBarrier}, 4), ControlField::kNone);
  EXPECT_EQ(WrongField({.collective = Collective::kAllReduce, .op = ReduceOp::kSum}, 4), ControlField::kType);
}

}  // namespace
}  // namespace epic
