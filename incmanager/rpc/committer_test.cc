#include "incmanager/rpc/committer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "incmanager/store/hand_store_testing.h"
#include "incmanager/store/memory_store.h"

namespace epic::manager {
namespace {

using ::testing::ElementsAre;
using testing::HandStore;
using ::testing::HasSubstr;

const Status kNoSpace = MakeStatus(StatusCode::kResourceExhausted, "no space left");
// A write hangs as soon as it has begun.
constexpr CommitTimes kNoPatience{.patience = std::chrono::seconds(10),
                                  .hangs_after = std::chrono::seconds(0)};

Batch RowNamed(const std::string& key) { return {{{RowKind::kTenant, key}, key}}; }
Batch RowOfBytes(const std::string& key, size_t bytes) {
  return {{{RowKind::kTenant, key}, std::string(bytes, 'x')}};
}

void FailIfLate(bool) { ADD_FAILURE() << "nobody had given up"; }

// What is called in its order, on the committer's thread.
class Calls {
 public:
  Committer::Tried Of(const std::string& name) {
    return [this, name](const Status& kept) {
      const std::lock_guard lock(mutex_);
      names_.push_back(kept.ok() ? name : name + ": " + std::string(kept.message()));
      changed_.notify_all();
    };
  }
  std::vector<std::string> Await(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return names_.size() >= count; });
    return names_;
  }
  size_t count() const {
    const std::lock_guard lock(mutex_);
    return names_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> names_;
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
  EXPECT_TRUE(committer.Stop());
}

TEST(Committer, WhatWaitsTogetherIsOneTransaction) {
  HandStore store;
  store.Hold(true);
  {
    Committer committer(&store);
    committer.Post(RowNamed("first"));
    store.AwaitBegun(1);
    for (int i = 0; i < 5; ++i) committer.Post(RowNamed(std::to_string(i)));
    EXPECT_FALSE(committer.IsIdle());
    store.Hold(false);
  }
  EXPECT_EQ(store.count(), 2u);
  EXPECT_EQ(store.Load()->size(), 6u);
}

TEST(Committer, WhoHasPostedIsToldBehindTheWriteInTheirOrder) {
  HandStore store;
  store.Hold(true);
  Calls calls;
  Committer committer(&store);
  committer.Post(RowNamed("a"), calls.Of("a"));
  store.AwaitBegun(1);
  committer.Post(RowNamed("b"), calls.Of("b"));
  committer.Post({}, calls.Of("nothing"));
  committer.Post(RowNamed("c"), calls.Of("c"));
  EXPECT_EQ(calls.count(), 0u) << "nothing is kept yet";
  store.Complete();
  EXPECT_THAT(calls.Await(1), ElementsAre("a"));
  store.AwaitBegun(2);
  EXPECT_EQ(calls.count(), 1u);
  store.Complete();
  EXPECT_THAT(calls.Await(4), ElementsAre("a", "b", "nothing", "c"));
  store.Hold(false);
  EXPECT_EQ(store.Load()->size(), 3u);
}

TEST(Committer, WhoWaitsIsToldWhatTheStoreSaysAndIsNotKeptLater) {
  HandStore store;
  Calls calls;
  {
    Committer committer(&store);
    store.FailWith(kNoSpace);
    EXPECT_EQ(committer.Commit(RowNamed("a"), &FailIfLate).message(), "no space left");
    EXPECT_EQ(committer.Health().message(), "no space left");
    committer.Post(RowNamed("event"), calls.Of("event"));
    EXPECT_EQ(committer.Commit(RowNamed("b"), &FailIfLate).message(), "no space left");
    EXPECT_THAT(calls.Await(1), ElementsAre("event: no space left")) << "tried, and in vain";
    EXPECT_TRUE(committer.IsIdle());
    store.FailWith(absl::OkStatus());
    // What was posted comes first.
    EXPECT_TRUE(committer.Commit(RowNamed("c"), &FailIfLate).ok());
    EXPECT_TRUE(committer.Health().ok());
  }
  EXPECT_EQ(*store.Load(),
            (Contents{{{RowKind::kTenant, "c"}, "c"}, {{RowKind::kTenant, "event"}, "event"}}));
  EXPECT_EQ(calls.count(), 1u);
}

// Behind more than a transaction takes.
TEST(Committer, WhenTheStoreFailsAllThatWaitAreTold) {
  HandStore store;
  store.Hold(true);
  Calls calls;
  Committer committer(&store);
  committer.Post(RowNamed("first"), calls.Of("first"));
  store.AwaitBegun(1);
  for (const char* const name : {"a", "b", "c", "d"})
    committer.Post(RowOfBytes(name, Store::kMostBytes / 2), calls.Of(name));
  committer.Post({}, calls.Of("last"));
  store.Complete();
  store.AwaitBegun(2);
  store.Complete(kNoSpace);
  EXPECT_THAT(calls.Await(6), ElementsAre("first", "a: no space left", "b: no space left", "c: no space left",
                                          "d: no space left", "last: no space left"));
  // And what comes then waits behind no more than one try.
  store.FailWith(kNoSpace);
  store.Hold(false);
  committer.Post(RowNamed("later"), calls.Of("later"));
  EXPECT_EQ(committer.Commit(RowNamed("c"), &FailIfLate).message(), "no space left");
  EXPECT_EQ(calls.Await(7).back(), "later: no space left");
  store.FailWith(absl::OkStatus());
  ASSERT_TRUE(committer.Stop());
  EXPECT_EQ(store.Load()->size(), 6u);
}

TEST(Committer, OfWhatIsTriedInVainARowWaitsOnce) {
  HandStore store;
  Committer committer(&store);
  ASSERT_TRUE(committer.Commit(RowNamed("there"), &FailIfLate).ok());
  Calls calls;
  store.FailWith(kNoSpace);
  size_t told = 0;
  const auto post = [&](const Batch& batch) {
    committer.Post(batch, calls.Of("tried"));
    // It is tried with a change that is asked for.
    EXPECT_FALSE(committer.Commit(RowNamed("asked"), &FailIfLate).ok());
    calls.Await(++told);
  };
  for (int i = 0; i < 5; ++i) post(RowOfBytes("often", Store::kMostBytes / 2 + static_cast<size_t>(i)));
  for (int i = 0; i < 5; ++i) {
    post(RowNamed("short-lived " + std::to_string(i)));
    post({{{RowKind::kTenant, "short-lived " + std::to_string(i)}, {}}});
  }
  post({{{RowKind::kTenant, "there"}, {}}});
  store.FailWith(absl::OkStatus());
  store.Hold(true);
  committer.Post(RowNamed("now"));
  const Batch all = store.AwaitWrite();
  store.Hold(false);
  // In the order of their keys, and behind them what is new.
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].row.key, "often");
  EXPECT_EQ(all[0].value->size(), Store::kMostBytes / 2 + 4);
  EXPECT_EQ(all[1], (RowChange{{RowKind::kTenant, "there"}, {}}));
  EXPECT_EQ(all[2].row.key, "now");
}

