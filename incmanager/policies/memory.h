// What a group's context takes of a switch's memory, before it is installed. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "protocol/context_memory.h"

namespace epic::manager {

// Bytes of the arena, in the pieces in which the engine gives it out (engine::ArenaBytes, rounded up; a test
// holds them equal for every mode). 0 of what is no mode, or of one that is not known here: then the switch's
// answer to the installation is the first that is known.
uint64_t ContextBytes(const ContextShape& shape);

// "leaf3 has 0.2 of 1.0 MiB free, 0.5 needed"; in the largest unit in which needed and free differ.
std::string MemoryWords(const std::string& switch_name, uint64_t needed, uint64_t free, uint64_t all);

// "1.5 MiB", "12.0 KiB", "640 bytes".
std::string BytesWords(uint64_t bytes);

}  // namespace epic::manager
