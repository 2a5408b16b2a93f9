// How far ahead of the results a rank had better send: the window with which results came sooner when others
// were tried. The table is in docs/HOST-INTERNALS.md, "The send window".
//
// Half, whole and double of the present window are tried for single calls that are long enough to show it. What
// is good depends on what all ranks do, not on one: so all ranks of a group try the same for the same calls,
// which they know by number. Each decides by its own times.
//
// Without a clock; a copy is a snapshot.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/types.h"

namespace epic {

class WindowTrials {
 public:
  // Windows are in messages.
  struct Config {
    uint32_t message_packets = 1;  // M
    uint32_t bound = 1;            // W
    uint32_t start = 0;            // the window to begin with, at most the bound; 0: the bound, for ever
  };
  // What a round of trials has come to.
  struct Found {
    uint32_t messages = 0;         // the window from now on
    uint32_t ns_per_packet = 0;    // with it
    uint32_t before_messages = 0;  // the one before; the same if it stays
    uint32_t before_ns_per_packet = 0;
  };

  WindowTrials() : WindowTrials(Config{}) {}
  explicit WindowTrials(const Config& config)
      : tries_(config.start != 0),
        bound_(config.bound),
        window_(tries_ ? config.start : config.bound),
        least_(std::min(window_, (kLeastPackets + config.message_packets - 1) / config.message_packets)),
        big_packets_(int64_t{4} * config.message_packets * config.bound) {}

  // To be kept to now.
  uint32_t window() const { return measured_ ? WindowOf(measured_->number) : window_; }

  // The next call is made, with so many packets of data in all its parts. `alone`: no other is under way.
  void Posted(int64_t call, int64_t packets, bool alone) {
    measured_.reset();  // the one that was under way, if there was one, is overlapped
    if (!tries_ || packets < big_packets_) return;
    const int64_t number = big_calls_++;
    if (alone) measured_ = Measured{.call = call, .number = number, .packets = packets};
  }

  // The call whose times are wanted.
  std::optional<int64_t> measured() const {
    return measured_ ? std::optional(measured_->call) : std::nullopt;
  }
  // Is it the time of its reply that is wanted next?
  bool awaits_reply() const { return measured_ && measured_->replied == kNever; }
  // The reply to its control packet has come: from now on it waits for nobody who has not made the call.
  void Replied(Nanos now) { measured_->replied = now; }
  // It has ended well.
  void Ended(Nanos now) {
    const Measured ended = *std::exchange(measured_, std::nullopt);
    const std::optional<size_t> trial = TrialOf(ended.number);
    if (!trial || ended.replied == kNever) return;
    if (*trial == 0) tried_ = 0;
    if (*trial != tried_) return;  // one is missing: nothing is learnt this time
    times_[*trial] = std::min(now - ended.replied, kLongest) * kPicoseconds / ended.packets;
    if (++tried_ == kTrials.size()) Decide();
  }

  // After the first round, and when the window has changed; once.
  std::optional<Found> TakeFound() { return std::exchange(found_, std::nullopt); }

 private:
  enum class Size : uint8_t { kHalf, kWhole, kDouble };
  struct Measured {
    int64_t call = 0;
    int64_t number = 0;  // of the big calls
    int64_t packets = 0;
    Nanos replied = kNever;
  };

  static constexpr uint32_t kLeastPackets = 16;
  static constexpr int64_t kPicoseconds = 1000;  // of a nanosecond: a packet may take few of these
  static constexpr Nanos kLongest = 1000 * kSecond;  // longer calls are all the same
  // A move must be worth it: less than so many percent of the time that the present window takes.
  static constexpr int64_t kBetterPercent = 95;
  // A round in each period, from this call on; later in few of them, so that a worse window costs little.
  static constexpr int64_t kPeriod = 64, kFirst = 4, kLongPeriod = 256;
  // In an order that favours none where calls of two sizes alternate.
  static constexpr std::array kTrials = {Size::kHalf, Size::kWhole, Size::kDouble, Size::kDouble,
                                         Size::kWhole, Size::kHalf, Size::kHalf, Size::kWhole,
                                         Size::kDouble, Size::kDouble, Size::kWhole, Size::kHalf};

  // The place in its round of a big call that is a trial.
  static std::optional<size_t> TrialOf(int64_t number) {
    if (number >= kLongPeriod && number % kLongPeriod >= kPeriod) return std::nullopt;
    const int64_t place = number % kPeriod - kFirst;
    const bool is_trial = place >= 0 && place < static_cast<int64_t>(kTrials.size());
    return is_trial ? std::optional(static_cast<size_t>(place)) : std::nullopt;
  }

  uint32_t Sized(Size size) const {
    if (size == Size::kHalf) return std::max(least_, window_ / 2);
    return size == Size::kDouble ? std::min(bound_, 2 * window_) : window_;
  }
  uint32_t WindowOf(int64_t number) const {
    const std::optional<size_t> trial = TrialOf(number);
    return trial ? Sized(kTrials[*trial]) : window_;
  }

  // The lower median.
  int64_t Median(Size size) const {
    std::array<int64_t, kTrials.size() / 3> times;
    size_t count = 0;
    for (size_t i = 0; i < kTrials.size(); ++i) {
      if (kTrials[i] == size) times[count++] = times_[i];
    }
    std::ranges::sort(times);
    return times[(times.size() - 1) / 2];
  }

  void Decide() {
    const int64_t present = Median(Size::kWhole);
    Size best = Size::kWhole;
    for (const Size other : {Size::kHalf, Size::kDouble}) {
      const int64_t worth = best == Size::kWhole ? present * kBetterPercent / 100 : Median(best);
      if (Sized(other) != window_ && Median(other) < worth) best = other;
    }
    const Found found{.messages = Sized(best),
                      .ns_per_packet = NanosOf(Median(best)),
                      .before_messages = window_,
                      .before_ns_per_packet = NanosOf(present)};
    if (!told_ || found.messages != window_) found_ = found;
    told_ = true;
    window_ = found.messages;
  }
  static uint32_t NanosOf(int64_t picoseconds) {
    return static_cast<uint32_t>(std::min<int64_t>(picoseconds / kPicoseconds, UINT32_MAX));
  }

  bool tries_;
  uint32_t bound_;
  uint32_t window_;  // the present one
  uint32_t least_;
  int64_t big_packets_;    // calls with so many packets of data are big
  int64_t big_calls_ = 0;  // made so far
  std::optional<Measured> measured_;
  size_t tried_ = 0;                             // trials of this round, if none is missing
  std::array<int64_t, kTrials.size()> times_{};  // per packet, in picoseconds
  std::optional<Found> found_;
  bool told_ = false;
};

}  // namespace epic
