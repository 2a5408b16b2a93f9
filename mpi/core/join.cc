#include "mpi/core/join.h"

#include <algorithm>
#include <string_view>

#include "base/check.h"

namespace epic::mpi {
namespace {

void Put(std::string_view from, Text* text) {
  text->fill('\0');
  std::copy_n(from.begin(), std::min(from.size(), kTextBytes - 1), text->begin());
}

// Before the name of a group that is kept; that of a new one has no such character.
constexpr char kKept = '=';

std::string Get(const Text& text) { return {text.begin(), std::find(text.begin(), text.end() - 1, '\0')}; }

}  // namespace

JoinAgreement::JoinAgreement(int rank, int ranks, const std::string& why_not, const std::string& name,
                             const std::string& kept)
    : rank_(rank), ranks_(ranks), own_name_(name), offer_(kept.empty() ? "" : kKept + kept) {
  Agree({.refusal = why_not});
}

// All ranks say whether they can go on: with their own number if not, above all those if others are the
// reason, and above these, too, if they can.
void JoinAgreement::Agree(const JoinResult& result) {
  why_not_ = result.refusal;
  value_ = why_not_.empty() ? 2 * ranks_ : result.for_others ? ranks_ + rank_ : rank_;
  step_ = Step::kMin;
}

void JoinAgreement::OnMin(int least) {
  EPIC_CHECK(step_ == Step::kMin);
  if (asks_for_waits_) {
    lasts_ = result_.lasting || (result_.lacking && least == 0);
    step_ = Step::kRefused;
    return;
  }
  if (asks_who_has_) {
    asks_who_has_ = false;
    step_ = least != 0 ? Step::kJoined : Step::kDrop;
    return;
  }
  refused_ = least < 2 * ranks_;
  if (!refused_ && has_joined_) {
    step_ = Step::kJoined;
    return;
  }
  if (!refused_) return PutName();
  root_ = least % ranks_;
  if (root_ == rank_) Put(why_not_, &text_);
  step_ = Step::kBroadcast;
}

// Of the group that is offered; if there is none, or it has been, of a new one.
void JoinAgreement::PutName() {
  root_ = 0;
  if (rank_ == 0) Put(offer_.empty() ? own_name_ : offer_, &text_);
  offer_.clear();
  step_ = Step::kBroadcast;
}

void JoinAgreement::OnBroadcast() {
  EPIC_CHECK(step_ == Step::kBroadcast);
  if (refused_) {
    reason_ = "rank " + std::to_string(root_) + ": " + Get(text_);
    EndRefused();
    return;
  }
  name_ = Get(text_);
  step_ = Step::kJoin;
  if (name_.empty() || name_[0] != kKept) return;
  name_.erase(0, 1);
  step_ = Step::kTake;
}

void JoinAgreement::OnTake(bool has) {
  EPIC_CHECK(step_ == Step::kTake);
  asks_who_has_ = true;
  value_ = has ? 1 : 0;
  step_ = Step::kMin;
}

void JoinAgreement::OnDrop() {
  EPIC_CHECK(step_ == Step::kDrop);
  PutName();
}

// After joins: what a switch lacks every rank has been told at once, what a host lacks its rank alone.
void JoinAgreement::EndRefused() {
  step_ = has_joined_ ? Step::kMin : Step::kRefused;
  asks_for_waits_ = true;
  value_ = result_.for_others ? 0 : 1;
}

void JoinAgreement::OnJoin(const JoinResult& result) {
  EPIC_CHECK(step_ == Step::kJoin);
  has_joined_ = true;
  result_ = result;
  Agree(result);
}

std::string JoinAgreement::name() const { return name_; }

}  // namespace epic::mpi
