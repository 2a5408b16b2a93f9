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

using epic::mpi::JoinAgreement;
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

int EpicMpiComm::MakeGroup() {
  if (const int mpi_error = Place(); mpi_error != 0) return mpi_error;
  asks = true;
  const int mpi_error = AskForGroup();
  asks = false;
  asked = true;
  return mpi_error;
}

// Returns an error of the MPI's; that there is no group is none.
int EpicMpiComm::AskForGroup() {
  if (place.group_ranks < 2) {
    refused = epic::mpi::WayOf("the MPI's own, all ranks are on one host");
    return 0;
  }
  std::string reason = epic::mpi::RefusalOfAll();
  if (place.group_rank >= 0 && reason.empty()) group = epic::mpi::MakeGroup(softnic, &reason);
  JoinAgreement agreement(rank, ranks, reason, rank == 0 ? epic::mpi::RandomName() : "");
  const int mpi_error = Agree(&agreement);
  joined = agreement.step() == JoinAgreement::Step::kJoined;
  if (joined) return HasSeveral() && mpi->has_stages != 0 ? ShareRefusals() : 0;
  group = nullptr;
  if (agreement.lasts()) {
    const std::lock_guard lock(ThisProcess().mutex);
    ThisProcess().refusal = agreement.own_refusal();
  }
  refused = epic::mpi::WayOf("the MPI's own, no group: " + agreement.reason());
  if (rank == 0 && mpi_error == 0) {
    (void)std::fprintf(stderr, "EPIC: %s of %d ranks %s the MPI's own collectives: %s\n",
                       of_one_call ? "persistent calls of a communicator" : "a communicator", ranks,
                       of_one_call ? "use" : "uses", agreement.reason().c_str());
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

int EpicMpiComm::Agree(JoinAgreement* agreement) {
  for (;;) {
    int mpi_error = 0;
    int value = agreement->value();
    switch (agreement->step()) {
      case JoinAgreement::Step::kMin:
        mpi_error = mpi->min(mpi_comm, &value);
        if (mpi_error == 0) agreement->OnMin(value);
        break;
      case JoinAgreement::Step::kBroadcast:
        mpi_error =
            mpi->broadcast(mpi_comm, agreement->text().data(), epic::mpi::kTextBytes, agreement->root());
        if (mpi_error == 0) agreement->OnBroadcast();
        break;
      case JoinAgreement::Step::kJoin:
        agreement->OnJoin(Join(agreement->name()));
        break;
      case JoinAgreement::Step::kJoined:
      case JoinAgreement::Step::kRefused:
        return 0;
    }
    if (mpi_error != 0) return mpi_error;
  }
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
      result = group->Join(name, place.group_rank, place.group_ranks, ThisProcess().settings, mpi->progress);
      has_ended.store(true, std::memory_order_release);
    });
  }
  epic::mpi::ProgressUntil(*mpi, [&] { return has_ended.load(std::memory_order_acquire); });
  thread.join();
  return result;
}

void EpicMpiComm::Count(const EpicMpiCall& call, int parts, int way) const {
  const std::lock_guard lock(ThisProcess().mutex);
  ThisProcess().report.Add(call.collective, way, epic::mpi::WholeBytes(call, parts));
}

void EpicMpiComm::Leave() {
  if (group != nullptr) ThisProcess().leavers.Leave(std::move(group));
  for (EpicMpiComm* const other : of_persistent) EpicMpiCommFree(other);
  delete this;
}
