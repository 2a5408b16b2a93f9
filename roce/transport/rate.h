// A sending rate that falls with congestion notifications and recovers, after DCQCN (Zhu et al., "Congestion
// Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section 5.1). A plain value in integers; time is
// passed in.
#pragma once

#include <cstdint>

#include "base/snapshot.h"
#include "base/types.h"

namespace epic::roce {

struct RateConfig {
  int64_t line_rate_bps = 100'000'000'000;
  int64_t min_rate_bps = 10'000'000;
  int64_t additive_bps = 40'000'000;  // R_AI
  int64_t hyper_bps = 400'000'000;    // R_HAI
  uint32_t alpha_shift = 4;           // g = 2^-shift; the paper: 1/16 to 1/256
  Nanos alpha_interval_ns = 55 * kMicrosecond;
  Nanos increase_interval_ns = 55 * kMicrosecond;
  int64_t increase_bytes = 10'000'000;
  int fast_recovery_rounds = 5;  // F
};

class RateController {
 public:
  // A notification arrived (at most one per cut interval is counted: the peer spaces them).
  void OnCnp(Nanos now, const RateConfig& config);

  // Brings the timers up to now. Call before asking.
  void Advance(Nanos now, const RateConfig& config);

  // Accounts for a packet sent at now.
  void OnSent(Nanos now, int64_t bytes, const RateConfig& config);

  // Not before this may the next packet go; 0 when the rate is not limited.
  Nanos next_send_at() const { return active_ ? next_send_at_ : 0; }
  bool active() const { return active_; }
  // Bits per second; meaningful while active.
  int64_t rate_bps() const { return rate_bps_; }

 private:
  friend struct epic::Snapshot;
  void Increase(const RateConfig& config);

  bool active_ = false;
  int64_t rate_bps_ = 0;
  int64_t target_bps_ = 0;
  uint32_t alpha_ = 1 << 16;  // in 1/65536
  int time_rounds_ = 0;
  int byte_rounds_ = 0;
  int64_t bytes_ = 0;
  Nanos alpha_at_ = 0;
  Nanos increase_at_ = 0;
  Nanos next_send_at_ = 0;
};

}  // namespace epic::roce
