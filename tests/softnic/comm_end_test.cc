// How a communicator ends beside others of its process: the host library on softnic in virtual time, with a
// manager in this process (local_manager_testing.h). Also under ThreadSanitizer.
#include <infiniband/verbs.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/softnic/local_ranks_testing.h"

namespace {

// A NIC that is gone: its queue pairs do not go to the error state, so that nothing is flushed.
class GoneNic {
 public:
  void Swallow(ibv_qp* qp) {
    const std::lock_guard lock(mutex_);
    swallowed_ = qp;
    changed_.notify_all();
  }
  void WaitSwallowed() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return swallowed_ != nullptr; });
  }
  void Destroy(ibv_qp* qp) {
    const std::lock_guard lock(mutex_);
    if (qp == swallowed_) destroyed_ = true;
  }
  bool destroyed() {
    const std::lock_guard lock(mutex_);
    return destroyed_;
  }

  std::atomic<bool> on = false;  // takes the next queue pair that fails

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  ibv_qp* swallowed_ = nullptr;
  bool destroyed_ = false;
};
GoneNic gone_nic;

// A NIC whose send queue is full: of each chain it takes the first request only.
class FullQueue {
 public:
  void Take(ibv_qp* qp) {
    real_ = qp->context->ops.post_send;
    qp->context->ops.post_send = [](ibv_qp* to, ibv_send_wr* first, ibv_send_wr** bad) {
      ibv_send_wr* const rest = std::exchange(first->next, nullptr);
      if (const int error = real_(to, first, bad); error != 0 || rest == nullptr) return error;
      *bad = rest;
      return ENOMEM;
    };
  }
  std::atomic<bool> on = false;  // takes the next device whose queue pair comes up

 private:
  static inline int (*real_)(ibv_qp*, ibv_send_wr*, ibv_send_wr**) = nullptr;
};
FullQueue full_queue;

// Whether memory is there when it is deregistered.
class Deregistered {
 public:
  Deregistered() { mallopt(M_MMAP_THRESHOLD, 1 << 16); }  // large pieces that are given free are unmapped
  void Look(const ibv_mr* mr) {
    const auto page = static_cast<size_t>(getpagesize());
    const size_t offset = reinterpret_cast<uintptr_t>(mr->addr) % page;
    std::vector<unsigned char> pages((offset + mr->length + page - 1) / page);
    (mincore(static_cast<char*>(mr->addr) - offset, offset + mr->length, pages.data()) == 0 ? there : gone) +=
        1;
  }
  std::atomic<int> there = 0, gone = 0;
};
Deregistered deregistered;

// What the library logs. It reads the variables when it logs first.
class LogFile {
 public:
  LogFile() : fd_(memfd_create("log", 0)) {
    setenv("EPIC_DEBUG", "info", 1);
    setenv("EPIC_DEBUG_FILE", ("/proc/self/fd/" + std::to_string(fd_)).c_str(), 1);
  }
  std::string Text() const {
    std::string text(1 << 20, '\0');
    const ssize_t bytes = pread(fd_, text.data(), text.size(), 0);
    text.resize(bytes < 0 ? 0 : static_cast<size_t>(bytes));
    return text;
  }

 private:
  const int fd_;
};
const LogFile log_file;

}  // namespace

// In place of libibverbs' (the linker's --wrap).
extern "C" {
int __real_ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask);
int __wrap_ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask);
int __real_ibv_destroy_qp(ibv_qp* qp);
int __wrap_ibv_destroy_qp(ibv_qp* qp);
int __real_ibv_dereg_mr(ibv_mr* mr);
int __wrap_ibv_dereg_mr(ibv_mr* mr);

