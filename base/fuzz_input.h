// A fuzzer's bytes taken one by one, for targets that read them as a sequence of steps. Zeros once they are
// used up.
#pragma once

#include <cstddef>
#include <cstdint>

namespace epic {

class FuzzInput {
 public:
  // Borrows the bytes.
  FuzzInput(const uint8_t* data, size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  uint8_t Next() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

}  // namespace epic
