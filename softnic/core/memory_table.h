// Registered memory of one adapter: who may touch which bytes, by key and protection domain (InfiniBand
// Architecture Specification 1.4, 10.6). memory_windows.cc has the windows, by which the peer may use a part
// of a region under another key.
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
  bool mw_bind = false;  // memory windows may be bound to it
};

// Which bytes a key names, and as which addresses.
struct MemoryRange {
  uint8_t* bytes = nullptr;
  uint64_t address = 0;
  uint64_t length = 0;
};

bool Allows(const MemoryRights& rights, roce::Access access);

class MemoryTable {
 public:
  // Lets `length` bytes at `bytes`, which stay the caller's, be named as [address, address + length) by the
  // key returned, which is lkey and rkey at once. A key of memory that was deregistered comes up again only
  // after 255 others of its place. Nothing if the table is full, length is 0 or the range wraps.
  std::optional<uint32_t> Register(uint32_t pd, uint8_t* bytes, uint64_t address, uint64_t length,
                                   MemoryRights rights);
  // False for a key that names nothing, or a region to which windows are bound.
  bool Deregister(uint32_t key);
  // Gives the key's memory another place, protection domain or rights, each if there is one; the key stays.
  // False, and nothing changed, for a key that names nothing, or a range of no length or that wraps.
  bool Reregister(uint32_t key, std::optional<MemoryRange> range, std::optional<uint32_t> pd,
                  std::optional<MemoryRights> rights);
  // Whether windows are bound to the region.
  bool HasWindows(uint32_t key) const;

  // The bytes, if `key` is of protection domain `pd` and allows `access` to all of them.
  std::optional<std::span<uint8_t>> Map(uint32_t pd, roce::Access access, uint32_t key, uint64_t address,
                                        uint32_t length) const;

  // A memory window that is bound to nothing yet. Its number is never used again.
  struct Window {
    uint64_t number = 0;
    uint32_t rkey = 0;
  };
  // Type 1 is bound by whoever has its protection domain; type 2 (2B) belongs to the queue pair that bound
  // it, and must be invalidated before it is bound again. Nothing if the table is full.
  std::optional<Window> AllocateWindow(uint32_t pd, bool type_2);
  // False for a number that names nothing.
  bool FreeWindow(uint64_t number);
  // For a request of the queue pair; false, and nothing changed, if the window or the region may not be bound
  // so (10.6.7.2). A window of type 1 that is bound to no byte is bound to nothing.
  bool Bind(uint32_t pd, Qpn qpn, const roce::WindowBind& bind);
  // For a request of the queue pair or of its peer: a window of type 2 is bound to nothing. False, and
  // nothing changed, if the key is of none that is that queue pair's, or nobody's in its domain.
  bool Invalidate(uint32_t pd, Qpn qpn, uint32_t rkey);
  // Windows that belong to the queue pair are bound to nothing: another one may get its number.
  void ForgetQueuePair(Qpn qpn);
  // As Map, for a peer of the queue pair, by a window's key.
  std::optional<std::span<uint8_t>> MapWindow(uint32_t pd, Qpn qpn, roce::Access access, uint32_t key,
                                              uint64_t address, uint32_t length) const;

  size_t size() const { return used_; }
  static constexpr size_t kMaxRegions = 1 << 20, kMaxWindows = 1 << 20;

 private:
  struct Region {
    uint8_t* bytes = nullptr;
    uint64_t address = 0;
    uint64_t length = 0;  // 0: the place is free
    uint32_t pd = 0;
    uint8_t generation = 0;
    MemoryRights rights;
    uint32_t windows = 0;  // that are bound to it
  };
  struct BoundWindow {
    uint64_t number = 0;  // 0: the place is free
    uint32_t pd = 0;
    uint32_t rkey = 0;
    bool type_2 = false;
    uint32_t lkey = 0;  // of the region; 0: bound to nothing
    Qpn qpn{};          // that it belongs to, of type 2
    uint64_t begin = 0, length = 0;
    MemoryRights rights;
    bool zero_based = false;
  };

  // A key is place (24 bits, from 1) and generation (8 bits). Windows have the places behind the regions'.
  const Region* Find(uint32_t key) const;
  const BoundWindow* FindWindow(uint32_t key) const;
  Region& RegionOf(uint32_t key) { return regions_[(key >> 8) - 1]; }
  void Unbind(BoundWindow& window);

  std::vector<Region> regions_;
  std::vector<uint32_t> free_;
  size_t used_ = 0;
  std::vector<BoundWindow> windows_;
  std::vector<uint32_t> free_windows_;
  uint64_t last_window_ = 0;
  size_t owned_windows_ = 0;  // that belong to queue pairs
};

}  // namespace epic::softnic
