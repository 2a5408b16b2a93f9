#include "commlib/progress.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include <atomic>
#include <memory>
#include <thread>

#include "gtest/gtest.h"
#include "io/descriptor.h"

namespace epic::internal {
namespace {

// Stays in the thread's hands until it has seen what it looks for, or for as many turns.
class Slow final : public Progressing {
 public:
  Slow(std::atomic<bool>* entered, const std::atomic<bool>* removed, std::atomic<bool>* early)
      : entered_(entered), removed_(removed), early_(early) {}
  void OnChannelReady() override {
    constexpr int kTurns = 20000;
    *entered_ = true;
    for (int i = 0; i < kTurns && !*early_; ++i) {
      std::this_thread::yield();
      *early_ = removed_->load();
    }
  }
  void OnTick() override {}
  CallsInfo TellCalls() override { return {}; }

 private:
  std::atomic<bool>* const entered_;
  const std::atomic<bool>* const removed_;
  std::atomic<bool>* const early_;
};

TEST(ProgressTest, WhoIsRemovedIsNotHeldAnyMore) {
  ASSERT_TRUE(Progress::Claim());
  const io::Descriptor channel(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
  std::atomic<bool> entered = false, removed = false, early = false;
  auto comm = std::make_shared<Slow>(&entered, &removed, &early);
  const std::weak_ptr<Slow> watched = comm;
  Progress::Get().Add(comm, channel.get());
  Progress::Get().Arm(channel.get());
  while (!entered) std::this_thread::yield();
  comm = nullptr;
  Progress::Get().Remove(channel.get());
  removed = true;
  EXPECT_TRUE(watched.expired());
  while (!watched.expired()) std::this_thread::yield();  // before what it points to goes
  EXPECT_FALSE(early);
}

}  // namespace
}  // namespace epic::internal
