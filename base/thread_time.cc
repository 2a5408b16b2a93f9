#include "base/thread_time.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>

namespace epic {
namespace {

// Empty where it cannot be read. Between open and read a thread may end, and then read says so: an iterator over the buffer
// would throw, getline does not.
std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text, '\0');
  return text;
}

// Of "RAN WAITED TIMES".
uint64_t WaitedOf(const char* schedstat, uint64_t* ran) {
  char* rest = nullptr;
  *ran = std::strtoull(schedstat, &rest, 10);
  return std::strtoull(rest, nullptr, 10);
}

}  // namespace

// The state is behind the name in brackets, in stat.
std::optional<ThreadTime> TimeOf(const std::string& folder) {
  ThreadTime time;
  const std::string schedstat = Read(folder + "/schedstat"), stat = Read(folder + "/stat");
  const size_t name = stat.rfind(") ");
  if (schedstat.empty() || name == std::string::npos || name + 2 >= stat.size()) return std::nullopt;
  time.waited_ns = WaitedOf(schedstat.c_str(), &time.ran_ns);
  const char state = stat[name + 2];
  if (state == 'Z' || state == 'X') return std::nullopt;  // it has ended
  time.runnable = state == 'R';
  return time;
}

Nanos WaitedSince(const ThreadTime& before, const ThreadTime& now, Nanos passed) {
  if (now.runnable && now.ran_ns == before.ran_ns) return passed;
  return std::min(passed, static_cast<Nanos>(now.waited_ns - before.waited_ns));
}

Nanos OwnWait() {
  const int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  std::array<char, 128> text{};
  const ssize_t length = read(fd, text.data(), text.size() - 1);
  close(fd);
  uint64_t ran = 0;
  return length > 0 ? static_cast<Nanos>(WaitedOf(text.data(), &ran)) : 0;
}

}  // namespace epic
