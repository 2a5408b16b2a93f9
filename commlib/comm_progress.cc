// Who makes progress on a communicator: the threads that wait, and the progress thread
// (docs/HOST-INTERNALS.md, "Who makes
// progress"). comm.cc has what progress is.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "commlib/comm.h"
#include "commlib/messages.h"
#include "commlib/progress.h"
#include "protocol/collectives.h"

namespace epic::internal {
namespace {

// Sleeps are cut so that an event that the kernel lost costs a second, not the call's deadline.
constexpr auto kMaxSleep = std::chrono::seconds(1);
// Looks for each yield and reading of the clock, which cost as much as some looks that find nothing.
constexpr int kLooks = 4;

}  // namespace

void Comm::PassOn() {
  while (true) {
    switch (watch_.PassOn(calls_.open() > 0)) {
      case Watch::Next::kNothing:
        return;
      case Watch::Next::kWakeFollowers:
        return changed_.notify_all();
      case Watch::Next::kRequestNotify:
        cq_->RequestNotify();
        MakeProgress();
        break;
      case Watch::Next::kArmThread:
        return Progress::Get().Arm(cq_->channel_fd());
    }
  }
}

void Comm::SetDeadline(Call* call) {
  // The switches' answer takes some milliseconds; it is to be neither late nor old.
  constexpr std::chrono::milliseconds kMostBefore(2000);
  call->made_at = Clock::now();
  call->deadline = DeadlineAfter(call->made_at, options_.timeout);
  if (call->deadline != Clock::time_point::max()) {
    call->ask_before = std::min(kMostBefore, options_.timeout / 2);
    call->deadline -= call->ask_before;
  }
  next_deadline_ = std::min(next_deadline_, call->deadline);
}

CallsInfo Comm::TellCalls() {
  const Lock lock(mutex_);
  CallsInfo info{.group = options_.group,
                 .made = calls_.made(),
                 .open = {},
                 .waits = watch_.leads(),
                 .leaves = leaves_,
                 .awaits = calls_.Awaited()};
  const Clock::time_point now = Clock::now();
  for (const auto& call : open_) {
    if (!call) continue;
    if (info.open.size() == kMostOpenTold) break;
    info.open.push_back(
        {.number = call->number,
         .collective = std::string(NameOf(call->header.collective)),
         .for_time = std::chrono::duration_cast<std::chrono::milliseconds>(now - call->made_at)});
  }
  return info;
}

std::string Comm::AwaitedInWords() const {
  const std::vector<uint32_t> peers = calls_.Awaited();
  if (peers.empty()) return "";
  return fmt::format("this rank waits for what comes from {} {}, which may itself wait for another rank",
                     peers.size() == 1 ? "rank" : "ranks", fmt::join(peers, ", "));
}

void Comm::CheckDeadlines(Clock::time_point now) {
  const bool judged_here = phase_ == Phase::kRunning && !unanswered_.ok();
  if (judged_here && now >= unanswered_until_) return Fail(unanswered_, true);
  if (now < next_deadline_) return;
  if (phase_ != Phase::kRunning) return EndDrain();
  next_deadline_ = judged_here ? unanswered_until_ : Clock::time_point::max();
  std::optional<std::chrono::milliseconds> asks_within;
  for (const auto& call : open_) {
    if (!call) continue;
    if (call->ask_before.count() > 0 && now >= call->deadline) {
      const auto before = std::exchange(call->ask_before, std::chrono::milliseconds(0));
      asks_within = std::min(before, asks_within.value_or(before));
      call->deadline += before;
    }
    next_deadline_ = std::min(next_deadline_, call->deadline);
  }
  if (asks_within && session_) session_->AskWait(*asks_within);
  if (now < next_deadline_) return;
  std::string whom = session_ ? session_->WaitInWords() : "";
  if (whom.empty()) whom = AwaitedInWords();
  if (whom.empty()) whom = "some rank has not made it, or the network does not carry it";
  Fail({ErrorCode::kTimeout, fmt::format("call {} did not end before its deadline: {}", ended(), whom)},
       true);
}

void Comm::OnChannelReady() {
  const Lock lock(mutex_);
  if (!watch_.OnThreadWoken()) return;
  cq_->ConsumeEvent();
  watch_.OnEvents();
  MakeProgress();
  PassOn();
}

void Comm::OnTick() {
  const Lock lock(mutex_);
  TellDatagrams();  // here, since ticks come once a second at most, and without a call, too
  if (watch_.leads() || (calls_.open() == 0 && unanswered_.ok())) return;
  MakeProgress();
  CheckDeadlines(Clock::now());
  PassOn();
}

bool Comm::Test(const Call& call) {
  if (InChild()) return true;
  const Lock lock(mutex_);
  if (!call.done) MakeProgress();
  if (!call.done) CheckDeadlines(Clock::now());
  const bool done = call.done;
  PassOn();
  return done;
}

template <typename Done>
void Comm::Await(const Done& done, const std::function<void()>& meanwhile) {
  while (!done()) {
    if (watch_.Lead()) {
      Lead(done, meanwhile);
      watch_.Resign();
    } else {
      changed_.wait(mutex_, [&] {
        mutex_.AssertHeld();
        return done() || !watch_.leads();
      });
      watch_.FollowerWoke();
    }
  }
  PassOn();
}

template <typename Done>
void Comm::Lead(const Done& done, const std::function<void()>& meanwhile) {
  MakeProgress();
  if (done()) return;
  const CallNumber call = ended();
  const bool polls = always_polls_ || trials_.WayOf(call) == WaitTrials::Way::kPoll;
  uint64_t seen = completions_;
  auto now = Clock::now();
  const Nanos begin = SinceStart(now);
  spin_.Begin(begin);
  while (true) {
    CheckDeadlines(now);
    // Others may have taken what came: Post and Test make progress too.
    const bool came = std::exchange(seen, completions_) != completions_;
    const bool worth_while = spin_.KeepPolling(SinceStart(now), came);
    if (done()) break;
    if (meanwhile || (polls && worth_while)) {
      PollOn(meanwhile);
    } else {
      SleepOn();
    }
    now = Clock::now();
  }
  EndSleep();
  if (!meanwhile) trials_.Ended(call, SinceStart(now) - begin);
}

void Comm::PollOn(const std::function<void()>& meanwhile) {
  {
    const Unlock unlock(mutex_);
    if (meanwhile) meanwhile();
    mutex_.YieldTurn();
  }
  const uint64_t seen = completions_;
  for (int i = 0; i < kLooks && completions_ == seen; ++i) MakeProgress();
}

Error Comm::Wait(const Call& call) {
  if (InChild()) return ForkedError();
  const Lock lock(mutex_);
  Await([&call] { return call.done; }, options_.while_waiting);
  return call.error;
}

void Comm::AwaitCalls() {
  const Lock lock(mutex_);
  Await([this] {
    mutex_.AssertHeld();
    return calls_.open() == 0;
  });
}

void Comm::AwaitDrained() {
  const Lock lock(mutex_);
  Await([this] {
    mutex_.AssertHeld();
    return phase_ == Phase::kDrained;
  });
}

void Comm::SleepOn() {
  // An event that was asked for just now comes for new completions only: poll once more before sleeping.
  if (watch_.RequestNotify()) {
    nic_fd_ = cq_->BeginSleep();
    if (nic_fd_ < 0) cq_->RequestNotify();
  } else {
    Sleep();
    EndSleep();
  }
  MakeProgress();
}

// No longer asleep at the NIC: what was asked for meanwhile is taken back if it has not come.
void Comm::EndSleep() {
  if (std::exchange(nic_fd_, -1) >= 0 && cq_->EndSleep()) watch_.OnEvents();
}

void Comm::Sleep() {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_deadline_ - Clock::now());
  const auto sleep = std::clamp<std::chrono::milliseconds>(left, std::chrono::milliseconds(0), kMaxSleep);
  // One that is negative is passed over.
  std::array<pollfd, 3> fds = {{{.fd = cq_->channel_fd(), .events = POLLIN, .revents = 0},
                                {.fd = wake_fd_, .events = POLLIN, .revents = 0},
                                {.fd = nic_fd_, .events = POLLIN, .revents = 0}}};
  {
    const Unlock unlock(mutex_);
    poll(fds.data(), fds.size(), static_cast<int>(sleep.count()));
  }
  uint64_t wakes = 0;
  if (fds[1].revents != 0 && read(wake_fd_, &wakes, sizeof wakes) < 0) fds[1].revents = 0;  // taken already
  if (fds[0].revents == 0) return;
  cq_->ConsumeEvent();
  watch_.OnEvents();
}

}  // namespace epic::internal
