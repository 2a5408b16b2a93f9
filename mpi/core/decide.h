// Who makes a call, EPIC or the MPI as before: from what is the same on every rank, so that all decide alike.
#pragma once

#include "mpi/core/call.h"
#include "mpi/core/settings.h"

namespace epic::mpi {

// Why the MPI makes a call itself; kEpic: it does not.
enum class Reason {
  kEpic,
  kInter,  // of an intercommunicator
  kOneRank,
  kSeveralJobs,
  kNothing,  // no elements
  kType,
  kOp,
  kFloatOp,  // an operation of integers on floating-point numbers
  kUnequalCounts,
  kTooSmall,
  kTooLarge,
  kUnevenHosts,
  kNoGroupYet,       // a nonblocking call, before one that could make the group
  kSharedHosts,      // nonblocking or persistent, with several ranks on a host
  kTooLongInStages,  // the same, for what the MPI counts in int
  kTooFew,           // before the call from which on the communicator is to have a group
  kBeingMade,        // the group
  kManyPersistent,   // persistent, and all groups that a communicator has for such are taken
  kCount             // how many there are
};

// "a type that EPIC does not reduce", for the report. Never null.
const char* TextOf(Reason reason);

// The name of the MPI's function, "MPI_Allreduce". Never null.
const char* NameOf(EpicMpiCollective collective);

// Of a communicator; kEpic where it could have a group.
Reason ReasonOf(EpicMpiOutside outside);

// Arguments that the MPI must refuse have been refused before; what is left of such is given to it
// (kNothing).
Reason Decide(const EpicMpiCall& call, int ranks, const Settings& settings);

// Whether its count is of one rank's part of a longer buffer: Allgather and Reduce_scatter.
bool HasParts(EpicMpiCollective collective);

// What the call has of data in its longest buffer: all ranks' parts in Allgather and Reduce_scatter.
int64_t WholeBytes(const EpicMpiCall& call, int ranks);

}  // namespace epic::mpi
