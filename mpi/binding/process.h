// What a process has of EPIC under its MPI, once.
#pragma once

#include <mutex>
#include <string>

#include "mpi/binding/binding.h"
#include "mpi/binding/joins.h"
#include "mpi/binding/leavers.h"
#include "mpi/core/report.h"
#include "mpi/binding/rest.h"
#include "mpi/core/settings.h"

namespace epic::mpi {

// A process's only ones, as MPI's state is.
struct Process {
  Settings settings;  // not changed any more when communicators are made
  std::mutex mutex;   // of the report and the refusal
  Report report;
  // Why no communicator gets a group from now on: what it took to find out is not waited for again. Ranks of
  // a communicator may differ in it, as they agree before they join.
  std::string refusal;
  Joins joins;
  Leavers leavers;
};

// Never ended: the MPI ends it (EpicMpiFinalize), or nobody does, as after exit without MPI_Finalize.
Process& ThisProcess();

// The way of a call in the report, of a rank that is not in the group.
inline constexpr const char* kHanded = "by EPIC, handed to another rank of the host";

// The number of a way in the report; any thread may ask.
int WayOf(const std::string& text);

// Polls what does not know of the MPI, which goes on meanwhile, until it is true.
template <typename Condition>
void ProgressUntil(const EpicMpiFunctions& mpi, const Condition& condition) {
  for (EpicMpiWaiting waiting = {}; !condition(); EpicMpiRest(&waiting)) mpi.progress();
}

}  // namespace epic::mpi
