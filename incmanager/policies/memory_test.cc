#include "incmanager/policies/memory.h"

#include <gtest/gtest.h>

#include <array>

#include "incengine/modes/table.h"
#include "incengine/state/arena.h"

namespace epic::manager {
namespace {

// Of every mode and of all that the bytes depend on: what an engine would take.
TEST(ContextBytes, AreThoseThatTheEngineTakes) {
  int compared = 0;
  for (const Mode mode : AllModes()) {
    for (const uint32_t mtu : {256u, 1024u, 4096u}) {
      for (const auto& [m, w, n] :
           {std::array{1u, 1u, 2u}, {8u, 8u, 128u}, {3u, 5u, 32u}, {1u, 300u, 1024u}}) {
        for (const uint32_t children : {1u, 2u, 7u, 64u}) {
          for (const uint32_t flags : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 13u}) {
            const ContextShape shape{.mode = mode,
                                     .reproducible = (flags & 1) != 0,
                                     .accumulator_mtus = (flags & 8) != 0   ? 4u
                                                         : (flags & 2) != 0 ? 1u
                                                                            : 2u,
                                     .path_mtu = mtu,
                                     .message_packets = m,
                                     .window_messages = w,
                                     .slots = n,
                                     .children = children,
                                     .has_parent = (flags & 4) != 0};
            engine::GroupConfig config;
            config.mode = mode;
            config.path_mtu = mtu;
            config.message_packets = m;
            config.window_messages = w;
            config.slots = n;
            config.reproducible = shape.reproducible;
            config.accumulator_mtus = shape.accumulator_mtus;
            config.children.resize(children);
            if (shape.has_parent) config.parent.emplace();
            ASSERT_EQ(ContextBytes(shape), engine::Arena::RoundUp(engine::ArenaBytes(config)))
                << "mode " << NumberOf(mode) << " U " << mtu << " M " << m << " W " << w << " N " << n
                << " children " << children << " flags " << flags;
            ++compared;
          }
        }
      }
    }
  }
  EXPECT_EQ(compared, kModes.size() * 3 * 4 * 4 * 10);
  EXPECT_EQ(ContextBytes({.mode = Mode::kUnspecified, .path_mtu = 1024, .slots = 2}), 0U);
}

// Whose address a switch bears takes no byte of its arena.
TEST(ContextBytes, OfASplicedGroupAreThoseOfATranslatedOne) {
  for (const uint32_t flags : {0u, 1u, 2u, 3u}) {
    ContextShape shape{.mode = Mode::kTranslated,
                       .reproducible = (flags & 1) != 0,
                       .path_mtu = 1024,
                       .message_packets = 8,
                       .window_messages = 8,
                       .slots = 128,
                       .children = 4,
                       .has_parent = (flags & 2) != 0};
    const uint64_t translated = ContextBytes(shape);
    shape.mode = Mode::kSpliced;
    EXPECT_EQ(ContextBytes(shape), translated) << "flags " << flags;
    EXPECT_NE(translated, 0U);
  }
}

TEST(MemoryWords, AreInTheLargestUnitThatTellsWhyItIsTooLittle) {
  EXPECT_EQ(MemoryWords("leaf3", 524288, 209715, 1048576), "leaf3 has 0.2 of 1.0 MiB free, 0.5 needed");
  EXPECT_EQ(MemoryWords("leaf3", 139264, 65536, 65536), "leaf3 has 64.0 of 64.0 KiB free, 136.0 needed");
  EXPECT_EQ(MemoryWords("leaf3", 600, 500, 1000), "leaf3 has 500 of 1000 bytes free, 600 needed");
  EXPECT_EQ(BytesWords(1572864), "1.5 MiB");
  EXPECT_EQ(BytesWords(12288), "12.0 KiB");
  EXPECT_EQ(BytesWords(640), "640 bytes");
}

}  // namespace
}  // namespace epic::manager
