// A timeout that follows what was measured, as TCP's does.
#pragma once

#include <algorithm>
#include <cstdlib>

#include "sim/clock.h"

namespace epic::sim::dsa {

class Estimate {
 public:
  // It is never below this one, with which it begins.
  explicit Estimate(Picos least) : least_(least) {}
  void Add(Picos sample) {
    if (mean_ < 0) {
      mean_ = sample;
      deviation_ = sample / 2;
      return;
    }
    deviation_ += (std::abs(sample - mean_) - deviation_) / 4;
    mean_ += (sample - mean_) / 8;
  }
  Picos timeout() const { return std::max(least_, mean_ + 4 * deviation_); }

 private:
  Picos least_;
  Picos mean_ = -1;
  Picos deviation_ = 0;
};

}  // namespace epic::sim::dsa
