#include "mpi/binding/comm.h"

#include <climits>
#include <cstdio>
#include <random>
#include <thread>

#include "base/signals_blocked.h"
#include "mpi/binding/group_library.h"
#include "mpi/binding/process.h"

namespace epic::mpi {
namespace {

std::string RandomName() {
  std::random_device random;
  std::array<char, 32> name;
  (void)std::snprintf(name.data(), name.size(), "mpi-%08x%08x", random(), random());
  return name.data();
}

std::string RefusalOfAll() {
  const std::lock_guard lock(ThisProcess().mutex);
  return ThisProcess().refusal;
}

}  // namespace
}  // namespace epic::mpi

using epic::mpi::Onset;
using epic::mpi::Reason;
using epic::mpi::ThisProcess;

bool EpicMpiComm::CouldTake(const EpicMpiCall& call) const {
  if (asks || ignored) return false;
  Reason reason = outside;
  if (reason == Reason::kEpic) reason = Decide(call, ranks, ThisProcess().settings);
  if (reason == Reason::kEpic) return true;
  Leaves(call, reason);
  return false;
}

int EpicMpiComm::Leaves(const EpicMpiCall& call, Reason reason) const {
  Count(call, ranks, static_cast<int>(reason));
  return 0;
}

Reason EpicMpiComm::WhyNotRequest(const EpicMpiCall& call) const {
  if (!HasSeveral()) return Reason::kEpic;
  if (mpi->has_stages == 0) return Reason::kSharedHosts;
  if (place.even == 0 && epic::mpi::HasParts(call.collective)) return Reason::kUnevenHosts;
  return epic::mpi::WholeBytes(call, ranks) > INT_MAX ? Reason::kTooLongInStages : Reason::kEpic;
}

int EpicMpiComm::Place() {
  if (placed) return 0;
  asks = true;
  const int mpi_error = mpi->place(mpi_comm, &place);
  asks = false;
  placed = true;
  return mpi_error;
}

int EpicMpiComm::Approach(const EpicMpiCall& call) {
  if (onset.OnCall(static_cast<uint64_t>(epic::mpi::WholeBytes(call, ranks))) == Onset::Step::kCall) return 0;
  asks = true;
  const int mpi_error = Settle(MakeSteps());
  asks = false;
  return mpi_error;
}

void EpicMpiComm::ApproachRequest(const EpicMpiCall& call) {
  onset.OnRequest(static_cast<uint64_t>(epic::mpi::WholeBytes(call, ranks)));
}

void EpicMpiComm::CountWithout(const EpicMpiCall& call) const {
  Count(call, ranks, asked ? refused : static_cast<int>(onset.why_mpi()));
}

int EpicMpiComm::MakeSteps() {
  int mpi_error = 0;
  while (mpi_error == 0 && onset.step() != Onset::Step::kCall) mpi_error = MakeStep();
  if (mpi_error != 0) onset.OnFailed();
  return mpi_error;
}

int EpicMpiComm::MakeStep() {
  int mpi_error = 0;
  int value = 0;
  switch (onset.step()) {
    case Onset::Step::kLook:
      onset.OnLook(EndedJoin(), ThisProcess().joins.HasRoom());
      break;
    case Onset::Step::kMin:
      value = onset.value();
      mpi_error = mpi->min(mpi_comm, &value);
      if (mpi_error == 0) onset.OnMin(value);
      break;
    case Onset::Step::kBroadcast:
      mpi_error = mpi->broadcast(mpi_comm, onset.text().data(), epic::mpi::kTextBytes, onset.root());
      if (mpi_error == 0) onset.OnBroadcast();
      break;
    case Onset::Step::kPlace:
      mpi_error = Place();
      if (mpi_error == 0) OnPlaced();
      break;
    case Onset::Step::kTake:
      onset.OnTake(place.group_rank < 0 || TakeKept(onset.agreement()->name()));
      break;
    case Onset::Step::kDrop:
      if (taken != nullptr) ThisProcess().leavers.Leave(std::move(taken));
      onset.OnDrop();
      break;
    case Onset::Step::kJoin:
      group_name = onset.agreement()->name();
      onset.OnJoin(Join(group_name));
      break;
    case Onset::Step::kBegin:
      group_name = onset.agreement()->name();
      if (place.group_rank >= 0) joining = BeginJoin(group_name);
      onset.OnBegun();
      break;
    case Onset::Step::kCall:
      break;
  }
  return mpi_error;
}

