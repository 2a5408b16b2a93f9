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
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "check/action.h"
#include "check/contents.h"
#include "check/node.h"
#include "check/symmetry.h"
#include "check/system.h"

namespace epic::check {

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

  // Changes the state. Null, or what is wrong then: an invariant that the step has broken. If that is not
  // judged by, the step has stopped in the middle, and nothing can follow it.
  const Breach* Apply(std::span<Word> state, Action action);

  // The same for states that are the same but for which of nodes that nothing tells apart plays which part,
  // and different for others but for a chance of 2^-64.
  uint64_t Fingerprint(std::span<const Word> state, bool symmetric);
  size_t symmetries() const { return symmetries_.size(); }
  bool Judges(Invariant invariant) const { return system().Judges(invariant); }

  // Every host has made its calls, and they have ended.
  bool CallsEnded(std::span<const Word> state) const;
  // And every block has been given back, unless nothing is judged by that.
  bool Ended(std::span<const Word> state) const;
  // And no new group follows.
  bool Done(std::span<const Word> state) const { return Ended(state) && LastLife(state); }
  // A switch has crashed, or, between the hosts, a rank has been refused.
  bool Broken(std::span<const Word> state) const;
  // No packet is under way.
  bool Quiet(std::span<const Word> state) const;
  // Makes states the same that differ in nothing but which faults there were, and how late the calls.
  void ForgetFaults(std::span<Word> state) const;

  // Where the ranks stand whose calls have not ended: "host1 in call 0, 2 acknowledged and 1 received"; or,
  // if all have, who holds a block: "root".
  std::string Standing(std::span<const Word> state) const;

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
    const Breach* breach = nullptr;
    std::vector<std::pair<uint32_t, PacketId>> sent;  // channel and packet
  };
  // What a node is given: an action of its own, with the number of the packet or of the time that goes with
  // it.
  struct Event {
    ActionKind kind = ActionKind::kStart;  // kDeliver, kStart, kTime, kLate, kCrash, kFail or kEvict
    uint32_t with = 0;
    uint32_t Key() const { return static_cast<uint32_t>(kind) << 28 | with; }
  };
  struct NodeStates {
    std::unique_ptr<Node> node;
    Blobs states;
    std::vector<Facts> facts;                       // by state
    absl::flat_hash_map<uint64_t, uint32_t> steps;  // by state and event
  };

  uint32_t InternState(NodeStates& place, const std::string& bytes);
  const Step& StepOf(std::span<const Word> state, int node, Event event);
  void Give(NodeStates& place, const System& system, int node, Event event, Effects* effects);
  const Breach* NoteBreach(Invariant invariant, std::string what);
  const Breach* Move(std::span<Word> state, int node, Event event);
  const Breach* MoveAndCheck(std::span<Word> state, int node, Event event);
  const Breach* PassTime(std::span<Word> state, Nanos time, std::optional<int> late);
  const Breach* CheckAll(std::span<const Word> state);
  const Breach* CheckOutcomes(std::span<const Word> state);
  void Regroup(std::span<Word> state) const;
  Event TimeEvent(Nanos time, ActionKind kind);
  Nanos NextTimer(std::span<const Word> state) const;
  std::optional<Nanos> LateFor(std::span<const Word> state, int node) const;
  void AddLateTimers(std::span<const Word> state, std::vector<Action>* actions) const;
  bool Late(std::span<const Word> state) const;
  bool MayHappen(std::span<const Word> state, ActionKind kind) const;
  void CountIn(std::span<Word> state, ActionKind kind) const;
  bool Independent(std::span<const Word> state) const;
  void AddChannelActions(std::span<const Word> state, size_t channel, std::vector<Action>* actions) const;
  void AddNodeActions(std::span<const Word> state, int node, std::vector<Action>* actions) const;
  void RequireReceivers();
  const uint64_t* StateTerms(size_t life, size_t node, uint32_t state);
  const uint64_t* ContentTerms(size_t channel, uint32_t content);
  uint64_t* RowOf(std::vector<uint64_t>& table, uint32_t row);
  uint32_t RelabelledState(size_t symmetry, size_t life, size_t node, uint32_t state);
  uint32_t RelabelledContent(size_t symmetry, uint32_t content);
  PacketId RelabelledPacket(const Relabelling& to, PacketId packet);

  // How often an action of a kind that is counted has happened: a byte for each kind, in the last words.
  static constexpr size_t kCountWords = (kActions.size() + 3) / 4;
  uint32_t Count(std::span<const Word> state, ActionKind kind) const {
    return CountWord(state, kind) >> CountShift(kind) & 0xff;
  }
  template <typename T>
  T& CountWord(std::span<T> state, ActionKind kind) const {
    return state[width_ - kCountWords + static_cast<size_t>(kind) / 4];
  }
  static uint32_t CountShift(ActionKind kind) { return 8 * (static_cast<uint32_t>(kind) % 4); }
  uint32_t LifeOf(std::span<const Word> state) const { return Count(state, ActionKind::kRegroup); }
  bool LastLife(std::span<const Word> state) const { return LifeOf(state) == bounds_.regroups; }
  const System& SystemOf(std::span<const Word> state) const { return lives_[LifeOf(state)]; }
  NodeStates& PlaceOf(std::span<const Word> state, int node) {
    return places_[LifeOf(state) * nodes() + static_cast<size_t>(node)];
  }
  size_t nodes() const { return static_cast<size_t>(system().nodes()); }
  size_t ChannelWord(size_t channel) const { return nodes() + channel; }
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
  std::vector<NodeStates> places_;  // by life and node
  std::vector<Step> steps_;
  Contents contents_;
  std::vector<Nanos> times_;  // that pass, by event
  std::deque<Breach> breaches_;
  std::vector<std::vector<size_t>> inbound_;  // channels to each node
  std::vector<Relabelling> symmetries_;
  // Terms of fingerprints: a row for each state of a place, and for each content, with a term for each
  // symmetry; 0 until asked for.
  std::vector<std::vector<uint64_t>> state_terms_;
  std::vector<uint64_t> content_terms_;
  std::vector<std::vector<uint32_t>> relabelled_contents_;  // what they become, by symmetry
  // Of modes that acknowledge end to end: required_[a][b][n]: when n packets of rank a are acknowledged, rank
  // b must have acknowledged to its switch everything before this index.
  std::vector<std::vector<std::vector<Index>>> required_;
};

}  // namespace epic::check
