// Questions of one kind about groups, to switches or to ranks, shared by all who ask them at about the same
// time: at a deadline all ranks of a group ask at once.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace epic::manager {

// Whom: who is asked, as an ordered value. Reply: a message. Thread-safe. An answer may come after this object
// is gone.
template <typename Whom, typename Reply>
class SharedQuestions {
 public:
  using Answer = std::function<void(const StatusOr<Reply>&)>;
  // Asks one for a group. Calls the answer once, on any thread, also at once.
  using Ask = std::function<void(const Whom& whom, Answer answer)>;

  // For whom recent ones will do an answer is good for so long.
  static constexpr Nanos kGoodFor = 200 * kMillisecond;

  // now: the time, for how old an answer is.
  explicit SharedQuestions(std::function<Nanos()> now) : now_(std::move(now)) {}

  // What these say of the group. One is asked unless a question to it is under way, or `recent` ones will do
  // and its last answer is still good. Blocks until all have answered, or `until`: then without the others, and
  // without those that have answered by an error.
  std::map<Whom, Reply> Of(uint64_t group_id, const std::vector<Whom>& asked, bool recent, const Ask& ask,
                           std::chrono::steady_clock::time_point until) {
    std::map<Whom, std::shared_ptr<Question>> mine;
    std::vector<Whom> to_ask;
    std::unique_lock lock(shared_->mutex);
    std::erase_if(questions_, [now = now_()](const auto& entry) {
      return entry.second->answered && now - entry.second->at > kGoodFor;
    });
    for (const Whom& whom : asked) {
      std::shared_ptr<Question>& question = questions_[{group_id, whom}];
      if (question == nullptr || (question->answered && !recent)) {
        question = std::make_shared<Question>();
        to_ask.push_back(whom);
      }
      mine[whom] = question;
    }
    lock.unlock();
    for (const Whom& whom : to_ask) {
      ask(whom, [shared = shared_, question = mine[whom], now = now_](const StatusOr<Reply>& reply) {
        const std::lock_guard answered(shared->mutex);
        question->reply = reply;
        question->at = now();
        question->answered = true;
        shared->changed.notify_all();
      });
    }
    lock.lock();
    shared_->changed.wait_until(lock, until, [&mine] {
      return std::ranges::all_of(mine, [](const auto& entry) { return entry.second->answered; });
    });
    std::map<Whom, Reply> replies;
    for (const auto& [whom, question] : mine) {
      if (question->answered && question->reply.ok()) replies[whom] = *question->reply;
    }
    return replies;
  }

 private:
  struct Question {
    bool answered = false;
    Nanos at = 0;  // when it was
    StatusOr<Reply> reply = Reply();
  };
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
  };

  const std::function<Nanos()> now_;
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();  // its mutex guards the questions
  // By group and who is asked: under way, or answered lately.
  std::map<std::pair<uint64_t, Whom>, std::shared_ptr<Question>> questions_;
};

}  // namespace epic::manager