void EpicMpiComm::OnPlaced() {
  epic::mpi::Process& process = ThisProcess();
  std::string why_not = epic::mpi::RefusalOfAll();
  const bool joins = place.group_rank >= 0 && place.group_ranks > 1 && why_not.empty();
  if (onset.waits() && joins) group = epic::mpi::MakeGroup(softnic, &why_not);
  const bool first = rank == 0 && place.group_ranks > 1;
  const std::string kept = first ? process.leavers.Offer(place.members) : "";
  onset.OnPlaced(place.group_ranks, why_not, first ? epic::mpi::RandomName() : "", kept);
}

// Once there is a group, or a refusal. An error of the MPI's; that there is no group is none.
int EpicMpiComm::Settle(int mpi_error) {
  if (!onset.has_ended()) return mpi_error;
  asked = true;
  joined = onset.uses_epic();
  if (joining != nullptr && joining->Ended() != nullptr) {
    group = joining->Take();
  } else if (joining != nullptr) {
    // An MPI error came first. The others may have the group: it is left, not aborted.
    ThisProcess().joins.GiveUp(joining, [](epic::mpi::Joined late) {
      if (late.group != nullptr) ThisProcess().leavers.Leave(std::move(late.group));
    });
  }
  if (taken != nullptr) group = std::move(taken);
  joining = nullptr;
  if (joined) return HasSeveral() && mpi->has_stages != 0 ? ShareRefusals() : 0;
  group = nullptr;
  const epic::mpi::JoinAgreement* const agreement = onset.agreement();
  if (agreement == nullptr) {
    refused = epic::mpi::WayOf("the MPI's own, all ranks are on one host");
    return mpi_error;
  }
  if (agreement->lasts()) {
    const std::lock_guard lock(ThisProcess().mutex);
    ThisProcess().refusal = agreement->own_refusal();
  }
  refused = epic::mpi::WayOf("the MPI's own, no group: " + agreement->reason());
  if (rank == 0 && mpi_error == 0) {
    (void)std::fprintf(stderr, "EPIC: %s of %d ranks %s the MPI's own collectives: %s\n",
                       of_one_call ? "persistent calls of a communicator" : "a communicator", ranks,
                       of_one_call ? "use" : "uses", agreement->reason().c_str());
  }
  return mpi_error;
}

// What the group refuses, for those that are not in it: what has been started in stages cannot be given back
// to the MPI. Rank 0 is in it, as each host's first rank is.
int EpicMpiComm::ShareRefusals() {
  std::array<std::array<char, kEpicMpiOps>, kEpicMpiTypes> refuses{};
  if (rank == 0) {
    EpicMpiCall call{};
    std::string text;
    for (int type = 1; type < kEpicMpiTypes; ++type) {
      for (int op = 1; op < kEpicMpiOps; ++op) {
        call.collective = kEpicMpiAllreduce;
        call.type = static_cast<EpicMpiType>(type);
        call.op = static_cast<EpicMpiOp>(op);
        refuses[type][op] = group->Takes(call, &text) ? 0 : 1;
      }
    }
    call = {.collective = kEpicMpiBcast};
    refuses[0][0] = group->Takes(call, &text) ? 0 : 1;
    call.collective = kEpicMpiBarrier;
    refuses[0][1] = group->Takes(call, &text) ? 0 : 1;
  }
  const int mpi_error = mpi->broadcast(mpi_comm, refuses.data(), sizeof refuses, 0);
  if (mpi_error != 0 || group != nullptr) return mpi_error;
  const int way = epic::mpi::WayOf("the MPI's own, the group lacks the type or the operation");
  for (int type = 0; type < kEpicMpiTypes; ++type) {
    for (int op = 0; op < kEpicMpiOps; ++op)
      kinds[type][op] = {.way = way, .refused = refuses[type][op] != 0};
  }
  return 0;
}

