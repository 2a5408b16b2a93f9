// What a child of fork may not touch.
#pragma once

#include <cstdint>

namespace epic {

// How many of the processes between this one and the first that had the library have asked, this one
// included; what was opened at another count is an ancestor's, as is the thread that makes its progress and
// perhaps one that holds its lock. Every child that has memory of its own counts, also one that is made past
// the C library; where the kernel cannot tell (before Linux 4.14), fork() and what is made of it.
uint32_t ForkDepth();

// Whether forks are counted at all: there may have been no memory for it.
bool CountsForks();

}  // namespace epic
