#include "incmanager/rpc/committer.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <string>
#include <utility>

#include "incmanager/store/memory_store.h"

namespace epic::manager {
namespace {

Batch RowNamed(const std::string& key) { return {{{RowKind::kTenant, key}, key}}; }

void FailIfLate(bool) { ADD_FAILURE() << "nobody had given up"; }

// Its disk stands still while the test wants it to.
class StandingStore : public MemoryStore {
 public:
  Status Apply(const Batch& batch) override {
    {
      std::unique_lock lock(mutex_);
      ++begun_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return !stands_; });
    }
    return MemoryStore::Apply(batch);
  }
  void Stand(bool stands) {
    const std::lock_guard lock(mutex_);
    stands_ = stands;
    changed_.notify_all();
  }
  void AwaitBegun(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stands_ = false;
  int begun_ = 0;
};

TEST(Committer, KeepsBeforeItAnswers) {
  MemoryStore store;
  Committer committer(&store);
  EXPECT_TRUE(committer.Commit(RowNamed("a"), &FailIfLate).ok());
  EXPECT_EQ(store.Load()->size(), 1u);
  EXPECT_TRUE(committer.Health().ok());
  EXPECT_TRUE(committer.Commit({}, &FailIfLate).ok());
  EXPECT_EQ(store.count(), 1u);
}

TEST(Committer, WithoutAStoreAllIsWell) {
  Committer committer(nullptr);
  EXPECT_FALSE(committer.keeps());
  EXPECT_TRUE(committer.Commit(RowNamed("a"), &FailIfLate).ok());
  committer.Post(RowNamed("b"));
  EXPECT_TRUE(committer.IsIdle());
}

TEST(Committer, WhatWaitsTogetherIsOneTransaction) {
  StandingStore store;
  store.Stand(true);
  {
    Committer committer(&store);
    committer.Post(RowNamed("first"));
    store.AwaitBegun(1);
    for (int i = 0; i < 5; ++i) committer.Post(RowNamed(std::to_string(i)));
    EXPECT_FALSE(committer.IsIdle());
    store.Stand(false);
  }
  EXPECT_EQ(store.count(), 2u);
  EXPECT_EQ(store.Load()->size(), 6u);
}

TEST(Committer, WhoWaitsIsToldWhatTheStoreSaysAndIsNotKeptLater) {
  MemoryStore store;
  {
    Committer committer(&store);
    store.FailWith(MakeStatus(StatusCode::kResourceExhausted, "no space left"));
    EXPECT_EQ(committer.Commit(RowNamed("a"), &FailIfLate).message(), "no space left");
    EXPECT_EQ(committer.Health().message(), "no space left");
    committer.Post(RowNamed("event"));
    EXPECT_EQ(committer.Commit(RowNamed("b"), &FailIfLate).message(), "no space left");
    EXPECT_FALSE(committer.IsIdle());
    store.FailWith(absl::OkStatus());
    // What was posted comes first.
    EXPECT_TRUE(committer.Commit(RowNamed("c"), &FailIfLate).ok());
    EXPECT_TRUE(committer.Health().ok());
  }
  EXPECT_EQ(*store.Load(),
            (Contents{{{RowKind::kTenant, "c"}, "c"}, {{RowKind::kTenant, "event"}, "event"}}));
}

TEST(Committer, ABatchThatIsTooLargeIsInNobodysWay) {
  MemoryStore store;
  Committer committer(&store);
  EXPECT_EQ(committer.Commit(RowNamed(std::string(Store::kMostBytes, 'x')), &FailIfLate).code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(committer.Health().ok());
}

TEST(Committer, WhoHasGivenUpIsToldLater) {
  StandingStore store;
  store.Stand(true);
  std::promise<bool> begun, waited;
  {
    Committer committer(&store, std::chrono::nanoseconds(0));
    committer.Post(RowNamed("first"));
    store.AwaitBegun(1);
    // Its turn has not come: nothing of it is done.
    EXPECT_EQ(committer.Commit(RowNamed("waits"), [&](bool kept) { waited.set_value(kept); }).code(),
              StatusCode::kDeadlineExceeded);
    store.Stand(false);
    EXPECT_FALSE(waited.get_future().get());
  }
  EXPECT_EQ(store.Load()->size(), 1u);
}

}  // namespace
}  // namespace epic::manager
