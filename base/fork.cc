#include "base/fork.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <new>

namespace epic {
namespace {

// What a process knows of itself.
constexpr uint32_t kNewChild = 0, kCounting = 1, kCounted = 2;

// A word in a page that the kernel clears in every child with memory of its own, however it was made
// (MADV_WIPEONFORK, Linux 4.14). Null if that cannot be had.
std::atomic<uint32_t>* MakeMark() {
  const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  if (madvise(page, bytes, MADV_WIPEONFORK) != 0) {
    munmap(page, bytes);
    return nullptr;
  }
  return new (page) std::atomic<uint32_t>(kCounted);
}

std::atomic<uint32_t> depth = 0;

// When the library is loaded, before anything can be opened. Without the mark the C library tells.
std::atomic<uint32_t>* const mark = MakeMark();
const bool counts = mark != nullptr || pthread_atfork(nullptr, nullptr, [] {
                                         depth.fetch_add(1, std::memory_order_relaxed);
                                       }) == 0;

// The first thread of a child that asks counts; others that ask meanwhile wait for that one addition.
void CountChild() {
  uint32_t seen = kNewChild;
  if (mark->compare_exchange_strong(seen, kCounting, std::memory_order_acquire)) {
    depth.fetch_add(1, std::memory_order_relaxed);
    mark->store(kCounted, std::memory_order_release);
  }
  while (mark->load(std::memory_order_acquire) == kCounting) {
  }
}

}  // namespace

uint32_t ForkDepth() {
  if (mark != nullptr && mark->load(std::memory_order_acquire) != kCounted) CountChild();
  return depth.load(std::memory_order_relaxed);
}

bool CountsForks() { return counts; }

}  // namespace epic
