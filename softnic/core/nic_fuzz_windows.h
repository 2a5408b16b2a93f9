// Memory windows in the world of nic_fuzz: those that there are, and what may be bound to them. What has been
// done of a queue pair's requests is known when they complete, so that a bind counts from when it is posted,
// and what ends it only when that has completed.
#pragma once

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "softnic/core/nic.h"
#include "softnic/core/nic_fuzz_testing.h"

namespace epic::softnic::testing {

class FuzzWindows {
 public:
  explicit FuzzWindows(MemoryTable& table) : table_(table) {
    for (const uint32_t pd : {kPd, kPd, kPd, kOtherPd}) Add(pd, windows_.size() != 1);
  }

  // By any number. Keys have one of two low bytes, so that old ones come up again.
  uint32_t KeyOf(size_t which) const { return (At(which).window.rkey & ~0xffu) | (which >> 4 & 1); }
  // In or close to what the window was last bound to: near its begin, or its end.
  uint64_t AddressIn(uint32_t rkey, uint8_t how) const {
    const auto bound = std::find_if(bound_.rbegin(), bound_.rend(),
                                    [&](const Bound& b) { return b.bind.rkey >> 8 == rkey >> 8; });
    if (bound == bound_.rend()) return 0;
    const uint64_t begin = bound->bind.zero_based ? 0 : bound->bind.address;
    return begin + ((how & 0x20) != 0 ? bound->bind.length - (how & 0x1f) : how & 0x1f);
  }

  // Of a number, key and rights; the caller says what it is bound to.
  roce::WindowBind SomeBind(size_t which, uint8_t rights) const {
    return {.window = At(which).window.number,
            .rkey = KeyOf(which),
            .remote_read = (rights & 1) != 0,
            .remote_write = (rights & 2) != 0,
            .remote_atomic = (rights & 4) != 0,
            .zero_based = (rights & 8) != 0};
  }

  void OnPosted(uint64_t id, const End& end, const roce::SendWr& wr, const std::vector<Mr>& mrs) {
    if (wr.opcode == roce::WrOpcode::kLocalInv) posted_.push_back({id, wr.invalidate_rkey, 0});
    if (wr.opcode != roce::WrOpcode::kBindMw) return;
    awaited_.push_back({id, wr.bind->lkey, end.qpn});
    const Window* window = Find(wr.bind->window);
    if (window == nullptr) return;
    if (!window->type_2) posted_.push_back({id, 0, wr.bind->window});
    const auto mr = std::ranges::find(mrs, wr.bind->lkey, &Mr::key);
    if (mr == mrs.end() || mr->pd != end.pd || window->pd != end.pd || !mr->rights.mw_bind) return;
    const bool writes = wr.bind->remote_write || wr.bind->remote_atomic;
    if (wr.bind->length == 0 || (writes && !mr->rights.local_write)) return;
    const uint64_t begin = wr.bind->address - kBase - mr->offset;
    if (begin > mr->length || wr.bind->length > mr->length - begin) return;
    bound_.push_back({id, end.qpn, *window, *wr.bind});
  }

  // Queues are polled: what completes in one round may have happened in any order.
  void BeginRound() { ++round_; }

  void OnCompleted(const Work& work) {
    const roce::Completion& c = work.completion;
    std::erase_if(awaited_, [&](const Awaited& a) { return a.id == c.wr_id; });
    if (c.has_invalidated) {
      std::erase_if(bound_, [&](const Bound& b) {
        return b.done_in != 0 && b.done_in < round_ && b.bind.rkey == c.invalidated_rkey;
      });
    }
    for (Bound& b : bound_) {
      if (b.id == c.wr_id && c.ok()) b.done_in = round_;
    }
    // What was flushed may have been done all the same.
    if (c.status == roce::WcStatus::kMwBindErr)
      std::erase_if(bound_, [&](const Bound& b) { return b.id == c.wr_id; });
    const auto posted = std::ranges::find(posted_, c.wr_id, &Ending::id);
    if (posted == posted_.end()) return;
    if (c.ok()) {
      std::erase_if(bound_, [&](const Bound& b) {
        const bool meant =
            posted->window != 0 ? b.bind.window == posted->window : b.bind.rkey == posted->rkey;
        return meant && b.qpn == work.qpn && b.id < c.wr_id;
      });
    }
    posted_.erase(posted);
  }

  // Its requests are forgotten.
  void OnReset(Qpn qpn) {
    std::erase_if(awaited_, [&](const Awaited& a) { return a.qpn == qpn; });
  }
  // Whether a request may still bind a window to the region.
  bool IsAwaited(uint32_t lkey) const {
    return std::ranges::find(awaited_, lkey, &Awaited::lkey) != awaited_.end();
  }

  void OnDestroyed(Qpn qpn) {
    OnReset(qpn);
    std::erase_if(bound_, [&](const Bound& b) { return b.window.type_2 && b.qpn == qpn; });
  }

  // A window goes, and another one takes its place.
  void Replace(size_t which) {
    Window& window = windows_[which % windows_.size()];
    EPIC_CHECK(table_.FreeWindow(window.window.number));
    EPIC_CHECK(!table_.FreeWindow(window.window.number));
    std::erase_if(bound_, [&](const Bound& b) { return b.bind.window == window.window.number; });
    window.window = *table_.AllocateWindow(window.pd, window.type_2);
  }

  // A region that is kept has windows, as far as we know.
  void CheckKept(uint32_t lkey) const {
    EPIC_CHECK(std::ranges::any_of(bound_, [&](const Bound& b) { return b.bind.lkey == lkey; }));
  }

  // Calls allow(offset, length) for what peers may write by windows.
  template <typename Allow>
  void ForWritable(const std::vector<Mr>& mrs, std::span<const End> ends, const Allow& allow) const {
    for (const Bound& b : bound_) {
      const auto mr = std::ranges::find(mrs, b.bind.lkey, &Mr::key);
      const bool writable = std::ranges::any_of(ends, [&](const End& end) {
        const bool writes = b.bind.remote_write && end.remote_write;
        const bool swaps = b.bind.remote_atomic && end.remote_atomic;
        return end.pd == b.window.pd && (writes || swaps) && end.type != QpType::kUd &&
               (!b.window.type_2 || end.qpn == b.qpn);
      });
      if (mr->live && writable) allow(b.bind.address - kBase, b.bind.length);
    }
  }

 private:
  struct Window {
    uint32_t pd;
    bool type_2;
    MemoryTable::Window window;
  };
  struct Bound {
    uint64_t id;
    Qpn qpn;
    Window window;
    roce::WindowBind bind;
    int done_in = 0;  // the round in which it completed; 0: not yet
  };
  struct Awaited {
    uint64_t id;
    uint32_t lkey;
    Qpn qpn;
  };
  // A request that ends what was bound before: by key, or by window.
  struct Ending {
    uint64_t id;
    uint32_t rkey;
    uint64_t window;
  };

  void Add(uint32_t pd, bool type_2) { windows_.push_back({pd, type_2, *table_.AllocateWindow(pd, type_2)}); }
  const Window& At(size_t which) const { return windows_[which % windows_.size()]; }
  const Window* Find(uint64_t number) const {
    const auto found = std::ranges::find(windows_, number, [](const Window& w) { return w.window.number; });
    return found == windows_.end() ? nullptr : &*found;
  }

  MemoryTable& table_;
  std::vector<Window> windows_;
  std::vector<Bound> bound_;
  std::vector<Ending> posted_;
  std::vector<Awaited> awaited_;  // binds whose completion has not been seen
  int round_ = 0;
};

}  // namespace epic::softnic::testing
