#include "check/explorer.h"

#include <algorithm>

#include "base/check.h"
#include "check/seen.h"

namespace epic::check {
namespace {

constexpr uint64_t kProgressEvery = 1 << 16;

class Exploration {
 public:
  Exploration(Model& model, const ExploreOptions& options)
      : model_(model), options_(options), state_(model.width()), next_(model.width()) {}

  Report Run() {
    const std::vector<Word> initial = model_.Initial();
    Reach(initial, 0, {});
    while (!frontier_.empty() && report_.verdict == Verdict::kRight) {
      layer_.swap(frontier_);
      frontier_.clear();
      for (size_t at = 0; at < layer_.size() && report_.verdict == Verdict::kRight; at += model_.width())
        Expand({layer_.data() + at, model_.width()});
      if (!frontier_.empty()) ++report_.progress.depth;
    }
    if (report_.verdict == Verdict::kRight) FindHang();
    Count();
    report_.omission_bound = seen_.OmissionBound();
    report_.sizes = model_.sizes();
    return std::move(report_);
  }

 private:
  using Number = Seen::Number;

  // Expands the states in the order of their numbers.
  void Expand(std::span<const Word> state) {
    const auto number = static_cast<Number>(report_.progress.expanded++);
    model_.Enabled(state, options_.reduced, &actions_);
    const bool done = model_.Done(state);
    if (done && model_.Quiet(state)) {
      ++report_.final_states;
      report_.final_fingerprint += Fingerprint(state.first(state.size() - 1));
    }
    size_t without_fault = 0;
    for (const Action action : actions_) {
      std::ranges::copy(state, next_.begin());
      const std::string& wrong = model_.Apply(next_, action);
      ++report_.progress.transitions;
      if (!wrong.empty()) return Fail(Verdict::kViolated, wrong, number, action);
      const Number to = Reach(next_, number, action);
      if (IsFault(action.kind)) continue;
      edges_.push_back(to);
      ++without_fault;
    }
    out_.push_back(static_cast<uint8_t>(without_fault));
    ends_.push_back(done);
    if (number % kProgressEvery == 0) CheckLimits();
  }

  Number Reach(std::span<const Word> state, Number from, Action action) {
    bool fresh = false;
    const Number number = seen_.Insert(Fingerprint(state), &fresh);
    if (!fresh) return number;
    parents_.push_back(from);
    by_.push_back(action);
    frontier_.insert(frontier_.end(), state.begin(), state.end());
    return number;
  }

  void Fail(Verdict verdict, const std::string& what, Number at, std::optional<Action> last) {
    report_.verdict = verdict;
    report_.violation = what;
    if (last) report_.path.push_back(*last);
    for (; at != 0; at = parents_[at]) report_.path.push_back(by_[at]);
    std::ranges::reverse(report_.path);
  }

  // Backwards over the edges that are no faults, from the states in which the calls have ended.
  void FindHang() {
    for (bool changed = true; changed;) {
      changed = false;
      size_t edge = edges_.size();
      for (size_t n = out_.size(); n-- > 0;) {
        edge -= out_[n];
        if (ends_[n]) continue;
        for (size_t i = 0; i < out_[n] && !ends_[n]; ++i) ends_[n] = ends_[edges_[edge + i]];
        changed = changed || ends_[n];
      }
    }
    const auto hung = std::ranges::find(ends_, false);
    if (hung == ends_.end()) return;
    const auto at = static_cast<Number>(hung - ends_.begin());
    Fail(Verdict::kHung, out_[at] == 0 ? "nothing can happen any more, but calls have not ended"
                                       : "the calls cannot end any more",
         at, {});
  }

  void Count() {
    report_.progress.states = seen_.size();
    report_.progress.bytes = seen_.bytes() + (frontier_.capacity() + layer_.capacity()) * sizeof(Word) +
                             parents_.capacity() * (sizeof(Number) + sizeof(Action)) +
                             edges_.capacity() * sizeof(Number) + out_.capacity() + ends_.capacity() / 8 +
                             model_.sizes().node_bytes;
  }

  void CheckLimits() {
    Count();
    if (options_.on_progress && !options_.on_progress(report_.progress)) report_.verdict = Verdict::kStopped;
    if (report_.progress.states >= options_.limits.states || report_.progress.bytes > options_.limits.bytes)
      report_.verdict = Verdict::kUnbounded;
  }

  Model& model_;
  const ExploreOptions& options_;
  Report report_;
  Seen seen_;
  std::vector<Word> frontier_, layer_;  // states one after the other
  std::vector<Word> state_, next_;
  std::vector<Action> actions_;
  std::vector<Number> parents_;  // by number
  std::vector<Action> by_;
  std::vector<Number> edges_;  // without faults, of each expanded state one after the other
  std::vector<uint8_t> out_;   // how many each has
  std::vector<bool> ends_;     // the calls have ended, or can end
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
