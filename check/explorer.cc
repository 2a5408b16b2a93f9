#include "check/explorer.h"

#include <algorithm>

#include "check/chunks.h"
#include "check/liveness.h"
#include "check/seen.h"

namespace epic::check {
namespace {

constexpr uint64_t kProgressEvery = 1 << 16;
constexpr size_t kShownAfter = 60;

class Exploration {
 public:
  Exploration(Model& model, const ExploreOptions& options)
      : model_(model),
        options_(options),
        fair_(model),
        waiting_(model.width()),
        state_(model.width()),
        next_(model.width()) {}

  Report Run() {
    Reach(model_.Initial(), 0, {});
    options_.depth_first ? DeepestFirst() : LayerByLayer();
    if (running() && model_.Judges(Invariant::kCanEnd)) FindHang();
    Count();
    report_.omission_bound = OmissionBound(seen_.size(), options_.symmetric ? model_.symmetries() : 1) +
                             OmissionBound(fair_.states(), model_.symmetries());
    report_.sizes = model_.sizes();
    return std::move(report_);
  }

 private:
  using Number = Seen::Number;

  bool running() const { return report_.verdict == Verdict::kRight; }

  // States are numbered in the order in which they are expanded.
  void LayerByLayer() {
    for (Number number = 0; waiting_.size() != 0 && running();) {
      report_.progress.layers.push_back(waiting_.size());
      for (size_t left = waiting_.size(); left != 0 && running(); --left) {
        waiting_.PopFront(state_);
        Expand(state_, number++);
      }
      if (waiting_.size() != 0) ++report_.progress.depth;
    }
  }

  void DeepestFirst() {
    while (waiting_.size() != 0 && running()) {
      waiting_.PopBack(state_);
      const Number number = waiting_numbers_.back();
      waiting_numbers_.pop_back();
      order_.push_back(number);
      Expand(state_, number);
    }
  }

  void Expand(std::span<const Word> state, Number number) {
    ++report_.progress.expanded;
    model_.Enabled(state, options_.reduced, &actions_);
    const bool done = model_.Done(state);
    if (done && model_.Quiet(state)) {
      std::ranges::copy(state, next_.begin());
      model_.ForgetFaults(next_);
      report_.final_states.insert(model_.Fingerprint(next_, true));
    }
    size_t without_fault = 0;
    bool cut = false;
    for (const Action action : actions_) {
      // A broken group ends by the control plane's hand.
      if (action.kind == ActionKind::kTime && !model_.Broken(state)) {
        const FairRuns::Finding found = fair_.Check(state);
        if (found.breach) {
          const bool hung = found.is_hang();
          const size_t shown = hung ? std::min(found.steps.size(), kShownAfter) : 0;
          report_.after.assign(found.steps.begin(), found.steps.begin() + static_cast<ptrdiff_t>(shown));
          return Fail(hung ? Verdict::kHung : Verdict::kViolated, *found.breach, number,
                      hung ? std::vector<Action>{} : found.steps);
        }
      }
      std::ranges::copy(state, next_.begin());
      const Breach* breach = model_.Apply(next_, action);
      ++report_.progress.transitions;
      if (breach != nullptr) {
        if (model_.Judges(breach->invariant)) return Fail(Verdict::kViolated, *breach, number, {action});
        // Whether the calls could have ended there is not known: it speaks for no hang.
        cut = cut || !IsFault(action.kind);
        continue;
      }
      const Number to = Reach(next_, number, action);
      if (IsFault(action.kind)) continue;
      edges_.push_back(to);
      ++without_fault;
    }
    out_.push_back(static_cast<uint8_t>(without_fault));
    if (ends_.size() <= number) ends_.resize(std::max<size_t>(number + 1, ends_.size() * 2));
    ends_[number] = done || cut;
    if (report_.progress.expanded % kProgressEvery == 0) CheckLimits();
  }

