// What a child of fork may not touch.
#pragma once

#include <cstdint>

namespace epic {

// How many forks lie between this process and the first one that had the library; what was opened at another
// count is an ancestor's, as is the thread that makes its progress and perhaps one that holds its lock.
// Counts fork(), and what is made of it, but not system calls past the C library.
uint32_t ForkDepth();

// Whether forks are counted at all: the C library may have had no memory for it.
bool CountsForks();

}  // namespace epic
