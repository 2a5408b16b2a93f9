// What may happen next in the explored system. Each kind of action is a row of one table: its letter in
// replay lines, what it happens to, whether it is a fault, and its bound.
#pragma once

#include <array>
#include <cstdint>

namespace epic::check {

// Stands for "however often".
inline constexpr uint32_t kNoBound = UINT32_MAX;

// How often an execution may have each of them.
struct FaultBounds {
  uint32_t losses = 0;
  uint32_t duplicates = 0;   // the copy follows its packet; with a reordering, later
  uint32_t reorderings = 0;  // of two neighbours on a channel
  uint32_t timeouts = 0;     // that run out too early
  uint32_t crashes = 0;      // of switches, which lose their state; the control plane then ends the group
  uint32_t regroups = 0;  // how often the group is made anew when its calls have ended, with old packets left
  uint32_t evictions = 0;    // of sums from their places in a pool, as by groups that are not explored
  uint32_t late_timers = 0;  // how often time passes while a timer that is due does not run
  uint32_t late_calls = 0;   // how often time passes while a host can make a call; or kNoBound
  bool reorder_any = false;  // channels keep no order at all: any packet may come next
  bool reuse_qpns = false;   // for the new group, at once
};

enum class ActionKind : uint8_t {
  kDeliver,    // a packet of a channel: the oldest, or, where there is no order, any
  kLose,       // it
  kDuplicate,  // it
  kSwap,       // the oldest and the next one
  kStart,      // a host makes its calls, or the next of them
  kTime,       // passes until the next timer is due; nothing is under way
  kCrash,      // of a switch
  kFail,       // the control plane ends a node's part of a group that has lost a switch
  kRegroup,    // a new group in the place of the old
  kTimeout,    // of a node's timer, at any time: its clock runs ahead of the others'
  kLate,       // time passes until the next timer is due, and that of a node which is due does not run yet
  kRun,        // a node's late timer runs, at any time
  kEvict,      // a sum that is not whole loses its place in a switch's pool, the place-th of those that may
};

enum class HappensTo : uint8_t { kChannel, kNode, kAll };

struct ActionInfo {
  ActionKind kind;
  char letter;
  HappensTo happens_to;
  bool fault;
  uint32_t FaultBounds::*bound;  // null: as often as may be. Of kTime, for calls that are late.
};
// By kind.
inline constexpr std::array kActions = {
    ActionInfo{ActionKind::kDeliver, 'D', HappensTo::kChannel, false, nullptr},
    ActionInfo{ActionKind::kLose, 'L', HappensTo::kChannel, true, &FaultBounds::losses},
    ActionInfo{ActionKind::kDuplicate, 'R', HappensTo::kChannel, true, &FaultBounds::duplicates},
    ActionInfo{ActionKind::kSwap, 'X', HappensTo::kChannel, true, &FaultBounds::reorderings},
    ActionInfo{ActionKind::kStart, 'S', HappensTo::kNode, false, nullptr},
    ActionInfo{ActionKind::kTime, 'T', HappensTo::kAll, false, &FaultBounds::late_calls},
    ActionInfo{ActionKind::kCrash, 'C', HappensTo::kNode, true, &FaultBounds::crashes},
    ActionInfo{ActionKind::kFail, 'M', HappensTo::kNode, false, nullptr},
    ActionInfo{ActionKind::kRegroup, 'G', HappensTo::kAll, false, &FaultBounds::regroups},
    ActionInfo{ActionKind::kTimeout, 'E', HappensTo::kNode, true, &FaultBounds::timeouts},
    ActionInfo{ActionKind::kLate, 'W', HappensTo::kNode, true, &FaultBounds::late_timers},
    ActionInfo{ActionKind::kRun, 'A', HappensTo::kNode, false, nullptr},
    ActionInfo{ActionKind::kEvict, 'V', HappensTo::kNode, true, &FaultBounds::evictions},
};
constexpr const ActionInfo& Info(ActionKind kind) { return kActions[static_cast<size_t>(kind)]; }
constexpr bool IsFault(ActionKind kind) { return Info(kind).fault; }

struct Action {
  ActionKind kind = ActionKind::kDeliver;
  uint8_t object = 0;  // channel or node
  uint8_t place = 0;   // of the packet in its channel, 0 is the oldest; of the sum (kEvict)
  friend bool operator==(Action, Action) = default;
};

}  // namespace epic::check