  Number Reach(std::span<const Word> state, Number from, Action action) {
    bool fresh = false;
    const Number number = seen_.Insert(model_.Fingerprint(state, options_.symmetric), &fresh);
    if (!fresh) return number;
    parents_.push_back(from);
    by_.push_back(action);
    waiting_.PushBack(state);
    if (options_.depth_first) waiting_numbers_.push_back(number);
    return number;
  }

  void Fail(Verdict verdict, const Breach& breach, Number at, std::vector<Action> last) {
    report_.verdict = verdict;
    report_.breach = breach;
    std::ranges::reverse(last);
    report_.path = std::move(last);
    for (; at != 0; at = parents_[at]) report_.path.push_back(by_[at]);
    std::ranges::reverse(report_.path);
  }

  // Backwards over the edges that are no faults, from the states in which the calls have ended.
  void FindHang() {
    const auto number_of = [this](size_t expanded) {
      return options_.depth_first ? order_[expanded] : static_cast<Number>(expanded);
    };
    for (bool changed = true; changed;) {
      changed = false;
      size_t edge = edges_.size();
      for (size_t e = out_.size(); e-- > 0;) {
        const Number n = number_of(e);
        edge -= out_[e];
        if (ends_[n]) continue;
        for (size_t i = 0; i < out_[e] && !ends_[n]; ++i) ends_[n] = ends_[edges_[edge + i]];
        changed = changed || ends_[n];
      }
    }
    for (size_t e = 0; e < out_.size(); ++e) {
      const Number n = number_of(e);
      if (ends_[n]) continue;
      Fail(Verdict::kHung, {Invariant::kCanEnd, {}}, n, {});
      std::ranges::copy(model_.Initial(), state_.begin());
      for (const Action action : report_.path) model_.Apply(state_, action);
      if (model_.CallsEnded(state_)) {
        report_.breach = {Invariant::kGivenBack,
                          "the block will not be given back: " + model_.Standing(state_)};
        return;
      }
      report_.breach->what =
          std::string(out_[e] == 0 ? "nothing can happen any more, but calls have not ended: "
                                   : "the calls cannot end any more: ") +
          model_.Standing(state_);
      return;
    }
  }

  void Count() {
    report_.progress.states = seen_.size();
    report_.progress.bytes = seen_.bytes() + waiting_.bytes() + waiting_numbers_.capacity() * sizeof(Number) +
                             parents_.bytes() + by_.bytes() + order_.bytes() + edges_.bytes() + out_.bytes() +
                             ends_.capacity() / 8 + model_.sizes().node_bytes;
  }

  void CheckLimits() {
    Count();
    if (options_.on_progress && !options_.on_progress(report_.progress)) report_.verdict = Verdict::kStopped;
    if (report_.progress.states >= options_.limits.states || report_.progress.bytes > options_.limits.bytes)
      report_.verdict = Verdict::kUnbounded;
  }

  Model& model_;
  const ExploreOptions& options_;
  FairRuns fair_;
  Report report_;
  Seen seen_;
  Rows<Word> waiting_;                   // states that are to be expanded
  std::vector<Number> waiting_numbers_;  // theirs, depth first
  std::vector<Word> state_, next_;
  std::vector<Action> actions_;
  Chunks<Number> parents_;  // by number
  Chunks<Action> by_;
  Chunks<Number> order_;    // depth first: numbers in the order of expansion
  Chunks<Number> edges_;    // without faults, of each expanded state one after the other
  Chunks<uint8_t> out_;     // how many each has
  std::vector<bool> ends_;  // by number: the calls have ended, or can end; or a step stops in the middle
};

}  // namespace

const char* Name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kRight:
      return "right";
    case Verdict::kViolated:
      return "violated";
    case Verdict::kHung:
      return "hung";
    case Verdict::kUnbounded:
      return "not finished: limit reached";
    case Verdict::kStopped:
      return "not finished: stopped";
  }
  return "other";
}

Report Explore(Model& model, const ExploreOptions& options) { return Exploration(model, options).Run(); }

}  // namespace epic::check
