// How daemons are ended: by SIGTERM or SIGINT, which one thread waits for.
#pragma once

#include <chrono>
#include <csignal>
#include <ctime>

namespace epic {

// To be made before any thread starts: from then on both signals are blocked, so that only Wait sees them.
class EndSignals {
 public:
  EndSignals() {
    sigemptyset(&ends_);
    sigaddset(&ends_, SIGTERM);
    sigaddset(&ends_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ends_, nullptr);
  }

  // Returns the signal that has come.
  int Wait() const {
    int signal = 0;
    sigwait(&ends_, &signal);
    return signal;
  }
  // The same; 0 if none has come within this time.
  int WaitFor(std::chrono::milliseconds time) const {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
    const timespec wait{seconds.count(), std::chrono::nanoseconds(time - seconds).count()};
    const int signal = sigtimedwait(&ends_, nullptr, &wait);
    return signal > 0 ? signal : 0;
  }

 private:
  sigset_t ends_;
};

}  // namespace epic