int __wrap_ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  if ((mask & IBV_QP_STATE) != 0 && attr->qp_state == IBV_QPS_ERR && gone_nic.on.exchange(false)) {
    gone_nic.Swallow(qp);
    return 0;
  }
  if ((mask & IBV_QP_STATE) != 0 && attr->qp_state == IBV_QPS_RTS && full_queue.on.exchange(false))
    full_queue.Take(qp);
  return __real_ibv_modify_qp(qp, attr, mask);
}
int __wrap_ibv_destroy_qp(ibv_qp* qp) {
  gone_nic.Destroy(qp);
  return __real_ibv_destroy_qp(qp);
}
int __wrap_ibv_dereg_mr(ibv_mr* mr) {
  deregistered.Look(mr);
  return __real_ibv_dereg_mr(mr);
}
}

namespace epic {
namespace {

using softnic::Group;
using softnic::LocalWorld;
using softnic::Sum;

TEST(CommEndTest, ForEverIsADeadlineThatNeverComes) {
  LocalWorld world;
  Group group("g", 2);
  for (int rank = 0; rank < 2; ++rank) group[rank].SetTimeout(std::chrono::milliseconds::max());
  Sum mine(0, 0, 1000), theirs(1, 0, 1000);
  mine.Start(group[0]);
  EXPECT_FALSE(mine.request.Test());
  theirs.Start(group[1]);
  mine.Finish(2);
  theirs.Finish(2);
  group.Destroy();
}

TEST(CommEndTest, MemoryIsDeregisteredBeforeItIsGivenFree) {
  LocalWorld world;
  const int before = deregistered.there;
  {
    Group group("short", 2);
    group.Destroy();
  }
  EXPECT_GE(deregistered.there, before + 2);
  EXPECT_EQ(deregistered.gone, 0);
}

// What was not posted is not waited for: all that was is flushed.
TEST(CommEndTest, OfABatchThatCannotBePostedOnlyThePostedIsFlushed) {
  LocalWorld world;
  const size_t logged = log_file.Text().size();
  full_queue.on = true;
  Group group("full", 2);
  std::vector<int32_t> data[2];
  int refused = 0;
  std::vector<Request> requests(2);
  for (int rank = 0; rank < 2; ++rank) {
    data[rank].resize(2000);  // a control packet and data behind it
    // The other rank may have been told already.
    static_cast<void>(AllReduceAsync(data[rank].data(), data[rank].data(), data[rank].size(),
                                     Datatype::kInt32, RedOp::kSum, group[rank],
                                     &requests[static_cast<size_t>(rank)]));
  }
  for (Request& request : requests) static_cast<void>(request.Wait());
  for (int rank = 0; rank < 2; ++rank) {
    const Error error = group[rank].Destroy();
    EXPECT_FALSE(error.ok());
    refused += error.message().find("cannot post to the queue pair") != std::string::npos ? 1 : 0;
  }
  EXPECT_GE(refused, 1);
  EXPECT_EQ(log_file.Text().find("not flushed", logged), std::string::npos) << log_file.Text();
}

// The library gives its NIC two seconds to flush. Meanwhile the process's progress thread serves others.
TEST(CommEndTest, AGroupThatFailsWithItsNicGoneDoesNotStopAnother) {
  LocalWorld world;
  Group failing("failing", 2), other("other", 2);
  Sum lost(0, 0, 1000);
  gone_nic.on = true;
  // The other rank does not call, and it is the progress thread that looks after deadlines.
  failing[0].SetTimeout(std::chrono::milliseconds(1));
  lost.Start(failing[0]);
  gone_nic.WaitSwallowed();
  // Some windows of the other group, which move by the progress thread alone.
  constexpr size_t kCount = (128 << 10) / sizeof(int32_t);
  Sum mine(0, 0, kCount), theirs(1, 0, kCount);
  mine.Start(other[0]);
  theirs.Start(other[1]);
  theirs.Finish(2);
  EXPECT_FALSE(gone_nic.destroyed()) << "the failing group was waited for";
  mine.Finish(2);
  EXPECT_EQ(lost.request.Wait().code(), ErrorCode::kTimeout);
  EXPECT_TRUE(gone_nic.destroyed()) << "the call ended while the NIC had its memory";
  other.Destroy();
  for (int rank = 0; rank < 2; ++rank) EXPECT_FALSE(failing[rank].Destroy().ok());
}

}  // namespace
}  // namespace epic
