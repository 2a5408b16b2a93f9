// A child of fork in a test.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

namespace epic::softnic::testing {

// Starts `body` in a child of fork, whose status Ended tells.
template <typename Body>
pid_t StartChild(const Body& body) {
  constexpr unsigned kChildSeconds = 30;
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    alarm(kChildSeconds);
    _exit(body() ? 0 : 1);
  }
  return child;
}

// The child's status: 0 if `body` returned true, or called exit(0). One that hangs is ended by an alarm,
// which is no 0.
inline int Ended(pid_t child) {
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

// Both.
template <typename Body>
int InChild(const Body& body) {
  return Ended(StartChild(body));
}

}  // namespace epic::softnic::testing
