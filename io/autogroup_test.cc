#include "io/autogroup.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>

namespace epic::io {
namespace {

// What a process that leads a session, or does not, ends with.
int InProcess(bool leads, const std::function<Status()>& run) {
  const pid_t child = fork();
  if (child == 0) {
    if (leads) setsid();
    _exit(static_cast<int>(run().code()));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

class AutogroupTest : public testing::Test {
 protected:
  AutogroupTest() { close(mkstemp(file_)); }
  ~AutogroupTest() override { unlink(file_); }
  std::string Text() const {
    std::string text;
    std::ifstream(file_) >> text;
    return text;
  }

  char file_[32] = "/tmp/autogroup_XXXXXX";
};

TEST_F(AutogroupTest, ItsOwnSessionGetsTheNiceValue) {
  EXPECT_EQ(InProcess(true, [&] { return SetAutogroupNice(-10, file_); }), static_cast<int>(StatusCode::kOk));
  EXPECT_EQ(Text(), "-10");
}

TEST_F(AutogroupTest, AnothersSessionIsLeftAsItIs) {
  EXPECT_EQ(InProcess(false, [&] { return SetAutogroupNice(-10, file_); }),
            static_cast<int>(StatusCode::kFailedPrecondition));
  EXPECT_EQ(Text(), "");
}

TEST_F(AutogroupTest, AKernelWithoutGroupsBySessionIsToldOf) {
  EXPECT_EQ(InProcess(true, [] { return SetAutogroupNice(-10, "/nonexistent/autogroup"); }),
            static_cast<int>(StatusCode::kNotFound));
}

TEST_F(AutogroupTest, WhatTheKernelRefusesIsToldOf) {
  EXPECT_EQ(InProcess(true, [] { return SetAutogroupNice(-10, "/dev/full"); }),
            static_cast<int>(StatusCode::kPermissionDenied));
}

}  // namespace
}  // namespace epic::io
