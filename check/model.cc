#include "check/model.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace epic::check {
namespace {

// Events of a node: these, and each packet.
constexpr uint32_t kStartEvent = 0;
constexpr uint32_t kCrashEvent = 1;
constexpr uint32_t kFailEvent = 2;
constexpr uint32_t kFirstPacketEvent = 3;
constexpr uint32_t kFirstTimeEvent = 1u << 31;

constexpr uint32_t kFaultBits = 8;
constexpr uint32_t kFaultMask = (1u << kFaultBits) - 1;

uint32_t ShiftOf(ActionKind kind) {
  switch (kind) {
    case ActionKind::kLose:
      return 0;
    case ActionKind::kDuplicate:
      return kFaultBits;
    case ActionKind::kSwap:
      return 2 * kFaultBits;
    default:
      return 3 * kFaultBits;
  }
}

uint64_t Key(uint32_t a, uint32_t b) { return uint64_t{a} << 32 | b; }

// A check that failed within a core, on its way to the step that broke it.
struct BrokenCheck {
  std::string what;
};

[[noreturn]] void ThrowBrokenCheck(const char* file, int line, const char* condition) {
  // Folder and file.
  const std::string_view path(file);
  const size_t name = path.rfind('/');
  const size_t folder = name == 0 || name == path.npos ? path.npos : path.rfind('/', name - 1);
  throw BrokenCheck{fmt::format("{}:{}: broken invariant: {}",
                                folder == path.npos ? path : path.substr(folder + 1), line, condition)};
}

}  // namespace

Model::Model(const SystemConfig& config, const FaultBounds& bounds) : bounds_(bounds) {
  EPIC_CHECK(std::max({bounds.losses, bounds.duplicates, bounds.reorderings, bounds.timeouts, bounds.crashes,
                       bounds.regroups}) <= kFaultMask);
  for (uint32_t life = 0; life <= bounds.regroups; ++life) {
    SystemConfig of_life = config;
    of_life.life = life;
    of_life.reuse_qpns = bounds.reuse_qpns;
    const System& made = lives_.emplace_back(of_life);
    for (int n = 0; n < made.nodes(); ++n) {
      Place place;
      place.node = made.is_host(n) ? MakeHostNode(made, n, packets_, blobs_)
                                   : MakeSwitchNode(made, n, packets_, blobs_);
      std::string bytes;
      place.node->Save(bytes);
      InternState(place, bytes);  // the first: state 0
      places_.push_back(std::move(place));
    }
  }
  width_ = nodes() + channels() + 2;
  EPIC_CHECK(width_ <= kMostWords);
  initial_.assign(width_, 0);
  contents_.push_back({});
  symmetries_ = Symmetries(system());
  state_terms_.resize(places_.size());
  relabelled_contents_.resize(symmetries_.size());
  RequireReceivers();
}

// Mode II acknowledges end to end: of an index that only some ranks receive when they have acknowledged it,
// of others when the rank itself has acknowledged its result (docs/PROTOCOL.md, section 5.4).
void Model::RequireReceivers() {
  for (size_t s = 0; s < static_cast<size_t>(system().switches()); ++s) {
    if (system().config().mode.At(s) != engine::Mode::kTranslated) return;
  }
  const auto hosts = static_cast<size_t>(system().hosts());
  const auto first = system().edges().end() - static_cast<ptrdiff_t>(hosts);
  required_.resize(hosts);
  for (size_t a = 0; a < hosts; ++a) {
    for (size_t b = 0; b < hosts; ++b) {
      std::vector<Index> needed = {0};
      const std::vector<Carried>& down = (first + static_cast<ptrdiff_t>(b))->down;
      for (const Carried& sent : (first + static_cast<ptrdiff_t>(a))->up) {
        const bool receives = std::ranges::find(down, sent.index, &Carried::index) != down.end();
        needed.push_back(receives && (sent.tracked || a == b) ? sent.index + 1 : needed.back());
      }
      required_[a].push_back(std::move(needed));
    }
  }
}

