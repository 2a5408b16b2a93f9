#include "incagent/engine_signs.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>

namespace epic::agent {
namespace {

constexpr Nanos kPassed = kSecond;
constexpr EngineSigns kSilent{};

TEST(EngineVerdictTest, OneFailedCallProvesNothing) {
  EngineVerdict verdict;
  verdict.Failed(kSilent, kPassed, 0);
  EXPECT_FALSE(verdict.down());
}

TEST(EngineVerdictTest, IsDownAfterEightSecondsOfSilence) {
  EngineVerdict verdict;
  for (int calls = 1; calls <= 8; ++calls) {
    EXPECT_FALSE(verdict.down()) << calls;
    verdict.Failed(kSilent, kPassed, 0);
  }
  EXPECT_TRUE(verdict.down());
}

TEST(EngineVerdictTest, AnAnswerBeginsTheSilenceAnew) {
  EngineVerdict verdict;
  for (int calls = 0; calls < 7; ++calls) verdict.Failed(kSilent, kPassed, 0);
  verdict.Answered();
  for (int calls = 0; calls < 7; ++calls) verdict.Failed(kSilent, kPassed, 0);
  EXPECT_FALSE(verdict.down());
  verdict.Failed(kSilent, kPassed, 0);
  EXPECT_TRUE(verdict.down());
  verdict.Answered();
  EXPECT_FALSE(verdict.down());
}

TEST(EngineVerdictTest, ASocketThatRefusesOrIsAnotherProcessIsEvidence) {
  for (const EngineSigns& signs : {EngineSigns{.refuses = true}, EngineSigns{.replaced = true}}) {
    EngineVerdict verdict;
    verdict.Failed(signs, kMillisecond, 0);
    EXPECT_TRUE(verdict.down());
  }
}

TEST(EngineVerdictTest, WhatTheEngineWaitedForAProcessorDoesNotCount) {
  EngineVerdict verdict;
  for (int calls = 0; calls < 20; ++calls) verdict.Failed({.waited = kPassed}, kPassed, 0);
  for (int calls = 0; calls < 7; ++calls) verdict.Failed(kSilent, kPassed, 0);
  EXPECT_FALSE(verdict.down());
  verdict.Failed(kSilent, kPassed, 0);
  EXPECT_TRUE(verdict.down());
}

TEST(EngineVerdictTest, NorWhatItsAgentDid) {
  EngineVerdict verdict;
  verdict.Failed(kSilent, 29 * kSecond, 29 * kSecond);
  EXPECT_FALSE(verdict.down());
}

// One thread may hang while another one waits.
TEST(EngineVerdictTest, IsDownAfterHalfAMinuteWhateverHasWaited) {
  EngineVerdict verdict;
  for (int calls = 1; calls <= 30; ++calls) {
    EXPECT_FALSE(verdict.down()) << calls;
    verdict.Failed({.waited = kPassed}, kPassed, 0);
  }
  EXPECT_TRUE(verdict.down());
}

// A socket of this process, in a folder of its own.
class EngineWatchTest : public ::testing::Test {
 protected:
  EngineWatchTest() {
    std::string name = std::filesystem::temp_directory_path() / "epic-engine-signs-XXXXXX";
    folder_ = mkdtemp(name.data());
    path_ = folder_ + "/engine.sock";
  }
  ~EngineWatchTest() override {
    if (fd_ >= 0) close(fd_);
    std::filesystem::remove_all(folder_);
  }
  void Bind() {
    fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
    ASSERT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }

  // A process that listens at fd_ by its own word, and stands still as by SIGSTOP. -1 if there can be none.
  pid_t StoppedListener() const {
    const pid_t child = fork();
    if (child == 0) {
      listen(fd_, 16);
      raise(SIGSTOP);
      _exit(0);
    }
    int status = 0;
    return waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) ? child : -1;
  }

  std::string folder_, path_;
  int fd_ = -1;
};

TEST_F(EngineWatchTest, RefusesWithoutAFileAndBeforeAnybodyListens) {
  EngineWatch watch(path_);
  EXPECT_TRUE(watch.Look().refuses);
  Bind();
  EXPECT_TRUE(watch.Look().refuses);
}

TEST_F(EngineWatchTest, TakesConnectionsThatNobodyHasTakenYet) {
  Bind();
  ASSERT_EQ(listen(fd_, 1), 0);
  EngineWatch watch(path_);
  for (int looks = 0; looks < 10; ++looks) EXPECT_FALSE(watch.Look().refuses) << looks;
}

TEST_F(EngineWatchTest, RefusesWhenTheListenerIsGone) {
  Bind();
  ASSERT_EQ(listen(fd_, 1), 0);
  EngineWatch watch(path_);
  EXPECT_FALSE(watch.Look().refuses);
  close(fd_);
  fd_ = -1;
  EXPECT_TRUE(watch.Look().refuses);
}

TEST_F(EngineWatchTest, AProcessThatStandsStillWaitsForNoProcessor) {
  Bind();
  ASSERT_EQ(listen(fd_, 16), 0);
  const pid_t child = StoppedListener();
  ASSERT_GT(child, 0);
  EngineWatch watch(path_);
  watch.Look();
  EXPECT_EQ(watch.Look().waited, 0);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

// Two that never sleep, on one processor: each waits while the other one runs.
TEST_F(EngineWatchTest, AProcessThatWaitsForAProcessorIsSeenTo) {
  Bind();
  ASSERT_EQ(listen(fd_, 16), 0);
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  int processor = 0;
  while (!CPU_ISSET(processor, &before)) ++processor;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const pid_t test = getpid(), child = fork();
  if (child == 0) {
    listen(fd_, 16);
    while (getppid() == test) {
    }
    _exit(0);
  }
  EngineWatch watch(path_);
  const Nanos own = OwnWait();
  Nanos waited = 0;
  while (waited == 0 || OwnWait() == own) waited += watch.Look().waited;
  EXPECT_GT(waited, 0);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  sched_setaffinity(0, sizeof before, &before);
}

// One that has answered since is no successor that has just come.
TEST_F(EngineWatchTest, AProcessThatEndedBeforeAnAnswerIsForgotten) {
  Bind();
  const pid_t child = StoppedListener();
  ASSERT_GT(child, 0);
  EngineWatch watch(path_);
  watch.Look();
  watch.Answered();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ASSERT_EQ(listen(fd_, 16), 0);
  watch.Answered();
  EXPECT_FALSE(watch.Look().replaced);
}

TEST_F(EngineWatchTest, AnotherProcessAtTheSocketIsSeenTo) {
  Bind();
  ASSERT_EQ(listen(fd_, 16), 0);
  EngineWatch watch(path_);
  watch.Look();
  const pid_t child = StoppedListener();
  ASSERT_GT(child, 0);
  EXPECT_TRUE(watch.Look().replaced);
  EXPECT_FALSE(watch.Look().replaced);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace epic::agent
