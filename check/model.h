// The explored system as a transition system over short vectors of numbers.
//
// A state is a vector of words: the number of each node's state, the number of each channel's content (the
// packets under way from one end of an edge to the other, in order), and the faults that have happened. What
// the numbers stand for is kept once in tables (collapse compression: Holzmann, "State Compression in SPIN",
// 1997), and each step of a node in a state is made by the real code once and then looked up.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "check/node.h"
#include "check/symmetry.h"
#include "check/system.h"

namespace epic::check {

// How many faults of each kind an execution may have.
struct FaultBounds {
  uint32_t losses = 0;
  uint32_t duplicates = 0;   // the copy follows its packet; with a reordering, later
  uint32_t reorderings = 0;  // of two neighbours on a channel
  uint32_t timeouts = 0;     // that run out too early
  uint32_t crashes = 0;      // of switches, which lose their state; the control plane then ends the group
  uint32_t regroups = 0;  // how often the group is made anew when its calls have ended, with old packets left
  bool reuse_qpns = false;  // for the new group, at once
};

enum class ActionKind : uint8_t {
  kDeliver,    // the oldest packet of a channel
  kLose,       // it
  kDuplicate,  // it
  kSwap,       // it and the next one
  kStart,      // a host makes its calls
  kTime,       // passes until the next timer is due; nothing is under way
  kCrash,      // of a switch
  kFail,       // the control plane ends a node's part of a group that has lost a switch
  kRegroup,    // a new group in the place of the old
  kTimeout,    // of a node's timer, at any time: its clock runs ahead of the others'
};

struct Action {
  ActionKind kind = ActionKind::kDeliver;
  uint8_t object = 0;  // channel or node
  friend bool operator==(Action, Action) = default;
};
constexpr bool IsFault(ActionKind kind) {
  return kind == ActionKind::kLose || kind == ActionKind::kDuplicate || kind == ActionKind::kSwap ||
         kind == ActionKind::kTimeout || kind == ActionKind::kCrash;
}

using Word = uint32_t;
inline constexpr size_t kMostWords = 128;  // of a state

class Model {
 public:
  Model(const SystemConfig& config, const FaultBounds& bounds);

  // Words of a state.
  size_t width() const { return width_; }
  const std::vector<Word>& Initial() const { return initial_; }

  // Every action that is possible, in a fixed order. With `reduced`, fewer where that leaves nothing out (see
  // Enabled's body and docs/PROOF.md).
  void Enabled(std::span<const Word> state, bool reduced, std::vector<Action>* actions) const;

  // Changes the state. Empty, or what is wrong with it: the invariant that the step has broken.
  const std::string& Apply(std::span<Word> state, Action action);

  // The same for states that are the same but for which of nodes that nothing tells apart plays which part,
  // and different for others but for a chance of 2^-64.
  uint64_t Fingerprint(std::span<const Word> state, bool symmetric);
  size_t symmetries() const { return symmetries_.size(); }

  // Every host has made its calls, and they have ended.
  bool Ended(std::span<const Word> state) const;
  // And no new group follows.
  bool Done(std::span<const Word> state) const { return Ended(state) && LifeOf(state) == bounds_.regroups; }
  // A switch has crashed.
  bool Broken(std::span<const Word> state) const { return (state[PhaseWord()] & kBroken) != 0; }
  // No packet is under way.
  bool Quiet(std::span<const Word> state) const;

  // What an action does, for people: "deliver root -> host1: send_only psn 3 (index 3)".
  std::string Describe(std::span<const Word> state, Action action) const;

  struct Sizes {
    size_t node_states = 0;
    size_t node_bytes = 0;
    size_t packets = 0;
    size_t channels = 0;
    size_t steps = 0;  // made by the real code
  };
  Sizes sizes() const;
  const System& system() const { return lives_.front(); }

 private:
  // A step of a node: the state after it, and what it sent.
  struct Step {
    uint32_t to = 0;
    uint32_t violation = 0;                           // in violations_; 0: none
    std::vector<std::pair<uint32_t, PacketId>> sent;  // channel and packet
  };
  struct Place {
    std::unique_ptr<Node> node;
    Blobs states;
    std::vector<Facts> facts;                       // by state
    absl::flat_hash_map<uint64_t, uint32_t> steps;  // by state and event
  };
  struct Content {
    PacketId head = 0;
    uint32_t rest = 0;  // the content behind it
    uint32_t length = 0;
  };

