// Registered memory of one adapter: who may touch which bytes, by key and protection domain (InfiniBand
// Architecture Specification 1.4, 10.6).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "roce/transport/types.h"

namespace epic::softnic {

struct MemoryRights {
  bool local_write = false;
  bool remote_read = false;
  bool remote_write = false;
  bool remote_atomic = false;
};

class MemoryTable {
 public:
  // Lets `length` bytes at `bytes`, which stay the caller's, be named as [address, address + length) by the
  // key returned, which is lkey and rkey at once. A key of memory that was deregistered comes up again only
  // after 255 others of its place. Nothing if the table is full, length is 0 or the range wraps.
  std::optional<uint32_t> Register(uint32_t pd, uint8_t* bytes, uint64_t address, uint64_t length,
                                   MemoryRights rights);
  // False for a key that names nothing.
  bool Deregister(uint32_t key);

  // The bytes, if `key` is of protection domain `pd` and allows `access` to all of them.
  std::optional<std::span<uint8_t>> Map(uint32_t pd, roce::Access access, uint32_t key, uint64_t address,
                                        uint32_t length) const;

  size_t size() const { return used_; }
  static constexpr size_t kMaxRegions = 1 << 20;

 private:
  struct Region {
    uint8_t* bytes = nullptr;
    uint64_t address = 0;
    uint64_t length = 0;  // 0: the place is free
    uint32_t pd = 0;
    uint8_t generation = 0;
    MemoryRights rights;
  };

  // A key is place (24 bits, from 1) and generation (8 bits).
  const Region* Find(uint32_t key) const;

  std::vector<Region> regions_;
  std::vector<uint32_t> free_;
  size_t used_ = 0;
};

}  // namespace epic::softnic
