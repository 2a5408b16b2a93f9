#include "check/model.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "check/tree_modes.h"

namespace epic::check {
namespace {

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

Model::Model(const SystemConfig& config, const FaultBounds& bounds)
    : bounds_(bounds), contents_(packets_, /*ordered=*/!bounds.reorder_any) {
  for (const ActionInfo& info : kActions) {
    const uint32_t bound = info.bound ? bounds.*info.bound : kNoBound;
    EPIC_CHECK(bound == kNoBound || bound <= UINT8_MAX);
  }
  for (uint32_t life = 0; life <= bounds.regroups; ++life) {
    SystemConfig of_life = config;
    of_life.life = life;
    of_life.reuse_qpns = bounds.reuse_qpns;
    const System& made = lives_.emplace_back(of_life);
    for (int n = 0; n < made.nodes(); ++n) {
      NodeStates place;
      place.node = MakeNode(made, n, packets_, blobs_);
      std::string bytes;
      place.node->Save(bytes);
      InternState(place, bytes);  // the first: state 0
      places_.push_back(std::move(place));
    }
  }
  inbound_.resize(nodes());
  for (size_t c = 0; c < channels(); ++c) inbound_[static_cast<size_t>(Receiver(c))].push_back(c);
  width_ = nodes() + channels() + kCountWords;
  EPIC_CHECK(width_ <= kMostWords);
  initial_.assign(width_, 0);
  symmetries_ = Symmetries(system());
  state_terms_.resize(places_.size());
  relabelled_contents_.resize(symmetries_.size());
  RequireReceivers();
}

// Where switches only reflect acknowledgements, as in mode II, what is acknowledged to a rank is acknowledged
// end to end: of an index that only some ranks receive when they have acknowledged it, of others when the
// rank itself has acknowledged its result (docs/PROTOCOL.md, section 5.4).
void Model::RequireReceivers() {
  if (!Judges(Invariant::kEndToEnd) || system().by_hosts() || !AcknowledgesEndToEnd(ModesOf(system())))
    return;
  const auto hosts = static_cast<size_t>(system().hosts());
  required_.resize(hosts);
  for (size_t a = 0; a < hosts; ++a) {
    for (size_t b = 0; b < hosts; ++b) {
      std::vector<Index> needed = {0};
      // Of every group they are the same.
      const auto edge_of = [&](size_t rank) -> const Edge& {
        return system().EdgeAt(system().switches() + static_cast<int>(rank), 0);
      };
      const std::vector<Carried>& down = edge_of(b).down;
      for (const Carried& sent : edge_of(a).up) {
        const bool receives = std::ranges::find(down, sent.index, &Carried::index) != down.end();
        needed.push_back(receives && (sent.tracked || a == b) ? sent.index + 1 : needed.back());
      }
      required_[a].push_back(std::move(needed));
    }
  }
}

uint32_t Model::InternState(NodeStates& place, const std::string& bytes) {
  const uint32_t id = place.states.Intern(bytes);
  if (id == place.facts.size()) place.facts.push_back(place.node->Look());
  return id;
}

int Model::Receiver(size_t channel) const {
  const Edge& edge = system().edges()[channel / 2];
  return channel % 2 == 0 ? edge.parent : edge.child;
}

// Hands an event to the live node.
void Model::Give(NodeStates& place, const System& system, int node, Event event, Effects* effects) {
  switch (event.kind) {
    case ActionKind::kStart:
      return place.node->Start(*effects);
    case ActionKind::kTime:
      return place.node->Advance(times_[event.with], *effects);
    case ActionKind::kLate:
      return place.node->Wait(times_[event.with]);
    case ActionKind::kCrash:
      return place.node->Crash();
    case ActionKind::kFail:
      return place.node->Fail(*effects);
    case ActionKind::kEvict:
      return place.node->Evict(event.with, *effects);
    default:
      break;
  }
  const roce::Packet& packet = packets_[event.with];
  place.node->Deliver(system.PortOf(node, packet), packet, *effects);
}

// Of those that are not judged by, only a check within a core is noted.
const Breach* Model::NoteBreach(Invariant invariant, std::string what) {
  EPIC_CHECK(Judges(invariant) || invariant == Invariant::kCore);
  breaches_.push_back({invariant, std::move(what)});
  return &breaches_.back();
}

// The step that a node in this state makes: by the real code the first time, then looked up.
const Model::Step& Model::StepOf(std::span<const Word> state, int node, Event event) {
  const System& system = SystemOf(state);
  NodeStates& place = PlaceOf(state, node);
  const Word before = state[static_cast<size_t>(node)];
  const auto [it, fresh] =
      place.steps.try_emplace(uint64_t{before} << 32 | event.Key(), static_cast<uint32_t>(steps_.size()));
  if (!fresh) return steps_[it->second];
  Effects effects;
  std::string after;
  internal::SetCheckHandler(ThrowBrokenCheck);
  try {
    place.node->Load(place.states[before]);
    Give(place, system, node, event, &effects);
    place.node->Save(after);
  } catch (const BrokenCheck& broken) {
    // Where that is not judged by, what has been seen before it counts.
    if (!effects.breach || Judges(Invariant::kCore)) effects.breach = {Invariant::kCore, broken.what};
    after = place.states[before];
  }
  internal::SetCheckHandler(nullptr);
  Step step{.to = InternState(place, after), .sent = {}};
  for (const Sent& sent : effects.sent) {
    const size_t edge = system.EdgeNumber(node, sent.port);
    const bool up = system.edges()[edge].child == node;
    step.sent.emplace_back(static_cast<uint32_t>(2 * edge + (up ? 0 : 1)), sent.packet);
  }
  if (const auto& breach = effects.breach) {
    step.breach = NoteBreach(breach->invariant, fmt::format("{} {}", system.NodeName(node), breach->what));
  }
  steps_.push_back(std::move(step));
  return steps_.back();
}

bool Model::MayHappen(std::span<const Word> state, ActionKind kind) const {
  const uint32_t bound = bounds_.*Info(kind).bound;
  return bound == kNoBound || Count(state, kind) < bound;
}

void Model::CountIn(std::span<Word> state, ActionKind kind) const {
  const auto bound = Info(kind).bound;
  if (bound == nullptr || bounds_.*bound == kNoBound) return;
  if (kind == ActionKind::kTime && !Late(state)) return;
  CountWord(state, kind) += Word{1} << CountShift(kind);
}

void Model::ForgetFaults(std::span<Word> state) const {
  for (const ActionInfo& info : kActions) {
    if (info.fault || info.kind == ActionKind::kTime)
      CountWord(state, info.kind) &= ~(Word{0xff} << CountShift(info.kind));
  }
}

// Of the oldest packet, or, where there is no order, of each that is not the same as the one before it.
void Model::AddChannelActions(std::span<const Word> state, size_t channel,
                              std::vector<Action>* actions) const {
  const auto object = static_cast<uint8_t>(channel);
  if (!system().HasFaults(system().edges()[channel / 2]))
    return actions->push_back({ActionKind::kDeliver, object});
  const uint32_t content = state[ChannelWord(channel)];
  const uint32_t length = contents_.Length(content);
  for (uint32_t at = 0; at < (bounds_.reorder_any ? length : 1); ++at) {
    if (at > 0 && contents_.At(content, at) == contents_.At(content, at - 1)) continue;
    const auto place = static_cast<uint8_t>(at);
    actions->push_back({ActionKind::kDeliver, object, place});
    for (const ActionKind kind : {ActionKind::kLose, ActionKind::kDuplicate})
      if (MayHappen(state, kind)) actions->push_back({kind, object, place});
  }
  if (length > 1 && contents_.At(content, 1) != contents_.At(content, 0) &&
      MayHappen(state, ActionKind::kSwap)) {
    actions->push_back({ActionKind::kSwap, object});
  }
}

void Model::AddNodeActions(std::span<const Word> state, int node, std::vector<Action>* actions) const {
  const Facts& facts = FactsOf(state, node);
  const auto object = static_cast<uint8_t>(node);
  if (facts.may_call) actions->push_back({ActionKind::kStart, object});
  if (facts.timer_in == 0 && bounds_.late_timers > 0) {
    actions->push_back({ActionKind::kRun, object});
  } else if (facts.timer_in != kNever && MayHappen(state, ActionKind::kTimeout)) {
    actions->push_back({ActionKind::kTimeout, object});
  }
  if (facts.failed) return;
  if (Broken(state)) actions->push_back({ActionKind::kFail, object});
  const bool over = LastLife(state) && Ended(state);
  if (!system().is_host(node) && !over && MayHappen(state, ActionKind::kCrash))
    actions->push_back({ActionKind::kCrash, object});
  for (uint8_t sum = 0; sum < facts.summing && MayHappen(state, ActionKind::kEvict); ++sum)
    actions->push_back({ActionKind::kEvict, object, sum});
}

// Whether what is under way to a host is taken in the order in which it is there, whatever others do before:
// not while something else may yet take a packet's place, by a swap with what is sent later, the failure of
// the group or a new group; nor where there is no order.
bool Model::Independent(std::span<const Word> state) const {
  return LastLife(state) && !bounds_.reorder_any && !MayHappen(state, ActionKind::kSwap) &&
         !MayHappen(state, ActionKind::kCrash) && !system().config().different;
}

// The reduction: where packets are under way to a host, on every channel to it, only that host's steps, its
// calls among them. A host hears from these channels alone, in the order of each, so nothing that others do
// before it takes one of the packets changes what it does with it or with a call, nor whether it can; every
// other order of the same steps ends in the same state. (Below a switch a host has one channel.)
void Model::Enabled(std::span<const Word> state, bool reduced, std::vector<Action>* actions) const {
  actions->clear();
  if (reduced && Independent(state)) {
    for (int n = system().switches(); n < system().nodes(); ++n) {
      const std::vector<size_t>& channels = inbound_[static_cast<size_t>(n)];
      const auto empty = [&](size_t channel) { return state[ChannelWord(channel)] == 0; };
      if (std::ranges::any_of(channels, empty)) continue;
      for (const size_t channel : channels) AddChannelActions(state, channel, actions);
      return AddNodeActions(state, n, actions);
    }
  }
  for (size_t c = 0; c < channels(); ++c) {
    if (state[ChannelWord(c)] != 0) AddChannelActions(state, c, actions);
  }
  const bool ended = Ended(state);
  if (ended && !LastLife(state)) actions->push_back({ActionKind::kRegroup});
  bool timer = false;
  for (int n = 0; n < system().nodes(); ++n) {
    timer = timer || FactsOf(state, n).timer_in != kNever;
    AddNodeActions(state, n, actions);
  }
  // Packets take no time, and calls that can be made only as much as they may be late.
  if (!timer || ended || !Quiet(state) || (Late(state) && !MayHappen(state, ActionKind::kTime))) return;
  actions->push_back({ActionKind::kTime});
  if (MayHappen(state, ActionKind::kLate)) AddLateTimers(state, actions);
}

const Breach* Model::Apply(std::span<Word> state, Action action) {
  CountIn(state, action.kind);
  // Of those that happen to a channel, and to a node.
  Word& channel = state[ChannelWord(action.object)];
  const int node = action.object;
  switch (action.kind) {
    case ActionKind::kDeliver: {
      const PacketId packet = contents_.At(channel, action.place);
      channel = contents_.Without(channel, action.place);
      return MoveAndCheck(state, Receiver(action.object), {ActionKind::kDeliver, packet});
    }
    case ActionKind::kLose:
      channel = contents_.Without(channel, action.place);
      return nullptr;
    case ActionKind::kDuplicate:
      channel = contents_.Doubled(channel, action.place);
      return nullptr;
    case ActionKind::kSwap:
      channel = contents_.Swapped(channel);
      return nullptr;
    case ActionKind::kStart:
    case ActionKind::kCrash:
    case ActionKind::kFail:
      return MoveAndCheck(state, node, {action.kind});
    case ActionKind::kEvict:
      return MoveAndCheck(state, node, {action.kind, action.place});
    case ActionKind::kTimeout:
    case ActionKind::kRun:
      return MoveAndCheck(state, node, TimeEvent(FactsOf(state, node).timer_in, ActionKind::kTime));
    case ActionKind::kTime:
      return PassTime(state, NextTimer(state), {});
    case ActionKind::kLate:
      // It makes calls late as any time does that passes.
      CountIn(state, ActionKind::kTime);
      return PassTime(state, *LateFor(state, node), node);
    case ActionKind::kRegroup:
      Regroup(state);
      return nullptr;
  }
  EPIC_CHECK(false);
}

// Makes a step of a node.
const Breach* Model::Move(std::span<Word> state, int node, Event event) {
  const Step& step = StepOf(state, node, event);
  state[static_cast<size_t>(node)] = step.to;
  for (const auto& [channel, packet] : step.sent) {
    Word& word = state[ChannelWord(channel)];
    word = contents_.Add(word, packet);
  }
  return step.breach;
}

// Only what a host does can break an invariant of the whole.
const Breach* Model::MoveAndCheck(std::span<Word> state, int node, Event event) {
  if (const Breach* breach = Move(state, node, event)) return breach;
  return system().is_host(node) ? CheckAll(state) : nullptr;
}

// All nodes begin anew; what is under way stays under way.
void Model::Regroup(std::span<Word> state) const { std::ranges::fill(state.first(nodes()), Word{0}); }

// Invariants that take more than one node. Where a switch has lost what it knew, nothing can be said.
const Breach* Model::CheckAll(std::span<const Word> state) {
  if (const Breach* breach = CheckOutcomes(state)) return breach;
  if (required_.empty() || Broken(state)) return nullptr;
  for (int a = system().switches(); a < system().nodes(); ++a) {
    const auto sender = static_cast<size_t>(FactsOf(state, a).acknowledged);
    for (int b = system().switches(); b < system().nodes(); ++b) {
      if (system().GroupAt(a) != system().GroupAt(b)) continue;
      const auto& needed = required_[system().RankAt(a)][system().RankAt(b)];
      const Index must = needed[std::min(sender, needed.size() - 1)];
      const Edge& edge = system().EdgeAt(b, 0);
      const Index heard = FactsOf(state, edge.parent).heard[edge.parent_port];
      if (heard >= must) continue;
      return NoteBreach(Invariant::kEndToEnd,
                        fmt::format("{} has {} packets acknowledged, but {} has acknowledged nothing from "
                                    "index {} on",
                                    system().NodeName(a), sender, system().NodeName(b), heard));
    }
  }
  return nullptr;
}

// The ranks of a group that shares a block go one way.
const Breach* Model::CheckOutcomes(std::span<const Word> state) {
  if (!system().asks() || !Judges(Invariant::kOutcome)) return nullptr;
  for (int a = system().switches(); a < system().nodes(); ++a) {
    for (int b = system().switches(); b < system().nodes(); ++b) {
      if (system().GroupAt(a) != system().GroupAt(b)) continue;
      const uint64_t both = FactsOf(state, a).granted & FactsOf(state, b).busy;
      if (both == 0) continue;
      return NoteBreach(Invariant::kOutcome,
                        fmt::format("{} has been granted the block, and {} told that it is taken",
                                    system().NodeName(a), system().NodeName(b)));
    }
  }
  return nullptr;
}

bool Model::Broken(std::span<const Word> state) const {
  if (bounds_.crashes == 0 && !system().config().different) return false;
  for (int n = 0; n < system().nodes(); ++n) {
    if (FactsOf(state, n).failed) return true;
  }
  return false;
}

bool Model::CallsEnded(std::span<const Word> state) const {
  for (int n = system().switches(); n < system().nodes(); ++n) {
    if (!FactsOf(state, n).done) return false;
  }
  return true;
}

bool Model::Ended(std::span<const Word> state) const {
  if (!CallsEnded(state)) return false;
  if ((!system().asks() && !system().has_pool()) || !Judges(Invariant::kGivenBack)) return true;
  for (int n = 0; n < system().switches(); ++n) {
    if (FactsOf(state, n).holds) return false;
  }
  return true;
}

bool Model::Quiet(std::span<const Word> state) const {
  return std::ranges::all_of(state.subspan(nodes(), channels()), [](Word w) { return w == 0; });
}

Model::Sizes Model::sizes() const {
  Sizes sizes{.packets = packets_.size(), .channels = contents_.size(), .steps = steps_.size()};
  for (const NodeStates& place : places_) {
    sizes.node_states += place.states.size();
    sizes.node_bytes += place.states.bytes();
  }
  return sizes;
}

}  // namespace epic::check
