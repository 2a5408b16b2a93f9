#include "incengine/daemon/fence.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace epic::daemon {
namespace {

using ::testing::HasSubstr;

const ManagerId kFirst{.cluster = "\x01\xff", .epoch = 7, .keeps = true};
const ManagerId kSecond7{.cluster = "\x02", .epoch = 7};
const ManagerId kEarlier{};

class FenceTest : public ::testing::Test {
 protected:
  bool Enters(const ManagerId& manager, bool takes_over = false) {
    const Status status = fence_.Enter(
        now_, manager, takes_over, [this] { return ContextUse{.any = has_contexts_, .merged = merged_}; });
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kFailedPrecondition);
    why_ = std::string(status.message());
    return status.ok();
  }

  Fence fence_;
  Nanos now_ = 1;
  bool has_contexts_ = true;
  uint64_t merged_ = 0;
  std::string why_;
};

TEST_F(FenceTest, ASwitchIsOfTheFirstThatChangesItAndOfLaterEpochs) {
  EXPECT_TRUE(Enters(kEarlier));
  EXPECT_FALSE(fence_.Holds(now_, true)) << "who says nothing of itself keeps nobody out";
  EXPECT_TRUE(Enters(kFirst));
  EXPECT_TRUE(fence_.Holds(now_, true));
  EXPECT_FALSE(fence_.Holds(now_, false));
  ManagerId other = kFirst;
  other.epoch = 9;
  EXPECT_TRUE(Enters(other));
  EXPECT_EQ(fence_.manager(), other);
  EXPECT_TRUE(Enters(other));
}

TEST_F(FenceTest, AnEarlierEpochIsRefusedWhateverTheSwitchHas) {
  ManagerId later = kFirst;
  later.epoch = 9;
  EXPECT_TRUE(Enters(later));
  for (has_contexts_ = false;; has_contexts_ = true) {
    EXPECT_FALSE(Enters(kFirst));
    EXPECT_EQ(why_, "fenced: the call is of cluster 01ff, epoch 7, and this switch has heard epoch 9 of it");
    if (has_contexts_) break;
  }
  EXPECT_FALSE(Enters(kFirst, true)) << "nobody takes over from himself";
  now_ += 10 * Fence::kSilentKeeper;
  EXPECT_FALSE(Enters(kFirst));
}

TEST_F(FenceTest, AnotherClusterIsRefusedWhileThereAreContexts) {
  EXPECT_TRUE(Enters(kFirst));
  EXPECT_FALSE(Enters(kSecond7));
  EXPECT_EQ(
      why_,
      "fenced: the call is of cluster 02, epoch 7, and this switch has contexts of cluster 01ff, epoch 7");
  EXPECT_FALSE(Enters(kEarlier));
  EXPECT_THAT(why_, HasSubstr("of a manager of an earlier version"));
  EXPECT_EQ(fence_.manager(), kFirst) << "who is refused changes nothing";
  has_contexts_ = false;
  EXPECT_TRUE(Enters(kSecond7));
  has_contexts_ = true;
  EXPECT_FALSE(Enters(kFirst));
}

TEST_F(FenceTest, AnOperatorMaySayThatAnotherOneTakesOver) {
  EXPECT_TRUE(Enters(kFirst));
  EXPECT_TRUE(Enters(kSecond7, true));
  EXPECT_FALSE(Enters(kFirst));
}

TEST_F(FenceTest, AManagerThatIsSilentForTooLongKeepsNobodyOut) {
  for (const ManagerId& held : {kFirst, kSecond7}) {
    fence_ = {};
    EXPECT_TRUE(Enters(held));
    const Nanos silent = held.keeps ? Fence::kSilentKeeper : Fence::kSilent;
    const ManagerId& other = held.keeps ? kSecond7 : kFirst;
    now_ += silent - 1;
    EXPECT_FALSE(Enters(other));
    fence_.Heard(now_, other);
    now_ += 1;
    EXPECT_FALSE(fence_.Holds(now_, true));
    now_ -= 1;
    fence_.Heard(now_, held);
    now_ += silent - 1;
    EXPECT_FALSE(Enters(other)) << "it has been heard of since";
    now_ += 1;
    EXPECT_TRUE(Enters(other));
  }
}

// Its agent alone is silent, and its ranks compute.
TEST_F(FenceTest, AManagerWhoseGroupsComputeKeepsOthersOutHoweverSilentItIs) {
  EXPECT_TRUE(Enters(kFirst));
  now_ += Fence::kSilentKeeper;
  for (int time = 0; time < 3; ++time) {
    ++merged_;
    EXPECT_FALSE(Enters(kSecond7)) << "somebody has computed since this was looked at last";
    now_ += Fence::kIdle - 1;
    fence_.Saw(now_, merged_);
    EXPECT_TRUE(fence_.Holds(now_, true));
    EXPECT_FALSE(Enters(kSecond7));
    now_ += kSecond;
  }
  EXPECT_FALSE(fence_.Holds(now_, true));
  EXPECT_TRUE(Enters(kSecond7));
}

}  // namespace
}  // namespace epic::daemon
