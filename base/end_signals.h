// How daemons are ended: by SIGTERM or SIGINT, which one thread waits for.
#pragma once

#include <csignal>

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

 private:
  sigset_t ends_;
};

}  // namespace epic
