#include "base/fork.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace epic {
namespace {

// The exit status of a child that `make` made; it is what ForkDepth says there, less what it says here.
template <typename Make>
int DepthBelow(const Make& make) {
  const uint32_t here = ForkDepth();
  const pid_t child = make();
  if (child == 0) _exit(static_cast<int>(ForkDepth() - here));
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(ForkDepth(), here);
  return WEXITSTATUS(status);
}

TEST(ForkTest, EveryChildWithMemoryOfItsOwnIsDeeper) {
  ASSERT_TRUE(CountsForks());
  EXPECT_EQ(DepthBelow([] { return fork(); }), 1);
  EXPECT_EQ(DepthBelow([] { return _Fork(); }), 1) << "which runs no handlers";
  EXPECT_EQ(DepthBelow([] { return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); }), 1)
      << "past the C library";
}

// What a child has opened is not its own children's.
TEST(ForkTest, ChildrenOfChildrenAreDeeperThanBoth) {
  EXPECT_EQ(DepthBelow([] {
              const pid_t child = fork();
              if (child != 0) return child;
              const uint32_t opened_at = ForkDepth();
              const pid_t grandchild = fork();
              if (grandchild == 0) _exit(ForkDepth() == opened_at + 1 ? 7 : 8);
              int status = 0;
              waitpid(grandchild, &status, 0);
              _exit(WEXITSTATUS(status));
            }),
            7);
}

TEST(ForkTest, AChildThatBorrowsItsParentsMemoryIsNone) {
  const uint32_t here = ForkDepth();
  const pid_t child = vfork();
  if (child == 0) _exit(0);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(ForkDepth(), here);
}

}  // namespace
}  // namespace epic
