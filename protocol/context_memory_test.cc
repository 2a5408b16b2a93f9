#include "protocol/context_memory.h"

#include <gtest/gtest.h>

namespace epic {
namespace {

ContextShape Shape() {
  return {.path_mtu = 1024,
          .message_packets = 8,
          .window_messages = 8,
          .slots = 128,
          .children = 4,
          .has_parent = true};
}

TEST(ContextMemory, PipesHaveSlotsAndPayloads) {
  EXPECT_EQ(RoundUpToArena(0), 0u);
  EXPECT_EQ(RoundUpToArena(64), 64u);
  EXPECT_EQ(RoundUpToArena(65), 128u);
  EXPECT_EQ(PipeBytes(2, 100), 64u + 256u);
  ContextShape shape = Shape();
  EXPECT_EQ(UpPipeBytes(shape), 128u * 24 + 128 * 2048);
  shape.accumulator_mtus = 1;
  EXPECT_EQ(UpPipeBytes(shape), 128u * 24 + 128 * 1024);
  shape.reproducible = true;
  EXPECT_EQ(UpPipeBytes(shape), 128u * 24 + 128 * 5120);
  shape.accumulator_mtus = 4;
  EXPECT_EQ(UpPipeBytes(shape), 128u * 24 + 128 * 8192);
}

TEST(ContextMemory, RingsHaveRoomForWhatIsUnderWay) {
  ContextShape shape = Shape();
  EXPECT_EQ(RingsBytes(shape), 5u * 10 * 8192 + 12 * 8192);
  shape.accumulator_mtus = 1;
  EXPECT_EQ(RingsBytes(shape), 5u * 10 * 8192 + 10 * 8192);
  shape.accumulator_mtus = 4;
  EXPECT_EQ(RingsBytes(shape), 5u * 10 * 8192 + 16 * 8192);
  shape.accumulator_mtus = 1;
  shape.has_parent = false;
  EXPECT_EQ(RingsBytes(shape), 4u * 10 * 8192 + 10 * 8192);
}

TEST(ContextMemory, IsOfThePartsOfTheMode) {
  ContextShape shape = Shape();
  EXPECT_EQ(MemoryOf(shape).bytes(), 0u) << "of no mode, or of one of a later version";
  shape.mode = Mode::kTerminated;
  EXPECT_EQ(MemoryOf(shape).bytes(), RingsBytes(shape));
  for (const Mode one_pipe : {Mode::kTranslated, Mode::kSpliced}) {
    shape.mode = one_pipe;
    const ContextMemory memory = MemoryOf(shape);
    ASSERT_EQ(memory.pipes().size(), 1u);
    EXPECT_EQ(memory.bytes(), UpPipeBytes(shape));
  }
  shape.mode = Mode::kAugmented;
  const ContextMemory memory = MemoryOf(shape);
  ASSERT_EQ(memory.pipes().size(), 2u);
  EXPECT_EQ(memory.pipes()[1].at, UpPipeBytes(shape));
  EXPECT_EQ(memory.pipes()[1].payloads_at, UpPipeBytes(shape) + 128 * 24);
  EXPECT_EQ(memory.bytes(), UpPipeBytes(shape) + PipeBytes(128, 1024));
}

TEST(ContextMemory, WithAPoolHasNoPayloadsButABufferOfItsOwn) {
  ContextShape shape = Shape();
  shape.mode = Mode::kPooled;
  const ContextMemory memory = MemoryOf(shape);
  ASSERT_EQ(memory.pipes().size(), 2u);
  for (const Pipe& pipe : memory.pipes()) EXPECT_EQ(pipe.payload_bytes, 0u);
  EXPECT_EQ(memory.own_at(), 2u * 128 * 24);
  EXPECT_EQ(memory.bytes(), memory.own_at() + 1024);
}

}  // namespace
}  // namespace epic
