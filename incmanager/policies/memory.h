// What a group's context takes of a switch's memory, before it is installed. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "protocol/modes.h"

namespace epic::manager {

// What the bytes depend on; the names are those of GroupConfig in proto/switch.proto.
struct ContextShape {
  Mode mode = Mode::kUnspecified;
  bool reproducible = false;
  bool narrow = false;
  uint32_t path_mtu = 0;         // bytes
  uint32_t message_packets = 0;  // M
  uint32_t window_messages = 0;  // W
  uint32_t slots = 0;            // N
  uint32_t children = 0;
  bool has_parent = false;
};

// Bytes of the arena, in the pieces in which the engine gives it out (engine::ArenaBytes, rounded up; a test
// holds them equal). 0 of what is no mode, or of one that is not known here: then the switch's answer to the
// installation is the first that is known.
uint64_t ContextBytes(const ContextShape& shape);

// What the engine's arena gives for so many bytes.
uint64_t RoundUpToArena(uint64_t bytes);

// "leaf3 has 0.2 of 1.0 MiB free, 0.5 needed"; in the largest unit in which needed and free differ.
std::string MemoryWords(const std::string& switch_name, uint64_t needed, uint64_t free, uint64_t all);

// "1.5 MiB", "12.0 KiB", "640 bytes".
std::string BytesWords(uint64_t bytes);

}  // namespace epic::manager
