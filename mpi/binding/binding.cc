#include "mpi/binding/binding.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "mpi/binding/comm.h"
#include "mpi/binding/process.h"

namespace epic::mpi {

Process& ThisProcess() {
  static auto* const process = new Process;
  return *process;
}

int WayOf(const std::string& text) {
  const std::lock_guard lock(ThisProcess().mutex);
  return ThisProcess().report.WayOf(text);
}

}  // namespace epic::mpi

namespace {

// A join that the others have begun as well takes a fraction of a second.
constexpr std::chrono::seconds kMostForJoins(3);

}  // namespace

using epic::mpi::Process;
using epic::mpi::Reason;
using epic::mpi::ThisProcess;

size_t EpicMpiOwnSettings(const char* manager, char* text, size_t size) {
  const auto get_env = [](const char* name) -> const char* { return std::getenv(name); };
  const std::string own = Encode(epic::mpi::FromEnvironment(get_env, manager == nullptr ? "" : manager));
  const size_t copied = std::min(own.size(), size - 1);
  std::memcpy(text, own.data(), copied);
  text[copied] = '\0';
  return copied + 1;
}

int EpicMpiConfigure(const char* text, int is_first) {
  epic::mpi::Settings& settings = ThisProcess().settings;
  settings = epic::mpi::Decode(text);
  // Interfaces may be called otherwise on another host than rank 0's: a rank's own variable is right there.
  if (const char* const own = std::getenv("EPIC_IFNAME")) settings.ifname = own;
  if (is_first != 0 && !settings.wrong.empty() && !settings.off && !settings.manager.empty()) {
    (void)std::fprintf(stderr, "EPIC: the MPI's own collectives are used: %s\n", settings.wrong.c_str());
  }
  return settings.usable() ? 1 : 0;
}

EpicMpiComm* EpicMpiCommNew(int rank, int ranks, const EpicMpiFunctions* mpi, void* mpi_comm,
                            const char* softnic) {
  const epic::mpi::Settings& settings = ThisProcess().settings;
  return new (std::nothrow)
      EpicMpiComm{.rank = rank,
                  .ranks = ranks,
                  .mpi = mpi,
                  .mpi_comm = mpi_comm,
                  .softnic = softnic == nullptr ? "" : softnic,
                  .onset = epic::mpi::Onset(rank, ranks, settings.from_call, settings.from_bytes)};
}

void EpicMpiCommKeepOut(EpicMpiComm* comm, EpicMpiOutside why) { comm->outside = epic::mpi::ReasonOf(why); }

void EpicMpiCommIgnore(EpicMpiComm* comm) { comm->ignored = true; }

void EpicMpiCommFree(EpicMpiComm* comm) {
  {
    const std::lock_guard lock(comm->mutex);
    comm->freed = true;
    if (comm->oldest != nullptr) return;  // whoever ends the last call does it
  }
  comm->Leave();
}

int EpicMpiTakes(EpicMpiComm* comm, const EpicMpiCall* call, int* error) {
  *error = 0;
  if (!comm->CouldTake(*call)) return 0;
  if (!comm->asked) *error = comm->Approach(*call);
  if (*error != 0) return 0;
  if (!comm->joined) comm->CountWithout(*call);
  if (comm->joined && comm->place.even == 0 && epic::mpi::HasParts(call->collective)) {
    return comm->Leaves(*call, Reason::kUnevenHosts);
  }
  if (comm->joined && comm->group == nullptr) {
    EpicMpiCountHanded(comm, call);
  }
  return comm->joined ? 1 : 0;
}

int EpicMpiTakesRequest(EpicMpiComm* comm, const EpicMpiCall* call) {
  if (!comm->CouldTake(*call)) return 0;
  if (!comm->asked) comm->ApproachRequest(*call);
  if (!comm->asked && comm->onset.waits()) return comm->Leaves(*call, Reason::kNoGroupYet);
  if (!comm->joined) {
    comm->CountWithout(*call);
    return 0;
  }
  const Reason reason = comm->WhyNotRequest(*call);
  if (reason != Reason::kEpic) return comm->Leaves(*call, reason);
  return comm->Refuses(*call) ? 0 : 1;
}

EpicMpiComm* EpicMpiCommOfPersistent(EpicMpiComm* comm, const EpicMpiCall* call, int* error) {
  *error = 0;
  if (!comm->CouldTake(*call)) return nullptr;
  *error = comm->Place();
  if (*error != 0) return nullptr;
  Reason reason = comm->WhyNotRequest(*call);
  if (comm->of_persistent.size() >= EpicMpiComm::kMostPersistent) reason = Reason::kManyPersistent;
  // A refusal is likely to be the next call's, too, and costs all of them a time out.
  if (comm->persistent_refused != 0) {
    comm->Count(*call, comm->ranks, comm->persistent_refused);
    return nullptr;
  }
  if (reason != Reason::kEpic) {
    comm->Leaves(*call, reason);
    return nullptr;
  }
  auto* const own = new EpicMpiComm{.rank = comm->rank,
                                    .ranks = comm->ranks,
                                    .mpi = comm->mpi,
                                    .mpi_comm = comm->mpi_comm,
                                    .softnic = comm->softnic,
                                    .of_one_call = true,
                                    .onset = epic::mpi::Onset(comm->rank, comm->ranks, 1, 1),
                                    .placed = true,
                                    .place = comm->place};
  *error = own->Approach(*call);
  if (!own->joined || *error != 0) {
    if (*error == 0) comm->Count(*call, comm->ranks, own->refused);
    comm->persistent_refused = own->refused;
    delete own;
    return nullptr;
  }
  comm->of_persistent.push_back(own);
  return own->Refuses(*call) ? nullptr : own;
}

void EpicMpiCountHanded(EpicMpiComm* comm, const EpicMpiCall* call) {
  comm->Count(*call, comm->ranks, epic::mpi::WayOf(epic::mpi::kHanded));
}

EpicMpiRequest* EpicMpiStart(EpicMpiComm* comm, const EpicMpiCall* call, const void* send, void* recv,
                             int* error) {
  *error = comm->error;
  if (*error != 0) return nullptr;
  auto* const request = new (std::nothrow) EpicMpiRequest{comm, *call, send, recv};
  if (request == nullptr) {
    *error = comm->Fail("no memory for a request");
    return nullptr;
  }
  comm->Add(request);
  return request;
}

int EpicMpiTest(EpicMpiRequest* request, int* error) {
  if (!request->ended.load(std::memory_order_acquire)) request->comm->Progress();
  if (!request->ended.load(std::memory_order_acquire)) return 0;
  *error = request->error;
  return 1;
}

void EpicMpiRequestFree(EpicMpiRequest* request) { delete request; }

int EpicMpiRun(EpicMpiComm* comm, const EpicMpiCall* call, const void* send, void* recv) {
  if (comm->error != 0) return comm->error;
  if (comm->Refuses(*call)) return kEpicMpiFallBack;
  return comm->Run(*call, send, recv);
}

int EpicMpiFail(EpicMpiComm* comm, const char* text) { return comm->Fail(text); }

void EpicMpiFinalize(int is_first) {
  Process& process = ThisProcess();
  process.joins.End(kMostForJoins);
  process.leavers.Wait();
  if (is_first == 0 || !process.settings.report) return;
  const std::lock_guard lock(process.mutex);
  for (const std::string& line : process.report.Lines())
    (void)std::fprintf(stderr, "EPIC: %s\n", line.c_str());
}
