#include "mpi/core/onset.h"

#include <algorithm>

#include "base/check.h"

namespace epic::mpi {

Onset::Onset(int rank, int ranks, uint64_t from_call, uint64_t from_bytes)
    : rank_(rank), ranks_(ranks), from_call_(from_call), from_bytes_(from_bytes), waits_(from_call <= 1) {}

void Onset::Count(uint64_t bytes) {
  ++calls_;
  bytes_ += std::min(bytes, UINT64_MAX - bytes_);
}

bool Onset::IsDue() const {
  if (state_ == State::kCounts) return calls_ >= from_call_ || bytes_ >= from_bytes_;
  return calls_ >= next_;
}

Onset::Step Onset::OnCall(uint64_t bytes) {
  EPIC_CHECK(step_ == Step::kCall);
  if (has_ended()) return step_;
  Count(bytes);
  if (!IsDue()) return step_;
  if (waits_) {
    state_ = State::kAgrees;
    return step_ = Step::kPlace;
  }
  if (state_ == State::kCounts) state_ = State::kAsks;
  return step_ = Step::kLook;
}

void Onset::OnRequest(uint64_t bytes) {
  if (!has_ended()) Count(bytes);
}

// Looks that find nothing cost a message to all ranks: of many calls an eighth has one before it.
void Onset::LookLater() {
  next_ = calls_ + std::max<uint64_t>(1, calls_ / 8);
  step_ = Step::kCall;
}

int Onset::value() const { return state_ == State::kAgrees ? agreement_->value() : ready_ ? 1 : 0; }

void Onset::OnLook(const JoinResult* join, bool may_begin) {
  EPIC_CHECK(step_ == Step::kLook);
  ready_ = state_ == State::kAsks ? may_begin : join != nullptr;
  if (join != nullptr) joined_ = *join;
  step_ = Step::kMin;
}

void Onset::OnMin(int least) {
  EPIC_CHECK(step_ == Step::kMin);
  if (state_ == State::kAgrees) {
    agreement_->OnMin(least);
    return FollowAgreement();
  }
  if (least == 0) return LookLater();
  const bool asks = state_ == State::kAsks;
  state_ = State::kAgrees;
  if (asks) {
    step_ = Step::kPlace;
    return;
  }
  agreement_->OnJoin(joined_);
  FollowAgreement();
}

void Onset::OnPlaced(int hosts, const std::string& why_not, const std::string& name,
                     const std::string& kept) {
  EPIC_CHECK(step_ == Step::kPlace);
  if (hosts < 2) return OnFailed();
  agreement_.emplace(rank_, ranks_, why_not, name, kept);
  FollowAgreement();
}

void Onset::OnBroadcast() {
  agreement_->OnBroadcast();
  FollowAgreement();
}

void Onset::OnTake(bool has) {
  agreement_->OnTake(has);
  FollowAgreement();
}

void Onset::OnDrop() {
  agreement_->OnDrop();
  FollowAgreement();
}

void Onset::OnJoin(const JoinResult& result) {
  agreement_->OnJoin(result);
  FollowAgreement();
}

void Onset::OnBegun() {
  EPIC_CHECK(step_ == Step::kBegin);
  state_ = State::kMakes;
  LookLater();
}

void Onset::OnFailed() {
  state_ = State::kMpi;
  step_ = Step::kCall;
}

void Onset::FollowAgreement() {
  switch (agreement_->step()) {
    case JoinAgreement::Step::kMin:
      step_ = Step::kMin;
      break;
    case JoinAgreement::Step::kBroadcast:
      step_ = Step::kBroadcast;
      break;
    case JoinAgreement::Step::kJoin:
      step_ = waits_ ? Step::kJoin : Step::kBegin;
      break;
    case JoinAgreement::Step::kTake:
      step_ = Step::kTake;
      break;
    case JoinAgreement::Step::kDrop:
      step_ = Step::kDrop;
      break;
    case JoinAgreement::Step::kJoined:
      state_ = State::kEpic;
      step_ = Step::kCall;
      break;
    case JoinAgreement::Step::kRefused:
      OnFailed();
      break;
  }
}

}  // namespace epic::mpi