uint32_t Model::InternState(Place& place, const std::string& bytes) {
  const uint32_t id = place.states.Intern(bytes);
  if (id == place.facts.size()) place.facts.push_back(place.node->Look());
  return id;
}

int Model::Receiver(size_t channel) const {
  const Edge& edge = system().edges()[channel / 2];
  return channel % 2 == 0 ? edge.parent : edge.child;
}

void Model::MakeStep(Place& place, const System& system, int node, uint32_t event, Effects* effects) {
  if (event >= kFirstTimeEvent) return place.node->Advance(times_[event - kFirstTimeEvent], *effects);
  if (event == kStartEvent) return place.node->Start(*effects);
  if (event == kCrashEvent) return place.node->Crash();
  if (event == kFailEvent) return place.node->Fail(*effects);
  const roce::Packet& packet = packets_[event - kFirstPacketEvent];
  PortId port = 0;
  for (;; ++port) {
    const Edge& edge = system.EdgeAt(node, port);
    if (system.AddressOf(edge.child == node ? edge.parent : edge.child) == packet.src_ip) break;
  }
  place.node->Deliver(port, packet, *effects);
}

const Model::Step& Model::Take(Place& place, const System& system, int node, uint32_t state, uint32_t event) {
  const auto [it, fresh] = place.steps.try_emplace(Key(state, event), static_cast<uint32_t>(steps_.size()));
  if (!fresh) return steps_[it->second];
  Effects effects;
  std::string after;
  internal::SetCheckHandler(ThrowBrokenCheck);
  try {
    place.node->Load(place.states[state]);
    MakeStep(place, system, node, event, &effects);
    place.node->Save(after);
  } catch (const BrokenCheck& broken) {
    effects.violation = broken.what;
    after = place.states[state];
  }
  internal::SetCheckHandler(nullptr);
  Step step{.to = InternState(place, after), .sent = {}};
  for (const Sent& sent : effects.sent) {
    const Edge& edge = system.EdgeAt(node, sent.port);
    step.sent.emplace_back(static_cast<uint32_t>(2 * (edge.child - 1) + (edge.child == node ? 0 : 1)),
                           sent.packet);
  }
  if (!effects.violation.empty()) {
    step.violation = static_cast<uint32_t>(violations_.size());
    violations_.push_back(fmt::format("{} {}", system.NodeName(node), effects.violation));
  }
  steps_.push_back(std::move(step));
  return steps_.back();
}

uint32_t Model::Prepend(PacketId head, uint32_t rest) {
  const auto [it, fresh] = prepended_.try_emplace(Key(head, rest), static_cast<uint32_t>(contents_.size()));
  if (fresh) contents_.push_back({head, rest, contents_[rest].length + 1});
  return it->second;
}

uint32_t Model::Append(uint32_t content, PacketId packet) {
  if (content == 0) return Prepend(packet, 0);
  if (const auto it = appended_.find(Key(content, packet)); it != appended_.end()) return it->second;
  const Content old = contents_[content];
  const uint32_t made = Prepend(old.head, Append(old.rest, packet));
  appended_.emplace(Key(content, packet), made);
  return made;
}

bool Model::MayFail(std::span<const Word> state, ActionKind kind) const {
  if (kind == ActionKind::kCrash) return state[PhaseWord()] / kCrash < bounds_.crashes;
  const uint32_t bound = kind == ActionKind::kLose        ? bounds_.losses
                         : kind == ActionKind::kDuplicate ? bounds_.duplicates
                         : kind == ActionKind::kSwap      ? bounds_.reorderings
                                                          : bounds_.timeouts;
  return (state[FaultWord()] >> ShiftOf(kind) & kFaultMask) < bound;
}

