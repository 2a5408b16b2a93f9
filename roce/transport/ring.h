// A queue of bounded length in memory that is allocated once. A plain value.
//
// What has left lies in its place until that is used again. An item that holds more than its own bytes has a
// member Release, which gives it back as the item leaves.
#pragma once

#include <cstddef>
#include <vector>

#include "base/check.h"

namespace epic::roce {

template <typename T>
class Ring {
  static constexpr bool kReleases = requires(T & item) { item.Release(); };

 public:
  explicit Ring(size_t capacity) : items_(capacity), capacity_(capacity) {}

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == capacity_; }
  size_t capacity() const { return capacity_; }

  // The i-th oldest item.
  T& operator[](size_t i) { return items_[Place(i)]; }
  const T& operator[](size_t i) const { return items_[Place(i)]; }
  T& front() { return (*this)[0]; }
  const T& front() const { return (*this)[0]; }
  T& back() { return (*this)[size_ - 1]; }

  void push_back(const T& item) {
    EPIC_CHECK(!full());
    ++size_;
    back() = item;
  }
  // One more at the end, which is as an earlier one left it: the caller sets all of it that will be read.
  T& grow() {
    EPIC_CHECK(!full());
    ++size_;
    return back();
  }
  // Where the newest lies: less than capacity(), and no other's as long as it is here.
  size_t back_place() const { return Place(size_ - 1); }
  void pop_front() {
    EPIC_CHECK(!empty());
    if constexpr (kReleases) front().Release();
    head_ = head_ + 1 == capacity_ ? 0 : head_ + 1;
    --size_;
  }
  void clear() {
    if constexpr (kReleases) {
      while (!empty()) pop_front();
    }
    size_ = 0;
  }

 private:
  size_t Place(size_t i) const {
    const size_t at = head_ + i;
    return at < capacity_ ? at : at - capacity_;
  }

  std::vector<T> items_;
  size_t capacity_;  // that of items_, which would have to be reckoned from its bytes
  size_t head_ = 0;
  size_t size_ = 0;
};

}  // namespace epic::roce
