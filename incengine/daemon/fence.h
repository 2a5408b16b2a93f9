// Whose a switch is: the manager that may change it (docs/PROTOCOL-CONTROL.md, section 15). Another one must
// not take it away from groups that run. Pure; not thread-safe. No clock, the time comes in.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "base/types.h"

namespace epic::daemon {

// Who asks for a change. A manager of an earlier version says nothing of itself: its cluster is empty.
struct ManagerId {
  std::string cluster;  // bytes
  uint64_t epoch = 0;   // of its start, within the cluster
  bool keeps = false;   // its groups outlive it

  friend bool operator==(const ManagerId&, const ManagerId&) = default;
};

// What the switch has, of whomever.
struct ContextUse {
  bool any = false;
  uint64_t merged = 0;  // that ranks have contributed so far, in packets: more, and somebody computes there
};

class Fence {
 public:
  // Nothing heard of the manager for so long, another one may take the switch: of one whose groups end with
  // it, and of one that keeps them, whose ranks have given it up by then.
  static constexpr Nanos kSilent = 5 * kSecond, kSilentKeeper = 70 * kSecond;
  // But not before nobody has computed there for so long: then it is its agent alone that is silent.
  static constexpr Nanos kIdle = 5 * kSecond;

  // This manager changes something: ok if it may, and then the switch is its. contexts: what it has; not
  // asked if that does not matter. takes_over: an operator has said so. FAILED_PRECONDITION, "fenced: ...",
  // naming both.
  Status Enter(Nanos now, const ManagerId& manager, bool takes_over,
               const std::function<ContextUse()>& contexts);
  // It has been heard of; of another one than the switch's it is passed over.
  void Heard(Nanos now, const ManagerId& manager);
  // What contexts have done by now. To be called before Holds, and from time to time.
  void Saw(Nanos now, uint64_t merged);
  // Whether others than the switch's manager are refused.
  bool Holds(Nanos now, bool has_contexts) const;
  // What Saw was told last.
  uint64_t merged() const { return merged_; }
  // Its manager; an empty cluster: it has none yet.
  const ManagerId& manager() const { return manager_; }

 private:
  ManagerId manager_;
  Nanos heard_ = 0;
  uint64_t merged_ = 0;
  Nanos merged_at_ = -kIdle;  // when it was seen to be another number
};

// "cluster 3f2a..., epoch 7", or "a manager of an earlier version".
std::string Describe(const ManagerId& manager);

}  // namespace epic::daemon
