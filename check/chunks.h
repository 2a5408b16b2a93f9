// Storage that grows without moving what it holds: an exploration fills the machine's memory, and a vector
// that doubles would need three times of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace epic::check {

// A list that only grows at its end.
template <typename T>
class Chunks {
 public:
  void push_back(T value) {
    if (size_ % kChunk == 0) chunks_.push_back(std::make_unique_for_overwrite<T[]>(kChunk));
    chunks_.back()[size_++ % kChunk] = value;
  }
  T operator[](size_t at) const { return chunks_[at / kChunk][at % kChunk]; }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }

 private:
  static constexpr size_t kChunk = size_t{1} << 16;

  std::vector<std::unique_ptr<T[]>> chunks_;
  size_t size_ = 0;
};

// Rows of one width, taken from either end. What is taken from gives its memory back.
template <typename T>
class Rows {
 public:
  explicit Rows(size_t width) : width_(width) {}

  void PushBack(std::span<const T> row) {
    if (blocks_.empty() || blocks_.back().size() == width_ * kRows)
      blocks_.emplace_back().reserve(width_ * kRows);
    blocks_.back().insert(blocks_.back().end(), row.begin(), row.end());
    ++size_;
  }
  // Copies the row to `to`, which has room for it. There must be one.
  void PopFront(std::span<T> to) {
    std::copy_n(blocks_.front().begin() + static_cast<ptrdiff_t>(first_), width_, to.begin());
    first_ += width_;
    --size_;
    if (first_ == blocks_.front().size()) DropFront();
  }
  void PopBack(std::span<T> to) {
    std::vector<T>& block = blocks_.back();
    std::copy_n(block.end() - static_cast<ptrdiff_t>(width_), width_, to.begin());
    block.resize(block.size() - width_);
    --size_;
    if (block.empty()) {
      blocks_.pop_back();
    } else if (blocks_.size() == 1 && first_ == block.size()) {
      DropFront();
    }
  }

  size_t size() const { return size_; }
  size_t bytes() const { return blocks_.size() * kRows * width_ * sizeof(T); }

 private:
  static constexpr size_t kRows = 4096;

  void DropFront() {
    blocks_.pop_front();
    first_ = 0;
  }

  const size_t width_;
  std::deque<std::vector<T>> blocks_;
  size_t first_ = 0;  // in the first block, where its first row begins
  size_t size_ = 0;
};

}  // namespace epic::check
