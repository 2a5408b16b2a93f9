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

std::string Get(const Text& text) { return {text.begin(), std::find(text.begin(), text.end() - 1, '\0')}; }

}  // namespace

JoinAgreement::JoinAgreement(int rank, int ranks, const std::string& why_not, const std::string& name)
    : rank_(rank), ranks_(ranks), own_name_(name) {
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
  refused_ = least < 2 * ranks_;
  if (!refused_ && has_joined_) {
    step_ = Step::kJoined;
    return;
  }
  root_ = refused_ ? least % ranks_ : 0;
  if (root_ == rank_) Put(refused_ ? why_not_ : own_name_, &text_);
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
