#include "incagent/engine_signs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "io/unix_socket.h"

namespace epic::agent {
namespace {

using std::chrono::nanoseconds;

// Empty where it cannot be read. Between open and read a thread may end, and then read says so: an iterator over the buffer
// would throw, getline does not.
std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text, '\0');
  return text;
}

std::map<pid_t, ThreadTime> ThreadsOf(pid_t process) {
  std::map<pid_t, ThreadTime> threads;
  std::error_code error;
  const std::string folder = fmt::format("/proc/{}/task", process);
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (const auto time = TimeOf(entry->path().string())) threads[std::atoi(name.c_str())] = *time;
  }
  return threads;
}

}  // namespace

// By proc(5): "RAN WAITED TIMES" in schedstat, and the state behind the name, in brackets, in stat.
std::optional<ThreadTime> TimeOf(const std::string& folder) {
  ThreadTime time;
  const std::string schedstat = Read(folder + "/schedstat"), stat = Read(folder + "/stat");
  const size_t name = stat.rfind(") ");
  if (schedstat.empty() || name == std::string::npos || name + 2 >= stat.size()) return std::nullopt;
  char* rest = nullptr;
  time.ran_ns = std::strtoull(schedstat.c_str(), &rest, 10);
  time.waited_ns = std::strtoull(rest, nullptr, 10);
  const char state = stat[name + 2];
  if (state == 'Z' || state == 'X') return std::nullopt;  // it has ended
  time.runnable = state == 'R';
  return time;
}

nanoseconds WaitedSince(const ThreadTime& before, const ThreadTime& now, nanoseconds passed) {
  if (now.runnable && now.ran_ns == before.ran_ns) return passed;
  return std::min(passed, nanoseconds(now.waited_ns - before.waited_ns));
}

EngineSigns EngineWatch::Look() {
  EngineSigns signs;
  const auto now = std::chrono::steady_clock::now();
  const std::optional<pid_t> process = io::ListenerAt(socket_path_);
  signs.refuses = !process;
  signs.replaced = process && *process > 0 && process_ > 0 && *process != process_;
  std::map<pid_t, ThreadTime> threads;
  if (process && *process > 0) threads = ThreadsOf(*process);
  if (process && *process == process_) {
    for (const auto& [thread, time] : threads) {
      const auto before = threads_.find(thread);
      if (before == threads_.end()) continue;
      signs.waited = std::max(signs.waited, WaitedSince(before->second, time, now - looked_));
    }
  }
  process_ = process.value_or(0);
  threads_ = std::move(threads);
  looked_ = now;
  return signs;
}

void EngineWatch::Answered() {
  looked_ = std::chrono::steady_clock::now();
  threads_ = process_ > 0 ? ThreadsOf(process_) : std::map<pid_t, ThreadTime>();
  if (threads_.empty()) process_ = 0;  // another one has answered; the next look finds it
}

nanoseconds OwnWait() {
  const auto time = TimeOf("/proc/thread-self");
  return time ? nanoseconds(time->waited_ns) : nanoseconds(0);
}

void EngineVerdict::Failed(const EngineSigns& signs, nanoseconds passed, nanoseconds own) {
  unanswered_ += std::min<nanoseconds>(passed, kMostPerCall);
  silent_ += std::clamp<nanoseconds>(passed - std::max(signs.waited, own), nanoseconds(0), kMostPerCall);
  if (signs.refuses || signs.replaced || silent_ >= kSilence || unanswered_ >= kLongest) down_ = true;
}

}  // namespace epic::agent