// In a thread, which takes none of the program's signals: while ranks join, messages between them go on.
epic::mpi::JoinResult EpicMpiComm::Join(const std::string& name) {
  if (group == nullptr) return {};
  epic::mpi::JoinResult result;
  std::atomic<bool> has_ended = false;
  std::thread thread;
  {
    const epic::SignalsBlocked blocked;
    thread = std::thread([&] {
      result = group->Join(name, place.group_rank, place.group_ranks, ThisProcess().settings, mpi->progress,
                           {});
      has_ended.store(true, std::memory_order_release);
    });
  }
  epic::mpi::ProgressUntil(*mpi, [&] { return has_ended.load(std::memory_order_acquire); });
  thread.join();
  return result;
}

// Of a join that goes on beside the program; of a rank that is not in the group it has always ended.
const epic::mpi::JoinResult* EpicMpiComm::EndedJoin() const {
  static const epic::mpi::JoinResult kNone;
  return joining != nullptr ? joining->Ended() : &kNone;
}

// The same while the program goes on, library and all.
std::shared_ptr<epic::mpi::Joining> EpicMpiComm::BeginJoin(const std::string& name) {
  return ThisProcess().joins.Begin([name, softnic = softnic, place = place,
                                    progress = mpi->progress](const std::function<bool()>& gives_up) {
    epic::mpi::Joined own;
    own.group = epic::mpi::MakeGroup(softnic, &own.result.refusal);
    own.result.lasting = own.group == nullptr;
    if (own.group == nullptr) return own;
    own.result = own.group->Join(name, place.group_rank, place.group_ranks, ThisProcess().settings, progress,
                                 gives_up);
    if (!own.result.refusal.empty()) own.group = nullptr;
    return own;
  });
}

bool EpicMpiComm::TakeKept(const std::string& name) {
  taken = ThisProcess().leavers.Take(name, place.group_rank, place.group_ranks);
  group_name = name;
  return taken != nullptr;
}

void EpicMpiComm::Count(const EpicMpiCall& call, int parts, int way) const {
  const std::lock_guard lock(ThisProcess().mutex);
  ThisProcess().report.Add(call.collective, way, epic::mpi::WholeBytes(call, parts));
}

void EpicMpiComm::Leave() {
  epic::mpi::Process& process = ThisProcess();
  const auto give_back = [name = group_name, place = place](std::unique_ptr<epic::mpi::Group> of) {
    const std::chrono::milliseconds keep = ThisProcess().settings.keep;
    if (keep.count() == 0) return ThisProcess().leavers.Leave(std::move(of));
    ThisProcess().leavers.Keep({.name = name,
                                .members = place.members,
                                .rank = place.group_rank,
                                .ranks = place.group_ranks,
                                .group = std::move(of)},
                               keep);
  };
  if (joining != nullptr) {
    process.joins.GiveUp(joining, [give_back](epic::mpi::Joined late) {
      if (late.group != nullptr) return give_back(std::move(late.group));
      const std::lock_guard lock(ThisProcess().mutex);
      if (late.result.lasting) ThisProcess().refusal = late.result.refusal;
    });
  }
  if (group != nullptr && error == 0) {
    give_back(std::move(group));
  } else if (group != nullptr) {
    process.leavers.Leave(std::move(group));
  }
  for (EpicMpiComm* const other : of_persistent) EpicMpiCommFree(other);
  delete this;
}
