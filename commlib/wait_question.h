// What the manager says of a group's trouble, and a question to it, whom the group waits for: asked at once,
// and nobody waits for the answer.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "epic/epic.h"
#include "proto/manager.grpc.pb.h"

namespace epic::internal {

// As Communicator::Trouble.
inline std::vector<TroubleCount> TroubleOf(const proto::GroupState& group) {
  std::vector<TroubleCount> counts;
  for (const proto::TreeNode& node : group.tree()) {
    for (const proto::Counter& counter : node.trouble()) {
      if (counter.value() > 0) counts.push_back({node.switch_name(), counter.name(), counter.value()});
    }
  }
  return counts;
}

// As Communicator::Waiting.
inline WaitState WaitOf(const proto::GroupState& group) {
  if (!group.has_wait()) return {};
  const proto::CallWait& wait = group.wait();
  WaitState state{.words = wait.words(), .collective = wait.collective(), .call = wait.call()};
  state.for_time = std::chrono::milliseconds(wait.ms());
  state.ranks.assign(wait.for_ranks().begin(), wait.for_ranks().end());
  state.silent.assign(wait.silent().begin(), wait.silent().end());
  return state;
}

// Thread-safe. Not to be destroyed on one of gRPC's threads.
class WaitQuestion {
 public:
  // stub outlives this.
  WaitQuestion(proto::Manager::Stub* stub, const std::string& group, std::chrono::milliseconds timeout) {
    context_.set_deadline(std::chrono::system_clock::now() + timeout);
    request_.set_name(group);
    request_.set_recent(true);  // all ranks ask at once
    request_.set_ask_ranks(true);
    stub->async()->ShowGroup(&context_, &request_, &reply_, [this, end = end_](const grpc::Status& status) {
      const std::lock_guard lock(end->mutex);
      if (status.ok()) words_ = reply_.wait().words();
      end->done = true;
      end->changed.notify_all();
    });
  }
  // Takes the question back if it has not been answered.
  ~WaitQuestion() {
    context_.TryCancel();
    std::unique_lock lock(end_->mutex);
    end_->changed.wait(lock, [this] { return end_->done; });
  }
  WaitQuestion(const WaitQuestion&) = delete;
  WaitQuestion& operator=(const WaitQuestion&) = delete;

  bool answered() const {
    const std::lock_guard lock(end_->mutex);
    return end_->done;
  }
  // Empty also if there is no answer yet, or no call was open.
  std::string words() const {
    const std::lock_guard lock(end_->mutex);
    return end_->done ? words_ : "";
  }

 private:
  // Outlives this object, which may be given free as soon as it is done.
  struct End {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
  };
  const std::shared_ptr<End> end_ = std::make_shared<End>();
  grpc::ClientContext context_;
  proto::ShowGroupRequest request_;
  proto::GroupState reply_;
  std::string words_;
};

}  // namespace epic::internal
