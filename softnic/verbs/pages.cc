#include "softnic/verbs/pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>

#include "io/descriptor.h"

namespace epic::softnic {
namespace {

// Linux 5.14; headers of before do not have them.
constexpr int kPopulateRead = 22, kPopulateWrite = 23;  // MADV_POPULATE_READ, _WRITE

// The lines of /proc/self/maps, one by one; without memory of its own but for this.
class Maps {
 public:
  struct Range {
    uintptr_t begin = 0, end = 0;
    bool readable = false, writable = false;
  };

  Maps() : fd_(open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {}
  explicit operator bool() const { return static_cast<bool>(fd_); }

  // The next range, by address; false at the end. Of a line no more than its beginning is needed.
  bool Next(Range* out) {
    std::array<char, 64> line{};
    size_t filled = 0;
    for (int c = Byte(); c != '\n'; c = Byte()) {
      if (c < 0) return false;
      if (filled < line.size() - 1) line[filled++] = static_cast<char>(c);
    }
    unsigned long begin = 0, end = 0;
    char r = '-', w = '-';
    if (std::sscanf(line.data(), "%lx-%lx %c%c", &begin, &end, &r, &w) != 4) return false;
    *out = {begin, end, r == 'r', w == 'w'};
    return true;
  }

 private:
  // -1 at the end.
  int Byte() {
    if (next_ == filled_) {
      const ssize_t got = read(fd_.get(), buffer_.data(), buffer_.size());
      if (got <= 0) return -1;
      filled_ = static_cast<size_t>(got);
      next_ = 0;
    }
    return static_cast<unsigned char>(buffer_[next_++]);
  }

  io::Descriptor fd_;
  std::array<char, 4096> buffer_{};
  size_t next_ = 0, filled_ = 0;
};

}  // namespace

int LookUpPages(const void* begin, size_t length, bool writes) {
  Maps maps;
  if (!maps) return 0;
  auto at = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t last = at + (length - 1);
  for (Maps::Range range; maps.Next(&range);) {
    if (range.end <= at) continue;
    if (range.begin > at || !range.readable || (writes && !range.writable)) return EFAULT;
    if (last < range.end) return 0;
    at = range.end;
  }
  return EFAULT;
}

int BringInPages(const void* begin, size_t length, bool writes) {
  const int advice = writes ? kPopulateWrite : kPopulateRead;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(begin);
  void* const from = reinterpret_cast<void*>(address & ~(page - 1));
  const size_t bytes = length + (address & (page - 1));
  while (madvise(from, bytes, advice) != 0) {
    const int error = errno;
    if (error == EINTR || error == EAGAIN) continue;
    // Of no bytes, it says whether the kernel knows the advice.
    if (error == EINVAL && madvise(nullptr, 0, advice) != 0) return LookUpPages(begin, length, writes);
    // Both for what is not mapped, and when there is no memory; this fails for the former only.
    if (error == ENOMEM && msync(from, bytes, MS_ASYNC) == 0) return ENOMEM;
    return EFAULT;
  }
  return 0;
}

}  // namespace epic::softnic
