#include "incagent/engine_signs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

#include "io/unix_socket.h"

namespace epic::agent {
namespace {

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
      signs.waited = std::max(
          signs.waited, WaitedSince(before->second, time, std::chrono::nanoseconds(now - looked_).count()));
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

void EngineVerdict::Failed(const EngineSigns& signs, Nanos passed, Nanos own) {
  silence_.Unheard(passed, std::max(signs.waited, own));
  if (signs.refuses || signs.replaced || silence_.IsProof(kSilence)) down_ = true;
}

}  // namespace epic::agent
