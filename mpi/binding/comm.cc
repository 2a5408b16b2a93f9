#include "mpi/binding/comm.h"

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
using epic::mpi::ThisProcess;

bool EpicMpiComm::CouldTake(const EpicMpiCall& call) const {
  if (asks || ignored) return false;
  const epic::mpi::Reason reason = Decide(call, ranks, ThisProcess().settings);
  if (reason == epic::mpi::Reason::kEpic) return true;
  Leaves(call, reason);
  return false;
}

int EpicMpiComm::Leaves(const EpicMpiCall& call, epic::mpi::Reason reason) const {
  Count(call, ranks, static_cast<int>(reason));
  return 0;
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
  if (joined) return 0;
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
      result = group->Join(name, place.group_rank, place.group_ranks, ThisProcess().settings);
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
