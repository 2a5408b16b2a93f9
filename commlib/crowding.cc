#include "commlib/crowding.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>

namespace epic::internal {
namespace {

constexpr Nanos kLookEvery = 50 * kMicrosecond;
// Longer than small calls take, so that not each of them pays for a look.
constexpr Nanos kLookEveryCrowded = kMillisecond;

}  // namespace

std::optional<int> RunnableThreads(std::string_view loadavg) {
  for (int field = 0; field < 3; ++field) {
    const size_t space = loadavg.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    loadavg.remove_prefix(space + 1);
  }
  int runnable = 0;
  const char* const end = loadavg.data() + loadavg.size();
  const auto [rest, error] = std::from_chars(loadavg.data(), end, runnable);
  if (error != std::errc() || rest == end || *rest != '/' || runnable < 0) return std::nullopt;
  return runnable;
}

// The kernel counts the whole machine's threads, so all its processors are compared, not those allowed.
Crowding::Crowding()
    : fd_(open("/proc/loadavg", O_RDONLY | O_CLOEXEC)),
      processors_(static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN))) {}

Crowding::~Crowding() {
  if (fd_ >= 0) close(fd_);
}

bool Crowding::IsCrowded(Nanos now) {
  if (fd_ < 0 || now < look_at_) return crowded_;
  std::array<char, 64> text;
  const ssize_t bytes = pread(fd_, text.data(), text.size(), 0);
  const auto runnable = RunnableThreads({text.data(), bytes > 0 ? static_cast<size_t>(bytes) : 0});
  crowded_ = runnable.value_or(0) > processors_;
  look_at_ = now + (crowded_ ? kLookEveryCrowded : kLookEvery);
  return crowded_;
}

}  // namespace epic::internal
