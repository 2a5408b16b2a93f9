#include "incmanager/rpc/shared_dumps.h"

#include <algorithm>

namespace epic::manager {

std::map<std::string, proto::DumpReply> SharedDumps::Of(uint64_t group_id,
                                                        const std::vector<std::string>& switches, bool recent,
                                                        const Ask& ask,
                                                        std::chrono::steady_clock::time_point until) {
  std::map<std::string, std::shared_ptr<Question>> mine;
  std::vector<std::string> to_ask;
  std::unique_lock lock(shared_->mutex);
  std::erase_if(questions_, [now = now_()](const auto& entry) {
    return entry.second->answered && now - entry.second->at > kGoodFor;
  });
  for (const std::string& name : switches) {
    std::shared_ptr<Question>& question = questions_[{group_id, name}];
    if (question == nullptr || (question->answered && !recent)) {
      question = std::make_shared<Question>();
      to_ask.push_back(name);
    }
    mine[name] = question;
  }
  lock.unlock();
  for (const std::string& name : to_ask) {
    ask(name, [shared = shared_, question = mine[name], now = now_](const StatusOr<proto::DumpReply>& reply) {
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
  std::map<std::string, proto::DumpReply> dumps;
  for (const auto& [name, question] : mine) {
    if (question->answered && question->reply.ok()) dumps[name] = *question->reply;
  }
  return dumps;
}

}  // namespace epic::manager
