#include "incengine/modes/table.h"

#include <gtest/gtest.h>

#include <array>

namespace epic::engine {
namespace {

GroupConfig Config(Mode mode, uint32_t slots, bool reproducible) {
  GroupConfig config{{.mode = mode, .path_mtu = 256, .slots = slots, .reproducible = reproducible}};
  config.children.resize(3);
  return config;
}

TEST(ModeTable, EveryModeHasItsRowAndNothingElseHas) {
  for (const Mode mode : AllModes()) {
    ASSERT_NE(FindRow(mode), nullptr) << NumeralOf(mode);
    EXPECT_EQ(FindRow(mode)->mode, mode);
  }
  for (const Mode none : {Mode::kUnspecified, Mode{99}, Mode{255}}) EXPECT_EQ(FindRow(none), nullptr);
}

TEST(ModeTable, PipesLieOneBehindTheOtherInTheGroupsRegion) {
  for (const Mode mode : AllModes()) {
    for (const bool reproducible : {false, true}) {
      for (const uint32_t slots : {2u, 64u}) {
        const GroupConfig config = Config(mode, slots, reproducible);
        const ContextMemory memory = MemoryOf(config);
        EXPECT_EQ(ArenaBytes(config), memory.bytes());
        size_t end = 0;
        for (const Pipe& pipe : memory.pipes()) {
          EXPECT_GE(pipe.at, end) << NumeralOf(mode);
          EXPECT_GE(pipe.payloads_at, pipe.at + slots * sizeof(Slot)) << NumeralOf(mode);
          end = pipe.payloads_at + slots * pipe.payload_bytes;
        }
        EXPECT_LE(end, memory.bytes()) << NumeralOf(mode);
      }
    }
  }
}

// Of 4,096 bytes of payload, 64 packets in flight or one, and two children: the table of docs/DEPLOY.md,
// "Memory to fit".
TEST(ModeTable, AGroupTakesWhatItHasNotSaidItDoesWithout) {
  const auto bytes = [](Mode mode, uint32_t mtus, bool small) {
    GroupConfig config{{.mode = mode,
                        .path_mtu = 4096,
                        .message_packets = small ? 1u : 8u,
                        .window_messages = small ? 1u : 8u,
                        .slots = small ? 2u : 128u,
                        .accumulator_mtus = mtus}};
    config.children.resize(2);
    return ArenaBytes(config);
  };
  const auto row = [&bytes](Mode mode) {
    return std::array{bytes(mode, 2, false), bytes(mode, 1, false), bytes(mode, 2, true),
                      bytes(mode, 1, true), bytes(mode, 4, false)};
  };
  using Row = std::array<size_t, 5>;
  EXPECT_EQ(row(Mode::kTerminated), (Row{1048576, 983040, 45056, 36864, 1179648}));
  EXPECT_EQ(row(Mode::kTranslated), (Row{1051648, 527360, 16448, 8256, 2100224}));
  EXPECT_EQ(row(Mode::kAugmented), (Row{1579008, 1054720, 24704, 16512, 2627584}));
}

// The modules look for the up pipe at the beginning and for the down pipe behind it.
TEST(ModeTable, MemoryIsWhereTheModulesLookForIt) {
  const auto of = [](Mode mode) { return Config(mode, 8, true); };
  const ContextMemory one = MemoryOf(of(Mode::kTerminated));
  EXPECT_TRUE(one.pipes().empty());
  EXPECT_EQ(one.bytes(), RingsBytes(ShapeOf(of(Mode::kTerminated))));

  // Mode I's rings, and one for what is read of each child.
  const ContextShape six = ShapeOf(of(Mode::kInitiated));
  EXPECT_EQ(MemoryOf(six).bytes(), RingsBytes(six) + 3 * ReadRingBytes(six));
  EXPECT_TRUE(MemoryOf(of(Mode::kInitiated)).bytes() > one.bytes());

  const GroupConfig two_config = of(Mode::kTranslated);
  const ContextMemory two = MemoryOf(two_config);
  ASSERT_EQ(two.pipes().size(), 1u);
  EXPECT_EQ(two.pipes()[0].payload_bytes, SlotPayloadBytes(two_config));
  EXPECT_EQ(two.bytes(), UpPipeBytes(two_config));

  const GroupConfig three_config = of(Mode::kAugmented);
  const ContextMemory three = MemoryOf(three_config);
  ASSERT_EQ(three.pipes().size(), 2u);
  EXPECT_EQ(three.pipes()[0].at, 0u);
  EXPECT_EQ(three.pipes()[1].at, UpPipeBytes(three_config));
  EXPECT_EQ(three.pipes()[1].payload_bytes, 256u);
}

}  // namespace
}  // namespace epic::engine