  uint32_t InternState(Place& place, const std::string& bytes);
  const Step& Take(Place& place, const System& system, int node, uint32_t state, uint32_t event);
  void MakeStep(Place& place, const System& system, int node, uint32_t event, Effects* effects);
  void Regroup(std::span<Word> state) const;
  uint32_t Prepend(PacketId head, uint32_t rest);
  uint32_t Append(uint32_t content, PacketId packet);
  void Use(std::span<Word> state, ActionKind kind) const;
  uint32_t TimeEvent(Nanos time);
  const std::string& PassTime(std::span<Word> state);
  uint32_t Make(std::span<Word> state, int node, uint32_t event);
  bool MayFail(std::span<const Word> state, ActionKind kind) const;
  void AddChannelActions(std::span<const Word> state, size_t channel, std::vector<Action>* actions) const;
  const std::string& CheckAll(std::span<const Word> state);
  void RequireReceivers();
  const uint64_t* StateTerms(size_t life, size_t node, uint32_t state);
  const uint64_t* ContentTerms(size_t channel, uint32_t content);
  uint64_t* RowOf(std::vector<uint64_t>& table, uint32_t row);
  uint32_t RelabelledState(size_t symmetry, size_t life, size_t node, uint32_t state);
  uint32_t RelabelledContent(size_t symmetry, uint32_t content);
  PacketId RelabelledPacket(const Relabelling& to, PacketId packet);

  // The word before the last: which group it is, whether it is broken, and how many crashes there were.
  static constexpr uint32_t kLife = 0xff;
  static constexpr uint32_t kBroken = 1 << 8;
  static constexpr uint32_t kCrash = 1 << 9;
  uint32_t LifeOf(std::span<const Word> state) const { return state[PhaseWord()] & kLife; }
  const System& SystemOf(std::span<const Word> state) const { return lives_[LifeOf(state)]; }
  Place& PlaceOf(std::span<const Word> state, int node) {
    return places_[LifeOf(state) * nodes() + static_cast<size_t>(node)];
  }
  size_t nodes() const { return static_cast<size_t>(system().nodes()); }
  size_t ChannelWord(size_t channel) const { return nodes() + channel; }
  size_t PhaseWord() const { return width_ - 2; }
  size_t FaultWord() const { return width_ - 1; }
  size_t channels() const { return 2 * system().edges().size(); }
  // Edge e: 2e up, 2e + 1 down.
  int Receiver(size_t channel) const;
  const Facts& FactsOf(std::span<const Word> state, int node) const {
    return places_[LifeOf(state) * nodes() + static_cast<size_t>(node)]
        .facts[state[static_cast<size_t>(node)]];
  }

  std::deque<System> lives_;
  FaultBounds bounds_;
  size_t width_ = 0;
  std::vector<Word> initial_;
  Packets packets_;
  Blobs blobs_;
  std::vector<Place> places_;  // by life and node
  std::vector<Step> steps_;
  std::vector<Content> contents_;                      // 0: empty
  absl::flat_hash_map<uint64_t, uint32_t> prepended_;  // by head and rest
  absl::flat_hash_map<uint64_t, uint32_t> appended_;   // by content and packet
  std::vector<Nanos> times_;                           // that pass, by event
  std::vector<std::string> violations_{""};
  std::vector<Relabelling> symmetries_;
  // Terms of fingerprints: a row for each state of a place, and for each content, with a term for each
  // symmetry; 0 until asked for.
  std::vector<std::vector<uint64_t>> state_terms_;
  std::vector<uint64_t> content_terms_;
  std::vector<std::vector<uint32_t>> relabelled_contents_;  // what they become, by symmetry
  // Mode II: required_[a][b][n]: when n packets of rank a are acknowledged, rank b must have acknowledged to
  // its switch everything before this index.
  std::vector<std::vector<std::vector<Index>>> required_;
};

}  // namespace epic::check
