// Whether an engine that has not answered a call is down, or only slow: by what is to be seen of its socket
// and its process (docs/PROTOCOL-CONTROL.md, section 7.1). One failed call proves nothing.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace epic::agent {

// What is seen of an engine between two looks at it.
struct EngineSigns {
  bool refuses = false;   // its socket: nobody listens there
  bool replaced = false;  // another process does now: the one before is gone
  // How long a thread of it has waited for a processor: the one that waited longest.
  std::chrono::nanoseconds waited{0};
};

// What a thread has had of processors, by /proc/PID/task/TID.
struct ThreadTime {
  uint64_t ran_ns = 0;
  uint64_t waited_ns = 0;  // until it last ran: the kernel adds a wait when it ends
  bool runnable = false;
};

// Of the thread with this folder (/proc/PID/task/TID). Nothing if it has ended, be it while it is looked at.
std::optional<ThreadTime> TimeOf(const std::string& folder);

// How long a thread has waited for a processor since `before`, which was `passed` ago. One that is runnable and has not run has
// waited all the time.
std::chrono::nanoseconds WaitedSince(const ThreadTime& before, const ThreadTime& now,
                                     std::chrono::nanoseconds passed);

// Looks at the engine that listens at a Unix socket of this machine. Not thread-safe.
class EngineWatch {
 public:
  explicit EngineWatch(std::string socket_path) : socket_path_(std::move(socket_path)) {}

  // Since the last look, or since there was such a process. Waits for nothing. Of a process that may not be looked at (that of
  // another user, where /proc is hidden) `waited` is 0.
  EngineSigns Look();
  // It has answered: what its threads waited counts from now on. Connects to nothing.
  void Answered();

 private:
  const std::string socket_path_;
  pid_t process_ = 0;
  std::map<pid_t, ThreadTime> threads_;
  std::chrono::steady_clock::time_point looked_{};
};

// How long the calling thread has waited for a processor since it began; 0 where the kernel does not say.
std::chrono::nanoseconds OwnWait();

// The verdict on an engine, call by call.
class EngineVerdict {
 public:
  // Silent for so long, without what it or its caller waited for a processor, the engine is down: it hangs, or is stopped.
  static constexpr std::chrono::milliseconds kSilence{8000};
  // And after so long whatever has waited: one of its threads may hang while another one waits.
  static constexpr std::chrono::milliseconds kLongest{30'000};
  // As long a pause and a call take at most: if more has passed, the caller itself stood still, whether its kernel knows of it
  // (a virtual machine's does not) or not.
  static constexpr std::chrono::milliseconds kMostPerCall{2'000};

  void Answered() { *this = {}; }
  // A call has failed. `passed`: since the last call ended, or was answered; of that the caller itself waited for a processor for
  // `own`. `signs` are of the same time.
  void Failed(const EngineSigns& signs, std::chrono::nanoseconds passed, std::chrono::nanoseconds own);

  // Else it is slow, or answers.
  bool down() const { return down_; }

 private:
  std::chrono::nanoseconds unanswered_{0};
  std::chrono::nanoseconds silent_{0};
  bool down_ = false;
};

}  // namespace epic::agent
