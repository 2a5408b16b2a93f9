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

class Fence {
 public:
  // Nothing heard of the manager for so long, another one may take the switch: of one whose groups end with
  // it, and of one that keeps them, whose ranks have given it up by then.
  static constexpr Nanos kSilent = 5 * kSecond, kSilentKeeper = 70 * kSecond;

  // This manager changes something: ok if it may, and then the switch is its. has_contexts: whether the
  // switch has some, of whomever; not asked if that does not matter. takes_over: an operator has said so.
  // FAILED_PRECONDITION, "fenced: ...", naming both.
  Status Enter(Nanos now, const ManagerId& manager, bool takes_over,
               const std::function<bool()>& has_contexts);
  // It has been heard of; of another one than the switch's it is passed over.
  void Heard(Nanos now, const ManagerId& manager);
  // Whether others than the switch's manager are refused.
  bool Holds(Nanos now, bool has_contexts) const;
  // Its manager; an empty cluster: it has none yet.
  const ManagerId& manager() const { return manager_; }

 private:
  ManagerId manager_;
  Nanos heard_ = 0;
};

// "cluster 3f2a..., epoch 7", or "a manager of an earlier version".
std::string Describe(const ManagerId& manager);

}  // namespace epic::daemon
