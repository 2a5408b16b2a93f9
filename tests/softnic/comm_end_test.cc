// How a communicator ends beside others of its process: the host library on softnic in virtual time, with a
// manager in this process (local_manager_testing.h). Also under ThreadSanitizer.
#include <infiniband/verbs.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

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

}  // namespace

// In place of libibverbs' (the linker's --wrap).
extern "C" {
int __real_ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask);
int __wrap_ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask);
int __real_ibv_destroy_qp(ibv_qp* qp);
int __wrap_ibv_destroy_qp(ibv_qp* qp);

int __wrap_ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  if ((mask & IBV_QP_STATE) != 0 && attr->qp_state == IBV_QPS_ERR && gone_nic.on.exchange(false)) {
    gone_nic.Swallow(qp);
    return 0;
  }
  return __real_ibv_modify_qp(qp, attr, mask);
}
int __wrap_ibv_destroy_qp(ibv_qp* qp) {
  gone_nic.Destroy(qp);
  return __real_ibv_destroy_qp(qp);
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
