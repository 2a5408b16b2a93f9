// A queue of bounded length in memory that is allocated once. A plain value.
#pragma once

#include <cstddef>
#include <vector>

#include "base/check.h"

namespace epic::roce {

template <typename T>
class Ring {
 public:
  explicit Ring(size_t capacity) : items_(capacity) {}

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == items_.size(); }
  size_t capacity() const { return items_.size(); }

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
  // One more at the end, which is as an earlier one left it: the caller sets all of it.
  T& grow() {
    EPIC_CHECK(!full());
    ++size_;
    return back();
  }
  void pop_front() {
    EPIC_CHECK(!empty());
    head_ = head_ + 1 == items_.size() ? 0 : head_ + 1;
    --size_;
  }
  void clear() { size_ = 0; }

 private:
  size_t Place(size_t i) const {
    const size_t at = head_ + i;
    return at < items_.size() ? at : at - items_.size();
  }

  std::vector<T> items_;
  size_t head_ = 0;
  size_t size_ = 0;
};

}  // namespace epic::roce
