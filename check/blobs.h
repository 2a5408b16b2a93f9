// Byte strings, each kept once: payloads and buffers, of which the states of a run share a few.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>

namespace epic::check {

class Blobs {
 public:
  // The number of the string, counting from 0 in the order of first use.
  uint32_t Intern(std::string_view bytes) {
    if (const auto it = ids_.find(bytes); it != ids_.end()) return it->second;
    const auto id = static_cast<uint32_t>(strings_.size());
    strings_.emplace_back(bytes);
    bytes_ += bytes.size();
    ids_.emplace(std::string_view(strings_.back()), id);
    return id;
  }
  // Valid as long as the table.
  std::string_view operator[](uint32_t id) const { return strings_[id]; }

  size_t size() const { return strings_.size(); }
  // Of all strings together.
  size_t bytes() const { return bytes_; }

 private:
  std::deque<std::string> strings_;
  absl::flat_hash_map<std::string_view, uint32_t> ids_;
  size_t bytes_ = 0;
};

inline std::string_view AsChars(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::span<const uint8_t> AsBytes(std::string_view chars) {
  return {reinterpret_cast<const uint8_t*>(chars.data()), chars.size()};
}

}  // namespace epic::check
