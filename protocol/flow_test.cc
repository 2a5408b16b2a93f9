#include "protocol/flow.h"

#include <gtest/gtest.h>

#include <vector>

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
  const DataLayout layout = LayoutOf(Of(Collective::kAllGather, 0, 3), 256);
  EXPECT_EQ(layout.part_packets, 2);
  EXPECT_EQ(layout.packets(), 6);
  EXPECT_EQ(PartMessages(layout, 4), 1);
  EXPECT_EQ(DataPacketBytes(layout, 256, 0), 256u);
  EXPECT_EQ(DataPacketBytes(layout, 256, 1), 144u);
  EXPECT_EQ(DataPacketBytes(layout, 256, 4), 256u);
  EXPECT_EQ(DataPacketBytes(layout, 256, 5), 144u);
}

TEST(Flow, AnInlinedCallHasItsDataBehindTheHeader) {
  ControlHeader header = Of(Collective::kAllGather, 0, 3);
  header.count = 16;
  header.flags = kInlinedFlag;
  EXPECT_EQ(CallBytes(header), 192u);
  DataLayout layout = LayoutOf(header, 256);
  EXPECT_EQ(layout.control_packets, 1);
  EXPECT_EQ(layout.packets(), 0);
  EXPECT_EQ(layout.indices(), 1);
  EXPECT_EQ(ControlPacketBytes(layout, 256, 0), 256u);
  header.count = 17;
  layout = LayoutOf(header, 256);
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
    const DataLayout layout = LayoutOf(header, 256);
    EXPECT_EQ(layout.indices(), 1);
    EXPECT_EQ(layout.control_bytes(), kControlBytes);
    EXPECT_EQ(PartMessages(layout, 4), 0);
    EXPECT_FALSE(MayInline(header, 4096, 4096));
    header.flags |= kInlinedFlag;
    EXPECT_FALSE(IsInlined(header)) << "a header of both has no data behind it either";
    EXPECT_EQ(LayoutOf(header, 256).indices(), 1);
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
  EXPECT_EQ(LayoutOf(header, 256).indices(), 1);
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
  EXPECT_EQ(WrongField({.collective = Collective::kBarrier}, 4), ControlField::kNone);
  EXPECT_EQ(WrongField({.collective = Collective::kAllReduce, .op = ReduceOp::kSum}, 4), ControlField::kType);
}

}  // namespace
}  // namespace epic
