#include "incmanager/rpc/shared_dumps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace epic::manager {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Pair;

constexpr auto kNever = std::chrono::steady_clock::time_point::max();
constexpr std::chrono::steady_clock::time_point kAtOnce;  // long ago

proto::DumpReply DumpWith(const std::string& name) {
  proto::DumpReply reply;
  reply.mutable_info()->set_name(name);
  return reply;
}

class SharedDumpsTest : public ::testing::Test {
 protected:
  // Answers at once, and counts.
  SharedDumps::Ask Answering() {
    return [this](const std::string& name, const SharedDumps::Answer& answer) {
      ++asked_[name];
      answer(DumpWith(name));
    };
  }
  // Keeps the answers to come.
  SharedDumps::Ask Keeping() {
    return [this](const std::string& name, SharedDumps::Answer answer) {
      ++asked_[name];
      answers_[name] = std::move(answer);
    };
  }

  Nanos now_ = 0;
  std::map<std::string, int> asked_;
  std::map<std::string, SharedDumps::Answer> answers_;
  SharedDumps dumps_{[this] { return now_; }};
};

TEST(PatienceOf, LeavesTheCallerTimeForTheAnswer) {
  using std::chrono::milliseconds, std::chrono::seconds;
  EXPECT_EQ(PatienceOf(seconds(2), seconds(5)), milliseconds(1500)) << "a rank's, ahead of a call's deadline";
  EXPECT_EQ(PatienceOf(seconds(15), seconds(5)), seconds(5));
  EXPECT_EQ(PatienceOf(std::chrono::nanoseconds::max(), seconds(5)), seconds(5)) << "without a deadline";
  EXPECT_EQ(PatienceOf(seconds(-1), seconds(5)), seconds(0)) << "it is over";
}

TEST_F(SharedDumpsTest, AnAnswerIsGoodForAWhile) {
  EXPECT_THAT(dumps_.Of(7, {"s1", "s2"}, true, Answering(), kNever), ElementsAre(Key("s1"), Key("s2")));
  now_ += SharedDumps::kGoodFor;
  const auto dumps = dumps_.Of(7, {"s1", "s2"}, true, Answering(), kNever);
  ASSERT_THAT(dumps, ElementsAre(Key("s1"), Key("s2")));
  EXPECT_EQ(dumps.at("s2").info().name(), "s2");
  EXPECT_THAT(asked_, ElementsAre(Pair("s1", 1), Pair("s2", 1)));
  ++now_;
  dumps_.Of(7, {"s1"}, true, Answering(), kNever);
  EXPECT_EQ(asked_["s1"], 2) << "it is too old";
  dumps_.Of(8, {"s1"}, true, Answering(), kNever);
  EXPECT_EQ(asked_["s1"], 3) << "of another group";
  dumps_.Of(8, {"s1"}, false, Answering(), kNever);
  EXPECT_EQ(asked_["s1"], 4) << "no recent one will do";
}

TEST_F(SharedDumpsTest, AQuestionUnderWayIsShared) {
  EXPECT_THAT(dumps_.Of(7, {"s1", "s2"}, true, Keeping(), kAtOnce), IsEmpty());
  answers_["s1"](DumpWith("s1"));
  now_ += 10 * SharedDumps::kGoodFor;
  EXPECT_THAT(dumps_.Of(7, {"s2"}, false, Answering(), kAtOnce), IsEmpty());
  EXPECT_EQ(asked_["s2"], 1) << "it is still asked";
  answers_["s2"](DumpWith("s2"));
  EXPECT_THAT(dumps_.Of(7, {"s2"}, true, Answering(), kAtOnce), ElementsAre(Key("s2")));
  EXPECT_EQ(asked_["s2"], 1);
}

TEST_F(SharedDumpsTest, WhoDoesNotAnswerIsLeftOut) {
  EXPECT_THAT(dumps_.Of(
                  7, {"s1", "s2", "s3"}, true,
                  [](const std::string& name, const SharedDumps::Answer& answer) {
                    if (name == "s1") answer(DumpWith(name));
                    if (name == "s3") answer(MakeStatus(StatusCode::kUnavailable, "no"));
                  },
                  kAtOnce),
              ElementsAre(Key("s1")));
}

TEST_F(SharedDumpsTest, AllWhoAskAtOnceWaitForOneAnswer) {
  std::mutex mutex;
  std::vector<SharedDumps::Answer> answers;
  std::vector<std::thread> ranks;
  std::atomic<int> right = 0;
  for (int i = 0; i < 16; ++i) {
    ranks.emplace_back([&] {
      const auto dumps = dumps_.Of(
          7, {"s1"}, true,
          [&](const std::string&, SharedDumps::Answer answer) {
            const std::lock_guard lock(mutex);
            answers.push_back(std::move(answer));
          },
          kNever);
      right += dumps.contains("s1") ? 1 : 0;
    });
  }
  for (bool asked = false; !asked; std::this_thread::yield()) {
    const std::lock_guard lock(mutex);
    if (answers.empty()) continue;
    answers.front()(DumpWith("s1"));
    asked = true;
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(right, 16);
  EXPECT_EQ(answers.size(), 1u);
}

TEST_F(SharedDumpsTest, AnAnswerMayComeLate) {
  {
    SharedDumps gone([this] { return now_; });
    gone.Of(7, {"s1"}, true, Keeping(), kAtOnce);
  }
  answers_["s1"](DumpWith("s1"));
}

}  // namespace
}  // namespace epic::manager
