#include "pytorch/call_queue.h"

#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include "base/signals_blocked.h"

namespace epic::pytorch {
namespace {

// commlib takes 1024; some room for those that its own thread has not counted as ended.
constexpr size_t kMostOutstanding = 1000;
// What the end of a program waits for other ranks to end theirs.
constexpr std::chrono::seconds kLeaving(30);
// What a callback that is still running may take then.
constexpr std::chrono::seconds kCallbacks(5);

// All queues of the process whose threads have not ended. Never destroyed: threads may outlive exit().
struct Queues {
  std::mutex mutex;
  std::vector<std::shared_ptr<CallQueue>> all;
};
Queues& AllQueues() {
  static auto* const queues = new Queues;
  return *queues;
}

bool Overlap(const Span& a, const Span& b) {
  return a.begin < b.end && b.begin < a.end && (a.written || b.written);
}

}  // namespace

std::string TextOf(const Error& error) {
  std::string text = std::string(ErrorName(error.code())) + ": " + error.message();
  if (error.code() == ErrorCode::kMismatch && text.find("another collective") != std::string::npos) {
    text += "; a rank that leaves its group calls Barrier";
  }
  return text;
}

std::shared_ptr<CallQueue> CallQueue::Join(const Options& options, Refusal* refusal) {
  std::shared_ptr<CallQueue> queue(new CallQueue);
  if (const Error error = queue->comm_.Init(options); !error.ok()) {
    *refusal = {TextOf(error), error.code() == ErrorCode::kJoinTimeout};
    return nullptr;
  }
  queue->timeout_ = options.timeout;
  queue->AddThread();
  Queues& queues = AllQueues();
  const std::lock_guard lock(queues.mutex);
  std::erase_if(queues.all, [](const auto& old) { return old->WaitLeft({}); });
  queues.all.push_back(queue);
  return queue;
}

CallQueue::~CallQueue() {
  for (std::thread& thread : threads_) thread.join();
}

void CallQueue::AddThread() {
  const SignalsBlocked blocked;
  threads_.emplace_back([this] { Run(); });
}

void CallQueue::HandOnEnding() {
  if (ender_ != std::this_thread::get_id()) return;
  if (idle_ == 0) AddThread();
  ender_ = {};
  ++in_callbacks_;
  changed_.notify_all();
}

bool CallQueue::Start(QueuedCall call) {
  std::unique_lock lock(mutex_);
  const auto can_go = [&] {
    return leaving_ || (calls_.size() < kMostOutstanding && !SharesMemory(call.spans));
  };
  HandOnEnding();
  changed_.wait(lock, can_go);
  if (leaving_) throw std::runtime_error("EPIC: the group has been left");
  Outstanding outstanding;
  const bool has_timeout = call.timeout.count() > 0;
  if (has_timeout) comm_.SetTimeout(call.timeout);
  // Also if it throws, as for lack of memory for a copy.
  const auto back = c10::make_scope_exit([&] {
    if (has_timeout) comm_.SetTimeout(timeout_);
  });
  const Error error = call.post(comm_, &outstanding.request);
  if (error.code() == ErrorCode::kUnsupported && comm_.AsyncError().ok()) return false;
  if (!error.ok()) throw std::runtime_error("EPIC: " + TextOf(error));
  outstanding.call = std::move(call);
  calls_.push_back(std::move(outstanding));
  changed_.notify_all();
  return true;
}

void CallQueue::SetQuantise(bool on) {
  const std::lock_guard lock(mutex_);
  comm_.SetQuantise(on);
}

bool CallQueue::SharesMemory(const std::vector<Span>& spans) const {
  for (const Outstanding& outstanding : calls_) {
    for (const Span& theirs : outstanding.call.spans) {
      for (const Span& ours : spans) {
        if (Overlap(theirs, ours)) return true;
      }
    }
  }
  return false;
}

void CallQueue::Run() {
  const std::thread::id own = std::this_thread::get_id();
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    changed_.wait(lock, [this] { return left_ || ender_ == std::thread::id(); });
    --idle_;
    if (left_) return;
    ender_ = own;
    bool more = true;
    while (more && ender_ == own) more = EndOldest(&lock);
    if (!more) break;
    --in_callbacks_;
    changed_.notify_all();
  }
  lock.unlock();
  LeaveGroup();
  lock.lock();
  changed_.wait(lock, [this] { return in_callbacks_ == 0; });
  left_ = true;
  changed_.notify_all();
}

bool CallQueue::EndOldest(std::unique_lock<std::mutex>* lock) {
  changed_.wait(*lock, [this] { return leaving_ || !calls_.empty(); });
  if (calls_.empty()) return false;
  // Others only add calls behind it.
  Outstanding& oldest = calls_.front();
  lock->unlock();
  std::exception_ptr failure;
  try {
    if (const Error error = oldest.request.Wait(); !error.ok()) {
      throw std::runtime_error("EPIC: " + TextOf(error));
    }
    if (oldest.call.finish) oldest.call.finish();
  } catch (...) {
    failure = std::current_exception();
  }
  lock->lock();
  {
    const Outstanding ended = std::move(calls_.front());
    calls_.pop_front();
    changed_.notify_all();
    lock->unlock();
    ended.call.work->Complete(failure);
  }
  lock->lock();
  return true;
}

void CallQueue::LeaveGroup() {
  // Destroy ends what others still do when its time is over, so it is called when all ranks are here. Abort,
  // or a rank that is lost, ends this.
  Request all_are_here;
  if (comm_.size() > 1 && BarrierAsync(comm_, &all_are_here).ok()) (void)all_are_here.Wait();
  {
    const std::lock_guard lock(mutex_);
    destroying_ = true;
  }
  comm_.SetTimeout(kLeaving);
  // What has ended the group was told to those who waited for a call.
  (void)comm_.Destroy();
}

void CallQueue::Abort(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!destroying_) comm_.Abort(reason);
}

PathTaken CallQueue::Path(const std::function<PathTaken(const Communicator&)>& ask) {
  const std::lock_guard lock(mutex_);
  return destroying_ ? PathTaken() : ask(comm_);
}

void CallQueue::Leave() {
  const std::lock_guard lock(mutex_);
  leaving_ = true;
  changed_.notify_all();
}

bool CallQueue::WaitLeft(std::chrono::steady_clock::time_point until) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, until, [this] { return left_; });
}

void CallQueue::LeaveAll(const std::string& reason) {
  Queues& queues = AllQueues();
  std::vector<std::shared_ptr<CallQueue>> all;
  {
    const std::lock_guard lock(queues.mutex);
    all = queues.all;
  }
  for (const auto& queue : all) {
    if (!reason.empty()) queue->Abort(reason);
    queue->Leave();
  }
  const auto deadline = std::chrono::steady_clock::now() + kLeaving;
  for (const auto& queue : all) {
    if (!queue->WaitLeft(deadline))
      queue->Abort("a rank's program has ended before others have left the group");
  }
  // One whose callback never returns stays in the list, and so is never joined.
  const auto last = std::chrono::steady_clock::now() + kCallbacks;
  const std::lock_guard lock(queues.mutex);
  std::erase_if(queues.all, [last](const auto& queue) { return queue->WaitLeft(last); });
}

}  // namespace epic::pytorch
