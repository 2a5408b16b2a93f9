// What always holds of a rank's calls: see group_calls.h.
#include "base/check.h"
#include "commlib/core/group_calls.h"

namespace epic {

void GroupCalls::CheckInvariants() const {
  EPIC_CHECK(0 <= first_ && first_ <= begun_ && begun_ <= next_ && begun_ <= held_from_);
  EPIC_CHECK(static_cast<size_t>(next_ - first_) <= calls_.size());
  size_t open = 0;
  for (CallNumber number = first_; number < next_; ++number) {
    const MadeCall& call = At(number);
    EPIC_CHECK(call.is_done == (call.ended == call.slices));
    open += call.is_done ? 0 : 1;
  }
  EPIC_CHECK(open == open_);
  EPIC_CHECK(first_ == next_ || !At(first_).is_done);
  EPIC_CHECK(started_ <= invocations_.size());
  for (size_t at = 0; at < invocations_.size(); ++at) {
    const Invocation& one = invocations_[at];
    EPIC_CHECK(first_ <= one.call && one.call < begun_ && one.slice < At(one.call).slices);
    // Nothing is behind a request.
    EPIC_CHECK(one.kind != Kind::kRequest || at + 1 == invocations_.size());
    if (at == 0) continue;
    const Invocation& before = invocations_[at - 1];
    EPIC_CHECK(before.call < one.call || (before.call == one.call && before.slice + 1 == one.slice));
  }
  const bool asks = !invocations_.empty() && invocations_.back().kind == Kind::kRequest;
  EPIC_CHECK(asks == is_asking_ || failed());
  for (const CallNumber number : hosts_calls_) EPIC_CHECK(first_ <= number && !At(number).is_done);
}

}  // namespace epic
