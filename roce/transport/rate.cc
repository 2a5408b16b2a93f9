#include "roce/transport/rate.h"

#include <algorithm>

namespace epic::roce {
namespace {

constexpr uint32_t kOne = 1 << 16;

}  // namespace

void RateController::OnCnp(Nanos now, const RateConfig& config) {
  if (!active_) {
    active_ = true;
    rate_bps_ = config.line_rate_bps;
    alpha_ = kOne;
    next_send_at_ = now;
  } else {
    Advance(now, config);
    if (!active_) return OnCnp(now, config);
  }
  target_bps_ = rate_bps_;
  // R_C = R_C (1 - alpha / 2);  alpha = (1 - g) alpha + g
  rate_bps_ -= rate_bps_ * alpha_ / (2 * int64_t{kOne});
  rate_bps_ = std::max(rate_bps_, config.min_rate_bps);
  alpha_ = alpha_ - (alpha_ >> config.alpha_shift) + (kOne >> config.alpha_shift);
  alpha_ = std::min(alpha_, kOne);
  time_rounds_ = byte_rounds_ = 0;
  bytes_ = 0;
  alpha_at_ = now + config.alpha_interval_ns;
  increase_at_ = now + config.increase_interval_ns;
}

void RateController::Increase(const RateConfig& config) {
  const int most = std::max(time_rounds_, byte_rounds_);
  const int least = std::min(time_rounds_, byte_rounds_);
  if (least > config.fast_recovery_rounds) {
    target_bps_ += config.hyper_bps * (least - config.fast_recovery_rounds);
  } else if (most > config.fast_recovery_rounds) {
    target_bps_ += config.additive_bps;
  }
  target_bps_ = std::min(target_bps_, config.line_rate_bps);
  rate_bps_ = (rate_bps_ + target_bps_) / 2;
  // Halving the distance never arrives; one part in 1,024 below the line is the line.
  if (rate_bps_ >= config.line_rate_bps - config.line_rate_bps / 1024) active_ = false;
}

void RateController::Advance(Nanos now, const RateConfig& config) {
  // From the lowest rate this takes at most line rate / R_AI rounds; then the limit is gone and the loop
  // ends.
  while (active_ && now >= std::min(alpha_at_, increase_at_)) {
    if (alpha_at_ <= increase_at_) {
      alpha_ -= alpha_ >> config.alpha_shift;
      alpha_at_ += config.alpha_interval_ns;
    } else {
      ++time_rounds_;
      Increase(config);
      increase_at_ += config.increase_interval_ns;
    }
  }
}

void RateController::OnSent(Nanos now, int64_t bytes, const RateConfig& config) {
  if (!active_) return;
  next_send_at_ = std::max(now, next_send_at_) + bytes * 8 * kSecond / rate_bps_;
  bytes_ += bytes;
  if (bytes_ < config.increase_bytes) return;
  bytes_ = 0;
  ++byte_rounds_;
  Increase(config);
}

}  // namespace epic::roce
