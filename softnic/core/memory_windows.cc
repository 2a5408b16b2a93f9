// Memory windows: parts of regions under keys of their own (InfiniBand specification 10.6.7).
#include "softnic/core/memory_table.h"

namespace epic::softnic {
namespace {

constexpr uint32_t kFirstPlace = MemoryTable::kMaxRegions;  // as the table counts them, from 0
static_assert(MemoryTable::kMaxRegions + MemoryTable::kMaxWindows < (1 << 24));

bool Writes(const roce::WindowBind& bind) { return bind.remote_write || bind.remote_atomic; }

}  // namespace

std::optional<MemoryTable::Window> MemoryTable::AllocateWindow(uint32_t pd, bool type_2) {
  uint32_t place = 0;
  if (!free_windows_.empty()) {
    place = free_windows_.back();
    free_windows_.pop_back();
  } else if (windows_.size() < kMaxWindows) {
    place = static_cast<uint32_t>(windows_.size());
    windows_.emplace_back();
    free_windows_.reserve(windows_.capacity());  // so that giving a place back needs no memory
  } else {
    return std::nullopt;
  }
  BoundWindow& window = windows_[place];
  const uint32_t generation = (window.rkey + 1) & 0xff;
  window = {.number = ++last_window_ << 24 | place,
            .pd = pd,
            .rkey = (kFirstPlace + place + 1) << 8 | generation,
            .type_2 = type_2};
  return Window{window.number, window.rkey};
}

bool MemoryTable::FreeWindow(uint64_t number) {
  const auto place = static_cast<uint32_t>(number & 0xffffff);
  if (place >= windows_.size() || windows_[place].number != number) return false;
  Unbind(windows_[place]);
  windows_[place].number = 0;
  free_windows_.push_back(place);
  return true;
}

void MemoryTable::Unbind(BoundWindow& window) {
  if (window.lkey == 0) return;
  --RegionOf(window.lkey).windows;
  if (window.type_2) --owned_windows_;
  window.lkey = 0;
}

bool MemoryTable::Bind(uint32_t pd, Qpn qpn, const roce::WindowBind& bind) {
  const auto place = static_cast<uint32_t>(bind.window & 0xffffff);
  if (place >= windows_.size() || windows_[place].number != bind.window) return false;
  BoundWindow& window = windows_[place];
  if (window.pd != pd || (window.type_2 && (window.lkey != 0 || bind.length == 0)) ||
      (!window.type_2 && bind.zero_based)) {
    return false;
  }
  if (bind.length != 0) {
    const Region* region = Find(bind.lkey);
    if (region == nullptr || region->pd != pd || !region->rights.mw_bind ||
        (Writes(bind) && !region->rights.local_write) || bind.address < region->address) {
      return false;
    }
    const uint64_t offset = bind.address - region->address;
    if (offset > region->length || bind.length > region->length - offset) return false;
  }
  Unbind(window);
  window.rkey = (window.rkey & ~0xffu) | (bind.rkey & 0xff);
  if (bind.length == 0) return true;
  window.lkey = bind.lkey;
  window.qpn = qpn;
  window.begin = bind.address;
  window.length = bind.length;
  window.rights = {.remote_read = bind.remote_read,
                   .remote_write = bind.remote_write,
                   .remote_atomic = bind.remote_atomic};
  window.zero_based = bind.zero_based;
  ++RegionOf(bind.lkey).windows;
  if (window.type_2) ++owned_windows_;
  return true;
}

const MemoryTable::BoundWindow* MemoryTable::FindWindow(uint32_t key) const {
  const uint32_t place =
      (key >> 8) - 1 - kFirstPlace;  // of a region's it becomes a number beyond every place
  if (place >= windows_.size()) return nullptr;
  const BoundWindow& window = windows_[place];
  return window.number != 0 && window.rkey == key ? &window : nullptr;
}

bool MemoryTable::Invalidate(uint32_t pd, Qpn qpn, uint32_t rkey) {
  const BoundWindow* found = FindWindow(rkey);
  if (found == nullptr || !found->type_2 || found->pd != pd) return false;
  if (found->lkey != 0 && found->qpn != qpn) return false;
  Unbind(windows_[static_cast<size_t>(found - windows_.data())]);
  return true;
}

void MemoryTable::ForgetQueuePair(Qpn qpn) {
  if (owned_windows_ == 0) return;
  for (BoundWindow& window : windows_) {
    if (window.type_2 && window.lkey != 0 && window.qpn == qpn) Unbind(window);
  }
}

std::optional<std::span<uint8_t>> MemoryTable::MapWindow(uint32_t pd, Qpn qpn, roce::Access access,
                                                         uint32_t key, uint64_t address,
                                                         uint32_t length) const {
  if (access == roce::Access::kLocalRead || access == roce::Access::kLocalWrite) return std::nullopt;
  const BoundWindow* window = FindWindow(key);
  if (window == nullptr || window->lkey == 0 || window->pd != pd || (window->type_2 && window->qpn != qpn) ||
      !Allows(window->rights, access)) {
    return std::nullopt;
  }
  const uint64_t first = window->zero_based ? 0 : window->begin;
  if (address < first) return std::nullopt;
  const uint64_t offset = address - first;
  if (offset > window->length || length > window->length - offset) return std::nullopt;
  // A region stays while windows are bound to it, and they lie within it.
  const Region* region = Find(window->lkey);
  return std::span(region->bytes + (window->begin - region->address) + offset, length);
}

}  // namespace epic::softnic
