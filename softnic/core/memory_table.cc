#include "softnic/core/memory_table.h"

namespace epic::softnic {
namespace {

bool IsRange(uint64_t address, uint64_t length) { return length != 0 && address + (length - 1) >= address; }

}  // namespace

bool Allows(const MemoryRights& rights, roce::Access access) {
  switch (access) {
    case roce::Access::kLocalRead:
      return true;
    case roce::Access::kLocalWrite:
      return rights.local_write;
    case roce::Access::kRemoteRead:
      return rights.remote_read;
    case roce::Access::kRemoteWrite:
      return rights.remote_write;
    case roce::Access::kRemoteAtomic:
      return rights.remote_atomic;
  }
  return false;
}

std::optional<uint32_t> MemoryTable::Register(uint32_t pd, uint8_t* bytes, uint64_t address, uint64_t length,
                                              MemoryRights rights) {
  if (!IsRange(address, length)) return std::nullopt;
  uint32_t place = 0;
  if (!free_.empty()) {
    place = free_.back();
    free_.pop_back();
  } else if (regions_.size() < kMaxRegions) {
    place = static_cast<uint32_t>(regions_.size());
    regions_.emplace_back();
    free_.reserve(regions_.capacity());  // so that giving a place back needs no memory
  } else {
    return std::nullopt;
  }
  Region& region = regions_[place];
  region = {bytes, address, length, pd, static_cast<uint8_t>(region.generation + 1), rights};
  ++used_;
  return (place + 1) << 8 | region.generation;
}

const MemoryTable::Region* MemoryTable::Find(uint32_t key) const {
  const uint32_t place = (key >> 8) - 1;  // 0 becomes a number beyond every place
  if (place >= regions_.size()) return nullptr;
  const Region& region = regions_[place];
  return region.length != 0 && region.generation == (key & 0xff) ? &region : nullptr;
}

bool MemoryTable::Deregister(uint32_t key) {
  if (Find(key) == nullptr || HasWindows(key)) return false;
  const uint32_t place = (key >> 8) - 1;
  regions_[place].length = 0;
  free_.push_back(place);
  --used_;
  return true;
}

bool MemoryTable::Reregister(uint32_t key, std::optional<MemoryRange> range, std::optional<uint32_t> pd,
                             std::optional<MemoryRights> rights) {
  if (Find(key) == nullptr || (range && !IsRange(range->address, range->length))) return false;
  Region& region = regions_[(key >> 8) - 1];
  if (range) {
    region.bytes = range->bytes;
    region.address = range->address;
    region.length = range->length;
  }
  if (pd) region.pd = *pd;
  if (rights) region.rights = *rights;
  return true;
}

bool MemoryTable::HasWindows(uint32_t key) const {
  const Region* region = Find(key);
  return region != nullptr && region->windows != 0;
}

std::optional<std::span<uint8_t>> MemoryTable::Map(uint32_t pd, roce::Access access, uint32_t key,
                                                   uint64_t address, uint32_t length) const {
  const Region* region = Find(key);
  if (region == nullptr || region->pd != pd || address < region->address) return std::nullopt;
  const uint64_t offset = address - region->address;
  if (offset > region->length || length > region->length - offset) return std::nullopt;
  if (!Allows(region->rights, access)) return std::nullopt;
  return std::span(region->bytes + offset, length);
}

}  // namespace epic::softnic
