// For the tests of explorations: what a setup comes to, beside what it is known to come to.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>

#include "check/explorer.h"
#include "check/replay.h"
#include "check/setups_testing.h"

namespace epic::check {

inline Report Explored(const Setup& setup, const ExploreOptions& options = {}) {
  Model model = ModelOf(setup);
  return Explore(model, options);
}

struct Known {
  Setup setup;
  uint64_t states = 0;
  int64_t diameter = 0;
  size_t final_states = 0;
};

// Without reductions: what the numbers are is in the system alone. They change with the protocol; if they
// change with anything else, something is wrong.
inline void ExpectKnown(std::span<const Known> known) {
  for (const Known& k : known) {
    SCOPED_TRACE(Line(k.setup));
    const Report report = Explored(k.setup, {.reduced = false, .symmetric = false});
    EXPECT_EQ(report.verdict, Verdict::kRight) << Text(report.breach);
    EXPECT_EQ(report.progress.states, k.states);
    EXPECT_EQ(report.progress.depth, k.diameter);
    EXPECT_EQ(report.final_states.size(), k.final_states);
    EXPECT_EQ(report.progress.expanded, report.progress.states);
  }
}

// Reductions leave the verdict and the final states as they are.
inline void ExpectReductionsChangeNothing(std::span<const Setup> setups) {
  for (const Setup& setup : setups) {
    SCOPED_TRACE(Line(setup));
    Model model = ModelOf(setup);  // of both: it numbers what it meets
    const Report reduced = Explore(model, {});
    const Report whole = Explore(model, {.reduced = false, .symmetric = false});
    EXPECT_EQ(reduced.verdict, Verdict::kRight) << Text(reduced.breach);
    EXPECT_EQ(whole.verdict, Verdict::kRight) << Text(whole.breach);
    EXPECT_EQ(reduced.final_states, whole.final_states);
    EXPECT_LE(reduced.progress.states, whole.progress.states);
  }
}

}  // namespace epic::check
