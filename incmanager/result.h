// What a function gives that may be refused: a value, or the Failure that says why there is none. Who may be
// refused by something else than a Failure (a Refusal, an Obstacle) has a std::variant of its own.
#pragma once

#include <utility>
#include <variant>

#include "base/check.h"
#include "incmanager/failure.h"

namespace epic::manager {

template <typename T>
class Result {
 public:
  // Of either, so that a function returns what it has. The failure is one: its code is not kOk.
  Result(T value) : outcome_(std::in_place_index<0>, std::move(value)) {}
  Result(Failure failure) : outcome_(std::in_place_index<1>, std::move(failure)) {
    EPIC_CHECK(!this->failure().ok());
  }

  bool ok() const { return outcome_.index() == 0; }
  // Only if it is ok.
  const T& operator*() const& { return Value(outcome_); }
  T& operator*() & { return Value(outcome_); }
  T&& operator*() && { return std::move(Value(outcome_)); }
  const T* operator->() const { return &Value(outcome_); }
  T* operator->() { return &Value(outcome_); }
  // Only if it is not.
  const Failure& failure() const {
    EPIC_CHECK(!ok());
    return *std::get_if<1>(&outcome_);
  }

 private:
  template <typename Outcome>
  static auto& Value(Outcome& outcome) {
    EPIC_CHECK(outcome.index() == 0);
    return *std::get_if<0>(&outcome);
  }

  std::variant<T, Failure> outcome_;
};

}  // namespace epic::manager