TEST(Committer, ABatchThatIsTooLargeIsInNobodysWay) {
  MemoryStore store;
  Committer committer(&store);
  EXPECT_EQ(committer.Commit(RowNamed(std::string(Store::kMostBytes, 'x')), &FailIfLate).code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(committer.Health().ok());
}

TEST(Committer, MoreThanATransactionTakesIsSeveral) {
  HandStore store;
  Calls calls;
  Committer committer(&store);
  Batch batch;
  for (int i = 0; i < 5; ++i)
    batch.push_back(RowOfBytes(std::to_string(i), Store::kMostBytes / 2 - 10).front());
  committer.Post(batch, [&](const Status& kept) {
    EXPECT_EQ(store.Load()->size(), 5u) << "all of it is kept";
    calls.Of("tried")(kept);
  });
  calls.Await(1);
  EXPECT_EQ(store.count(), 3u);
  EXPECT_TRUE(committer.TakeLost().empty());
}

// Of a store that has bounds of its own.
class NarrowStore : public HandStore {
 public:
  BatchBounds bounds() const override { return {.bytes = 100, .rows = 2}; }
};

TEST(Committer, ATransactionHasNoMoreRowsThanTheStoreTakes) {
  NarrowStore store;
  Calls calls;
  Committer committer(&store);
  Batch batch;
  for (int i = 0; i < 5; ++i) batch.push_back(RowNamed(std::to_string(i)).front());
  EXPECT_EQ(committer.Commit(batch, &FailIfLate).code(), StatusCode::kInvalidArgument);
  committer.Post(batch, calls.Of("tried"));
  committer.Post(RowOfBytes("wide", 101));
  calls.Await(1);
  EXPECT_EQ(store.Load()->size(), 5u);
  EXPECT_EQ(store.count(), 3u);
  EXPECT_THAT(committer.TakeLost(), ElementsAre(HasSubstr("a row has 100 at most")));
}

TEST(Committer, ARowThatIsTooLargeIsSaid) {
  HandStore store;
  Calls calls;
  Committer committer(&store);
  Batch batch = RowOfBytes("large", Store::kMostBytes);
  batch.push_back(RowNamed("small").front());
  committer.Post(batch, calls.Of("tried"));
  calls.Await(1);
  EXPECT_EQ(store.Load()->size(), 1u);
  EXPECT_THAT(committer.TakeLost(), ElementsAre(HasSubstr("row tenant large of 16777221 bytes")));
  EXPECT_TRUE(committer.TakeLost().empty());
  EXPECT_TRUE(committer.Health().ok());
}

TEST(Committer, WhoHasGivenUpIsToldLater) {
  HandStore store;
  store.Hold(true);
  std::promise<bool> waited;
  {
    Committer committer(&store, {.patience = std::chrono::seconds(0)});
    committer.Post(RowNamed("first"));
    store.AwaitBegun(1);
    // Its turn has not come: nothing of it is done.
    EXPECT_EQ(committer.Commit(RowNamed("waits"), [&](bool kept) { waited.set_value(kept); }).code(),
              StatusCode::kDeadlineExceeded);
    store.Hold(false);
    EXPECT_FALSE(waited.get_future().get());
  }
  EXPECT_EQ(store.Load()->size(), 1u);
}

TEST(Committer, AWriteThatDoesNotReturnIsSaidAndWhatIsNewIsRefused) {
  HandStore store;
  store.Hold(true);
  Calls calls;
  Committer committer(&store, kNoPatience);
  EXPECT_TRUE(committer.Health().ok());
  committer.Post(RowNamed("first"), calls.Of("first"));
  store.AwaitBegun(1);
  EXPECT_EQ(committer.Health().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(committer.Health().message()), HasSubstr("its disk hangs"));
  const Status refused = committer.Commit(RowNamed("new"), &FailIfLate);
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("its disk hangs"));
  EXPECT_EQ(calls.count(), 0u);
  store.Hold(false);
  calls.Await(1);
  EXPECT_TRUE(committer.Health().ok());
  EXPECT_TRUE(committer.Commit(RowNamed("second"), &FailIfLate).ok());
  EXPECT_EQ(store.Load()->size(), 2u);
}

TEST(Committer, AWriteThatDoesNotReturnHoldsUpNoEnd) {
  HandStore store;
  store.Hold(true);
  Calls calls;
  Committer committer(&store, kNoPatience);
  committer.Post(RowNamed("first"), calls.Of("first"));
  store.AwaitBegun(1);
  committer.Post(RowNamed("second"), calls.Of("second"));
  EXPECT_FALSE(committer.Stop());
  EXPECT_EQ(calls.count(), 0u) << "what is not kept is told to nobody";
  EXPECT_EQ(committer.Commit(RowNamed("new"), &FailIfLate).message(), "the manager ends");
  store.Hold(false);
  calls.Await(2);
  EXPECT_EQ(store.Load()->size(), 2u);
}

TEST(Committer, AStoreThatHangsAsItIsClosedHoldsUpNoEnd) {
  HandStore store;
  Committer committer(&store, kNoPatience);
  ASSERT_TRUE(committer.Commit(RowNamed("a"), &FailIfLate).ok());
  store.Hold(true);
  EXPECT_FALSE(committer.Stop());
  store.Hold(false);
}

}  // namespace
}  // namespace epic::manager
