// Whether an engine that has not answered a call is down, or only slow: by what is to be seen of its socket
// and its process (docs/PROTOCOL-CONTROL.md, section 7.1). One failed call proves nothing.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>

#include "base/silence.h"
#include "base/thread_time.h"
#include "base/types.h"

namespace epic::agent {

// What is seen of an engine between two looks at it.
struct EngineSigns {
  bool refuses = false;   // its socket: nobody listens there
  bool replaced = false;  // another process does now: the one before is gone
  // How long a thread of it has waited for a processor: the one that waited longest.
  Nanos waited = 0;
};

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

// The verdict on an engine, call by call.
class EngineVerdict {
 public:
  // Silent for so long, without what it or its caller waited for a processor, the engine is down: it hangs, or is stopped.
  static constexpr Nanos kSilence = 8 * kSecond;
  // And after so long whatever has waited: one of its threads may hang while another one waits.
  static constexpr std::chrono::milliseconds kLongest{kLongestSilence / kMillisecond};
  // As long a pause and a call take at most: if more has passed, the caller itself stood still, whether its kernel knows of it
  // (a virtual machine's does not) or not.
  static constexpr Nanos kMostPerCall = 2 * kSecond;

  void Answered() { *this = {}; }
  // A call has failed. `passed`: since the last call ended, or was answered; of that the caller itself waited for a processor for
  // `own`. `signs` are of the same time.
  void Failed(const EngineSigns& signs, Nanos passed, Nanos own);

  // Else it is slow, or answers.
  bool down() const { return down_; }

 private:
  Silence silence_{kMostPerCall};
  bool down_ = false;
};

}  // namespace epic::agent
