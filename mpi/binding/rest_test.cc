#include "mpi/binding/rest.h"

#include <gtest/gtest.h>

namespace {
int yields = 0;
}

// In place of the C library's.
extern "C" int sched_yield() noexcept {
  ++yields;
  return 0;
}

namespace epic::mpi {
namespace {

TEST(Rest, LooksAtOnceThenYieldsThenDoesNotYieldAnyMore) {
  EpicMpiWaiting waiting = {};
  for (int look = 0; look < 100; ++look) EpicMpiRest(&waiting);
  EXPECT_EQ(yields, 0);
  EXPECT_EQ(waiting.until, 0) << "the clock was read before it mattered";
  EpicMpiRest(&waiting);
  const int first = yields;
  EXPECT_EQ(first, 1);
  waiting.until = 1;  // long ago
  EpicMpiRest(&waiting);
  EXPECT_EQ(yields, first);
}

}  // namespace
}  // namespace epic::mpi
