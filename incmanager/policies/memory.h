// What a switch's memory has, in words for people.
#pragma once

#include <cstdint>
#include <string>

namespace epic::manager {

// "leaf3 has 0.2 of 1.0 MiB free, 0.5 needed"; in the largest unit in which needed and free differ.
std::string MemoryWords(const std::string& switch_name, uint64_t needed, uint64_t free, uint64_t all);

// "1.5 MiB", "12.0 KiB", "640 bytes".
std::string BytesWords(uint64_t bytes);

}  // namespace epic::manager