void Model::Use(std::span<Word> state, ActionKind kind) const {
  if (kind == ActionKind::kCrash) {
    state[PhaseWord()] = (state[PhaseWord()] | kBroken) + kCrash;
  } else if (IsFault(kind)) {
    state[FaultWord()] += 1u << ShiftOf(kind);
  }
}

void Model::AddChannelActions(std::span<const Word> state, size_t channel,
                              std::vector<Action>* actions) const {
  const auto object = static_cast<uint8_t>(channel);
  const Content& content = contents_[state[ChannelWord(channel)]];
  actions->push_back({ActionKind::kDeliver, object});
  if (MayFail(state, ActionKind::kLose)) actions->push_back({ActionKind::kLose, object});
  if (MayFail(state, ActionKind::kDuplicate)) actions->push_back({ActionKind::kDuplicate, object});
  if (content.length > 1 && contents_[content.rest].head != content.head &&
      MayFail(state, ActionKind::kSwap)) {
    actions->push_back({ActionKind::kSwap, object});
  }
}

// The reduction: where a packet is under way to a host, only that host's steps. A host hears from one channel
// alone, in order, so nothing that others do before it takes the packet changes what it does with it, nor
// whether it can; every other order of the same steps ends in the same state. Not while something else may
// yet take the packet's place: a swap with what others send later, the failure of the group, a new group.
void Model::Enabled(std::span<const Word> state, bool reduced, std::vector<Action>* actions) const {
  actions->clear();
  const bool timeouts = MayFail(state, ActionKind::kTimeout);
  const bool broken = Broken(state);
  const bool last_life = LifeOf(state) == bounds_.regroups;
  const bool over = last_life && Ended(state);
  const auto add_node = [&](int node) {
    const Facts& facts = FactsOf(state, node);
    const auto object = static_cast<uint8_t>(node);
    if (!facts.started) actions->push_back({ActionKind::kStart, object});
    if (facts.timer_in != kNever && timeouts) actions->push_back({ActionKind::kTimeout, object});
    if (broken && !facts.failed) actions->push_back({ActionKind::kFail, object});
    if (!system().is_host(node) && !facts.failed && !over && MayFail(state, ActionKind::kCrash))
      actions->push_back({ActionKind::kCrash, object});
  };
  if (reduced && last_life && !MayFail(state, ActionKind::kSwap) && !MayFail(state, ActionKind::kCrash)) {
    for (int n = system().switches(); n < system().nodes(); ++n) {
      const size_t channel = 2 * static_cast<size_t>(n - 1) + 1;
      if (state[ChannelWord(channel)] == 0) continue;
      AddChannelActions(state, channel, actions);
      return add_node(n);
    }
  }
  bool quiet = true;
  for (size_t c = 0; c < channels(); ++c) {
    if (state[ChannelWord(c)] == 0) continue;
    quiet = false;
    AddChannelActions(state, c, actions);
  }
  const bool ended = Ended(state);
  if (ended && !last_life) actions->push_back({ActionKind::kRegroup, 0});
  // Until all have called, time stands still, unless it is among the faults.
  bool timer = false;
  for (int n = 0; n < system().nodes(); ++n) {
    const Facts& facts = FactsOf(state, n);
    quiet = quiet && facts.started;
    timer = timer || facts.timer_in != kNever;
    add_node(n);
  }
  if (quiet && timer && !ended) actions->push_back({ActionKind::kTime, 0});
}

