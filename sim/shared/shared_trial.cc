#include "sim/shared/shared_trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "sim/faults.h"
#include "sim/shared/control.h"
#include "sim/shared/jobs.h"
#include "sim/shared/life.h"

namespace epic::sim {
namespace {

class SharedTrial final : private RankSessions {
 public:
  SharedTrial(const Scenario& scenario, const TraceSink& sink, const MakeManager& make)
      : scenario_(scenario),
        shape_(scenario),
        faults_(shape_.faults),
        world_(shape_.config, scenario.seed),
        trace_(sink),
        manager_(make ? make(world_, shape_, *this)
                      : std::make_unique<Control>(world_, shape_.config, shape_.control, shape_.choices,
                                                  static_cast<RankSessions&>(*this))) {
    trace_.Run(ReplayLine(scenario));
    world_.SetFaultRule([this](const LinkPacket& packet) {
      if (world_.now() >= shape_.faults_end) return Fate::kDeliver;
      return faults_.Next(packet, world_.now(), world_.choices());
    });
    world_.SetSendWatch([this](const LinkPacket& packet, Fate fate) { Note(packet, fate); });
    world_.SetArrivalWatch([this](const LinkPacket& packet, bool heard) {
      trace_.Arrived(world_, packet, heard);
      counts_.unheard += !heard;
    });
    for (const Crash& crash : shape_.crashes) world_.At(crash.at, [this, &crash] { Happen(crash); });
    world_.At(shape_.faults_end, [this] { trace_.FaultsOff(world_.now()); });
    for (const manager::Tenant& tenant : shape_.tenants) EPIC_CHECK(manager_->SetTenant(tenant).ok());
    manager_->SetDefaultPolicy(shape_.default_policy);
    for (const Job& job : shape_.jobs) {
      if (job.reserved) EPIC_CHECK(manager_->Create(job.spec).ok());
      lives_to_come_ += job.lives;
      world_.At(job.begin, [this, &job] { BeginLife(job, job.lives); });
    }
    LookFrom(0);
  }
  SharedTrial(const SharedTrial&) = delete;
  SharedTrial& operator=(const SharedTrial&) = delete;

  Outcome Run();

 private:
  struct Lived {
    Lived(const Life::Surroundings& place, const Job& job, int number, manager::SessionId first, int left)
        : life(place, job, number, first), lives_left(left) {}
    Life life;
    int lives_left;  // behind it
  };

  void OnSent(manager::SessionId session, const manager::SessionEvent& event) override {
    const auto& [lived, rank] = sessions_[session];
    lived->life.OnSent(rank, event);
  }
  void OnEvent(manager::SessionId session, const manager::SessionEvent& event) override {
    const auto& [lived, rank] = sessions_[session];
    lived->life.OnEvent(rank, event);
  }
  void Note(const LinkPacket& packet, Fate fate);
  void Happen(const Crash& crash);
  void BeginLife(const Job& job, int left);
  void LookFrom(Nanos time);
  void Look();
  std::string WhatIsLeft();
  std::string FirstWrong();

