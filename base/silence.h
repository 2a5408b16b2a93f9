// Late is not dead: how much of a silence says something of whoever is silent. Everybody who judges by a silence counts it
// here; docs/PROTOCOL-CONTROL.md, section 7.1, says what each of them proves.
//
// Whoever asks may not have run meanwhile: what he waited for a processor, where he knows it, is no silence, and of the time
// between two looks no more counts than they are apart when he runs. But he judges after a while all the same: a machine may be
// busy for ever. Without a clock; copies are snapshots. Times are in ns, none is negative.
#pragma once

#include <algorithm>
#include <optional>

#include "base/types.h"

namespace epic {

// After so long a silence is one, whoever has waited meanwhile.
inline constexpr Nanos kLongestSilence = 30 * kSecond;

// Whether whoever looked after `passed` had not run for most of it, as he waited for a processor for `waited`: then what he
// has not seen meanwhile proves nothing.
constexpr bool HasMostlyWaited(Nanos passed, Nanos waited) { return waited > passed / 2; }

// The silence of one who is asked again and again.
class Silence {
 public:
  // So much counts at most from one look to the next.
  explicit constexpr Silence(Nanos most_per_look) : most_per_look_(most_per_look) {}

  constexpr void Heard() { counted_ = in_all_ = 0; }
  // Nothing was heard for `passed`, since the last look or word. Of that one of the two waited for a processor for `waited`.
  constexpr void Unheard(Nanos passed, Nanos waited = 0) {
    in_all_ += std::clamp<Nanos>(passed, 0, most_per_look_);
    counted_ += std::clamp<Nanos>(passed - waited, 0, most_per_look_);
  }
  // What proves something.
  constexpr Nanos counted() const { return counted_; }
  // Whether it counts `enough`, or has been one for too long, whoever waited.
  constexpr bool IsProof(Nanos enough) const { return counted_ >= enough || in_all_ >= kLongestSilence; }

 private:
  Nanos most_per_look_;
  Nanos counted_ = 0;
  Nanos in_all_ = 0;
};

// Of one who looks at many again and again, and what they said lies in line: he judges nobody before he has heard what came
// while he stood still.
class Standstill {
 public:
  // A look that comes more than `late` after the one before means that he stood still; what waited is heard within `hears_in`.
  constexpr Standstill(Nanos late, Nanos hears_in) : late_(late), hears_in_(hears_in) {}

  // Whether he stood still who looks after `passed`.
  constexpr bool IsLate(Nanos passed) const { return passed > late_; }
  // How much of `passed` is not the others' time, as he stood still: of looks in a row that were all late at
  // most so much as anybody's silence may be.
  constexpr Nanos Excuse(Nanos passed) {
    if (!IsLate(passed)) return excused_ = 0;
    const Nanos more = std::min(passed, kLongestSilence - excused_);
    excused_ += more;
    return more;
  }
  // He looks, after `passed`. Whether he may judge.
  constexpr bool MayJudge(Nanos now, Nanos passed) {
    const bool late = IsLate(passed);
    if (late && !judges_from_) judges_from_ = now + hears_in_;
    // Not when he has just been late again; but one who is late each time must judge, too.
    if (judges_from_ && (now < *judges_from_ || late) && now < *judges_from_ + kLongestSilence) return false;
    judges_from_.reset();
    return true;
  }

 private:
  Nanos late_, hears_in_;
  Nanos excused_ = 0;
  std::optional<Nanos> judges_from_;
};

}  // namespace epic