const std::string& Model::Apply(std::span<Word> state, Action action) {
  Use(state, action.kind);
  if (action.kind == ActionKind::kTime) return PassTime(state);
  if (action.kind == ActionKind::kRegroup) {
    Regroup(state);
    return violations_[0];
  }
  int node = action.object;
  uint32_t event = action.kind == ActionKind::kCrash  ? kCrashEvent
                   : action.kind == ActionKind::kFail ? kFailEvent
                                                      : kStartEvent;
  if (action.kind <= ActionKind::kSwap) {
    Word& word = state[ChannelWord(action.object)];
    const Content content = contents_[word];
    if (action.kind == ActionKind::kDuplicate) {
      word = Prepend(content.head, word);
      return violations_[0];
    }
    if (action.kind == ActionKind::kSwap) {
      const Content second = contents_[content.rest];
      word = Prepend(second.head, Prepend(content.head, second.rest));
      return violations_[0];
    }
    word = content.rest;
    if (action.kind == ActionKind::kLose) return violations_[0];
    node = Receiver(action.object);
    event = kFirstPacketEvent + content.head;
  }
  if (action.kind == ActionKind::kTimeout) event = TimeEvent(FactsOf(state, node).timer_in);
  if (const uint32_t violation = Make(state, node, event); violation != 0) return violations_[violation];
  return system().is_host(node) ? CheckAll(state) : violations_[0];
}

// Makes a step of a node. Returns its violation.
uint32_t Model::Make(std::span<Word> state, int node, uint32_t event) {
  Word& at = state[static_cast<size_t>(node)];
  const Step& step = Take(PlaceOf(state, node), SystemOf(state), node, at, event);
  at = step.to;
  for (const auto& [channel, packet] : step.sent) {
    Word& word = state[ChannelWord(channel)];
    word = Append(word, packet);
  }
  return step.violation;
}

// All nodes begin anew; what is under way stays under way.
void Model::Regroup(std::span<Word> state) const {
  std::ranges::fill(state.first(nodes()), Word{0});
  state[PhaseWord()] = (state[PhaseWord()] & ~kBroken) + 1;
}

uint32_t Model::TimeEvent(Nanos time) {
  const auto at = std::ranges::find(times_, time);
  if (at == times_.end()) times_.push_back(time);
  return kFirstTimeEvent + static_cast<uint32_t>(std::ranges::find(times_, time) - times_.begin());
}

// For all nodes alike.
const std::string& Model::PassTime(std::span<Word> state) {
  Nanos next = kNever;
  for (int n = 0; n < system().nodes(); ++n) next = std::min(next, FactsOf(state, n).timer_in);
  const uint32_t event = TimeEvent(next);
  uint32_t violation = 0;
  for (int n = 0; n < system().nodes(); ++n) violation = std::max(violation, Make(state, n, event));
  return violation != 0 ? violations_[violation] : CheckAll(state);
}

// Invariants that take more than one node. Where a switch has lost what it knew, nothing can be said.
const std::string& Model::CheckAll(std::span<const Word> state) {
  if (Broken(state)) return violations_[0];
  for (size_t a = 0; a < required_.size(); ++a) {
    const auto sender =
        static_cast<size_t>(FactsOf(state, system().switches() + static_cast<int>(a)).acknowledged);
    for (size_t b = 0; b < required_.size(); ++b) {
      const auto& needed = required_[a][b];
      const Index must = needed[std::min(sender, needed.size() - 1)];
      const Edge& edge = system().edges()[static_cast<size_t>(system().switches()) + b - 1];
      const Index heard = FactsOf(state, edge.parent).heard[edge.parent_port];
      if (heard >= must) continue;
      violations_.push_back(fmt::format(
          "host{} has {} packets acknowledged, but host{} has acknowledged nothing from index {} on", a,
          sender, b, heard));
      return violations_.back();
    }
  }
  return violations_[0];
}

bool Model::Ended(std::span<const Word> state) const {
  for (int n = system().switches(); n < system().nodes(); ++n) {
    if (!FactsOf(state, n).done) return false;
  }
  return true;
}

bool Model::Quiet(std::span<const Word> state) const {
  return std::ranges::all_of(state.subspan(nodes(), channels()), [](Word w) { return w == 0; });
}

Model::Sizes Model::sizes() const {
  Sizes sizes{.packets = packets_.size(), .channels = contents_.size(), .steps = steps_.size()};
  for (const Place& place : places_) {
    sizes.node_states += place.states.size();
    sizes.node_bytes += place.states.bytes();
  }
  return sizes;
}

}  // namespace epic::check