  const Scenario scenario_;
  SharedShape shape_;
  RandomFaults faults_;
  World world_;
  Trace trace_;
  const std::unique_ptr<WorldManager> manager_;
  Counts counts_{.runs = 1};
  std::deque<Lived> lives_;
  std::vector<Lived*> living_;
  std::vector<std::pair<Lived*, int>> sessions_;  // by number: whose, and of which rank
  int lives_to_come_ = 0;
  bool ended_ = false;
};

void SharedTrial::Note(const LinkPacket& packet, Fate fate) {
  counts_.Add(fate);
  trace_.Sent(world_, packet, fate);
}

void SharedTrial::Happen(const Crash& crash) {
  const int node = crash.is_host ? world_.node_of_host(crash.number) : crash.number;
  trace_.Crashed(world_, node, crash.until);
  ++counts_.crashes;
  if (crash.is_host) {
    world_.KillHost(crash.number, crash.until);
    for (Lived* const lived : living_) lived->life.OnHostKilled(crash.number);
  } else {
    manager_->CrashEngine(crash.number, crash.until);
  }
  world_.At(crash.until, [this, node] { trace_.Restarted(world_, node); });
}

// left: this one and those behind it.
void SharedTrial::BeginLife(const Job& job, int left) {
  const auto number = static_cast<int>(lives_.size());
  const Life::Surroundings place{world_, *manager_, shape_, scenario_, trace_};
  Lived& lived = lives_.emplace_back(place, job, number, sessions_.size(), left - 1);
  for (size_t r = 0; r < job.rank_host.size(); ++r) sessions_.emplace_back(&lived, static_cast<int>(r));
  living_.push_back(&lived);
  --lives_to_come_;
  lived.life.Begin();
}

// At what ranks have done, a few times in the time between two calls of one.
void SharedTrial::LookFrom(Nanos time) {
  world_.At(time, [this, time] {
    Look();
    if (!ended_) LookFrom(time + 1 + std::max(shape_.spread / 4, shape_.look_after));
  });
}

void SharedTrial::Look() {
  for (Lived* const lived : living_) lived->life.Settle();
  const auto is_over = [this](Lived* lived) {
    if (!lived->life.over()) return false;
    const Job& job = lived->life.job();
    const auto pause = static_cast<Nanos>(shape_.choices.Below(static_cast<uint64_t>(job.pause)));
    if (lived->lives_left > 0)
      world_.At(manager_->KnownBy() + pause,
                [this, &job, left = lived->lives_left] { BeginLife(job, left); });
    return true;
  };
  std::erase_if(living_, is_over);
  ended_ = living_.empty() && lives_to_come_ == 0 && manager_->Leftovers().empty();
}

// When all lives are over, and the operator has taken back what he had asked for.
std::string SharedTrial::WhatIsLeft() {
  for (const Job& job : shape_.jobs) {
    if (job.reserved && !manager_->Destroy(job.spec.name).ok())
      return fmt::format("group {} cannot be destroyed\n", job.spec.name);
  }
  for (const manager::Tenant& tenant : shape_.tenants) {
    if (const Status status = manager_->RemoveTenant(tenant.name); !status.ok())
      return fmt::format("{} cannot be removed: {}\n", tenant.name, std::string(status.message()));
  }
  const std::vector<std::string> names = manager_->Names();
  return names.empty() ? "" : fmt::format("group {} is still there\n", names[0]);
}

std::string SharedTrial::FirstWrong() {
  if (!manager_->wrong().empty()) return manager_->wrong();
  for (const Lived& lived : lives_) {
    if (std::string wrong = lived.life.Wrong(); !wrong.empty()) return wrong;
  }
  return {};
}

Outcome SharedTrial::Run() {
  const auto last_start = [this] {
    Nanos last = shape_.faults_end;
    for (const Job& job : shape_.jobs) last = std::max(last, job.begin);
    for (const Lived& lived : lives_) last = std::max(last, lived.life.last_start());
    return last;
  };
  bool ended = false;
  for (Nanos limit = 0; !ended && limit < last_start() + shape_.bound;) {
    limit = last_start() + shape_.bound;
    ended = world_.RunUntil([this] { return ended_; }, limit);
  }
  for (const Lived& lived : lives_) lived.life.AddTo(&counts_);
  manager_->AddTo(&counts_);
  counts_.packets = world_.packets();
  counts_.super_frames = world_.super_frames();
  counts_.late_timers = world_.late_timers();
  counts_.time = world_.now();
  Outcome outcome{.verdict = ended ? Verdict::kRight : Verdict::kHung, .detail = {}, .counts = counts_};
  if (!ended) {
    outcome.detail = fmt::format("not all has ended {} ms after the last call and the last fault\n{}",
                                 shape_.bound / kMillisecond, manager_->Leftovers());
    for (const Lived* const lived : living_) outcome.detail += lived->life.Standing();
  }
  std::string wrong = FirstWrong();
  if (ended && wrong.empty()) wrong = WhatIsLeft();
  if (!wrong.empty()) {
    outcome.verdict = Verdict::kWrong;
    outcome.detail = wrong;
  }
  trace_.Verdict(world_.now(), Name(outcome.verdict));
  return outcome;
}

}  // namespace

Outcome RunShared(const Scenario& scenario, const TraceSink& trace, const MakeManager& make) {
  EPIC_CHECK(PlanNamed(scenario.name).shares);
  return SharedTrial(scenario, trace, make).Run();
}

}  // namespace epic::sim
