// Runs calls of groups in virtual time and checks every element, for tests.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "sim/collectives.h"
#include "sim/world.h"

namespace epic::sim {

// Runs the calls of each group; false and a recorded failure if they do not end within the limit or are
// wrong.
inline bool RunCalls(World& world, std::vector<Calls>& by_group, Nanos spread, Nanos limit) {
  const int groups = static_cast<int>(by_group.size());
  for (int g = 0; g < groups; ++g) {
    for (int r = 0; r < world.ranks(g); ++r)
      StartCalls(world, g, r, by_group[static_cast<size_t>(g)], world.now(), spread);
  }
  int finished = 0;
  const auto done = [&] {
    while (finished < groups && Finished(world, finished, by_group[static_cast<size_t>(finished)]))
      ++finished;
    return finished == groups;
  };
  if (!world.RunUntil(done, world.now() + limit)) {
    ADD_FAILURE() << "group " << finished << " not finished at " << world.now() / kMillisecond
                  << " ms of virtual time\n"
                  << Standing(world, finished);
    return false;
  }
  for (int g = 0; g < groups; ++g) {
    for (const CollectiveCall& call : by_group[static_cast<size_t>(g)]) {
      for (int r = 0; r < world.ranks(g); ++r) {
        const size_t wrong = call.Wrong(r);
        if (wrong == 0) continue;
        ADD_FAILURE() << "group " << g << ", " << call.Describe() << ": rank " << r << " has " << wrong
                      << " wrong elements";
        return false;
      }
    }
  }
  return true;
}

}  // namespace epic::sim
