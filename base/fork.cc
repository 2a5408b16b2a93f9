#include "base/fork.h"

#include <pthread.h>

#include <atomic>

namespace epic {
namespace {

std::atomic<uint32_t> depth = 0;

// When the library is loaded, before anything can be opened.
const bool counts =
    pthread_atfork(nullptr, nullptr, [] { depth.fetch_add(1, std::memory_order_relaxed); }) == 0;

}  // namespace

uint32_t ForkDepth() { return depth.load(std::memory_order_relaxed); }

bool CountsForks() { return counts; }

}  // namespace epic
