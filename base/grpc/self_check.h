// Whether a daemon still answers who connects to it: it asks itself. One that is deaf is better ended, and
// started again by whoever started it, than running where nobody can reach it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "base/grpc/acceptor.h"
#include "base/types.h"

namespace epic {

// For how long nobody has answered. Slow is not deaf: only time counts in which this process itself had a
// processor when it wanted one, so that one that was stopped, or is kept from running, is not judged.
class Deafness {
 public:
  // Nobody takes so long who is to answer in milliseconds: six connections, one after the other.
  static constexpr Nanos kDeafAfter = 60 * kSecond;

  explicit Deafness(Nanos after = kDeafAfter) : after_(after) {}

  void OnAnswer() { silent_ = 0; }
  // A wait for an answer, in vain, that was to take `asked` and took `took`.
  void OnSilence(Nanos asked, Nanos took) {
    if (took <= asked + asked / 2) silent_ += asked;
  }
  bool IsDeaf() const { return silent_ >= after_; }

 private:
  const Nanos after_;
  Nanos silent_ = 0;
};

class SelfCheck {
 public:
  struct Times {
    std::chrono::milliseconds between{10'000};  // from one connection to the next
    std::chrono::milliseconds patience{10'000};  // of one
    Nanos deaf_after = Deafness::kDeafAfter;
  };

  // Connects to the acceptor's address, now and then, on a thread of its own. acceptor outlives this, and has
  // been started. deaf: called on that thread, once, with a line for people; it need not return.
  SelfCheck(Acceptor* acceptor, std::function<void(const std::string& why)> deaf)
      : SelfCheck(acceptor, std::move(deaf), Times{}) {}
  SelfCheck(Acceptor* acceptor, std::function<void(const std::string& why)> deaf, const Times& times);
  ~SelfCheck();
  SelfCheck(const SelfCheck&) = delete;
  SelfCheck& operator=(const SelfCheck&) = delete;

  // How often somebody has answered so far.
  uint64_t answers() const { return answers_; }

 private:
  enum class Answer : uint8_t { kYes, kNo, kNotAsked };  // the last: this process could not connect

  void Loop();
  Answer Ask();
  bool Wait(int fd, short events, Nanos until);
  bool Stopped();

  Acceptor* const acceptor_;
  const std::function<void(const std::string& why)> deaf_;
  const Times times_;
  Deafness deafness_;
  std::atomic<uint64_t> answers_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace epic
