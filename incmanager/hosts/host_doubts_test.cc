#include "incmanager/hosts/host_doubts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <vector>

namespace epic::manager {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Ipv4 kHost{0x0a000001};
constexpr Ipv4 kOtherPort{0x0a000101};
constexpr Ipv4 kAnother{0x0a000002};

HostDoubts::Doubt Silent(HostId host, const std::set<Ipv4>& addresses) {
  return {.host = host, .name = "h0", .addresses = addresses, .until = 60 * kSecond};
}

class HostDoubtsTest : public ::testing::Test {
 protected:
  // All that is due is answered: the newest ask that the host has answered is so many old; none: it cannot be asked.
  void Round(std::optional<uint32_t> answered) {
    now_ += HostDoubts::kAskEvery;
    for (const Ipv4 host : doubts_.Due(now_))
      answered ? doubts_.OnAnswer(host, true, *answered) : doubts_.OnNoAnswer(host);
  }
  // How many rounds of this until the host is lost; 100: it is not.
  uint32_t RoundsUntilLost(std::optional<uint32_t> answered) {
    for (uint32_t i = 1; i < 100; ++i) {
      Round(answered);
      const auto over = doubts_.TakeOver(now_);
      if (!over.empty()) return over.front().lost ? i : 100;
    }
    return 100;
  }

  Nanos now_ = 0;
  HostDoubts doubts_;
};

TEST_F(HostDoubtsTest, WhoDoesNotAnswerIsLost) {
  doubts_.Begin(Silent(5, {kHost}));
  // The first asks, and nothing is known by its answer.
  EXPECT_EQ(RoundsUntilLost(0), HostDoubts::kMissed + 1);
  EXPECT_THAT(doubts_.All(), IsEmpty());
  EXPECT_THAT(doubts_.Due(now_ + kSecond), IsEmpty());
}

TEST_F(HostDoubtsTest, WhoAnswersLivesUntilItsTimeIsOver) {
  doubts_.Begin(Silent(5, {kHost}));
  EXPECT_EQ(RoundsUntilLost(1), 100u);
  doubts_.Begin(Silent(5, {kHost}));
  doubts_.TakeOver(now_ = 61 * kSecond);
  EXPECT_THAT(doubts_.All(), IsEmpty());
}

TEST_F(HostDoubtsTest, WhoHasAnsweredIsMissedForLonger) {
  doubts_.Begin(Silent(5, {kHost}));
  Round(0);
  Round(1);
  ASSERT_THAT(doubts_.All(), SizeIs(1));
  EXPECT_TRUE(doubts_.All()[0].lives);
  // It is the same old answer each time.
  for (uint32_t i = 1; i < HostDoubts::kMissedAfterAnswer; ++i) {
    Round(i + 1 <= 16 ? i + 1 : 0);
    EXPECT_THAT(doubts_.TakeOver(now_), IsEmpty()) << i;
  }
  Round(0);
  EXPECT_THAT(doubts_.TakeOver(now_), SizeIs(1));
}

// What has been asked in another doubt says nothing of now.
TEST_F(HostDoubtsTest, AnAnswerOfBeforeIsNone) {
  doubts_.Begin(Silent(5, {kHost}));
  EXPECT_EQ(RoundsUntilLost(16), HostDoubts::kMissed + 1);
}

TEST_F(HostDoubtsTest, WhoCannotBeAskedIsNotMissed) {
  doubts_.Begin(Silent(5, {kHost}));
  EXPECT_EQ(RoundsUntilLost(std::nullopt), 100u);
}

TEST_F(HostDoubtsTest, WhoIsAtNoSwitchIsMissedIfItIsSilent) {
  for (const HostId host : {0, 5}) {
    doubts_.Begin(Silent(host, {kHost}));
    std::vector<HostDoubts::Doubt> over;
    for (uint32_t i = 0; i < HostDoubts::kMissed; ++i) {
      EXPECT_THAT(over, IsEmpty());
      now_ += HostDoubts::kAskEvery;
      for (const Ipv4 address : doubts_.Due(now_)) doubts_.OnNoSwitch(address);
      over = doubts_.TakeOver(now_);
    }
    EXPECT_THAT(over, SizeIs(host == 0 ? 0 : 1)) << "the end of its stream was a word of it";
  }
}

TEST_F(HostDoubtsTest, AHostOfTwoPortsAnswersByOneOfThem) {
  doubts_.Begin(Silent(5, {kHost, kOtherPort}));
  for (int i = 0; i < 50; ++i) {
    now_ += HostDoubts::kAskEvery;
    for (const Ipv4 host : doubts_.Due(now_)) doubts_.OnAnswer(host, true, host == kHost ? 0 : 1);
    EXPECT_THAT(doubts_.TakeOver(now_), IsEmpty());
  }
}

TEST_F(HostDoubtsTest, NobodyIsAskedAnewBeforeHeHasAnswered) {
  doubts_.Begin(Silent(5, {kHost}));
  EXPECT_THAT(doubts_.Due(kSecond), ElementsAre(kHost));
  EXPECT_THAT(doubts_.Due(9 * kSecond), IsEmpty());
  doubts_.OnAnswer(kHost, true, 0);
  doubts_.OnAnswer(kHost, true, 0);  // it was not asked
  EXPECT_THAT(doubts_.Due(10 * kSecond), ElementsAre(kHost));
}

TEST_F(HostDoubtsTest, EndsWithTheDaemonsReturn) {
  doubts_.Begin(Silent(5, {kHost, kOtherPort}));
  doubts_.Begin(Silent(6, {kAnother}));
  EXPECT_THAT(doubts_.End({kOtherPort}), ElementsAre(kHost, kOtherPort));
  EXPECT_THAT(doubts_.End({kOtherPort}), IsEmpty());
  doubts_.EndOf(7);
  EXPECT_THAT(doubts_.All(), SizeIs(1));
  doubts_.EndOf(6);
  EXPECT_THAT(doubts_.All(), IsEmpty());
}

// The stream of a daemon that is silent breaks.
TEST_F(HostDoubtsTest, GoesOnWithWhatItKnows) {
  doubts_.Begin(Silent(5, {kHost}));
  for (uint32_t i = 0; i < HostDoubts::kMissed; ++i) Round(0);
  doubts_.Begin(Silent(0, {kHost}));
  EXPECT_EQ(RoundsUntilLost(0), 1u);
}

TEST_F(HostDoubtsTest, AHostOfWhichNoAddressIsKnownIsNotLostByThat) {
  doubts_.Begin(Silent(5, {}));
  EXPECT_THAT(doubts_.TakeOver(kSecond), IsEmpty());
  EXPECT_THAT(doubts_.TakeOver(60 * kSecond), SizeIs(1));
}

}  // namespace
}  // namespace epic::manager
