// AllReduce of several ranks on each host, so that each rank sends a share of the data alone by the host's
// link ("Parallel NetReduce"; docs/HOST.md, "Several ranks on a host"). epic_c.h has the same for C.
//
//   epic::ParallelCommunicator comm;
//   epic::Error error = comm.Init();  // on every rank, options as a Communicator's
//   if (error.ok()) error = epic::AllReduce(in, out, n, epic::Datatype::kFloat32, epic::RedOp::kSum, comm);
//
// With n ranks on each host, a call is a ReduceScatter among the ranks of a host, then n AllReduces side by
// side, each of one share and among one rank per host (a *ring*), then an AllGather among the ranks of a
// host. Rules for threads, forks and errors are epic.h's.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "epic/epic.h"

namespace epic {

namespace internal {
class Parallel;
}  // namespace internal

// This process's rank among those of several hosts, each with equally many ranks. Movable; a moved-from or
// default object refuses all calls with kInvalidArgument.
class EPIC_API ParallelCommunicator {
 public:
  ParallelCommunicator();
  // Without Destroy this ends the calls of all ranks as Abort does.
  ~ParallelCommunicator();
  ParallelCommunicator(ParallelCommunicator&&) noexcept;
  ParallelCommunicator& operator=(ParallelCommunicator&&) noexcept;

  // Joins the groups of a job of `options.size` ranks, which all call it: NAME.all of all ranks and
  // NAME.host-H of one host's, which go by the hosts, and NAME.ring-I, the ranks that are the I-th on their
  // hosts; of the latter are the options' mode, path, types and scale. `host`: ranks that say the same, of at
  // most 63 bytes, are on one host; empty: those that have one kernel and one network namespace. Returns when
  // all ranks have joined all of theirs, or on all ranks with the reason why not, and can then be called
  // again; `options.gives_up` is asked while groups are joined. kInvalidArgument on every rank, with hosts and counts, if hosts have different numbers of ranks.
  Error Init(const Options& options = {}, const std::string& host = {});
  // As Communicator's: collective; leaves all groups.
  Error Destroy();
  // Ends the calls of all ranks, on all rings, with kAborted.
  void Abort(const std::string& reason = "");
  // What has ended any of the groups, on any rank; ok while it works.
  Error AsyncError() const;

  bool valid() const { return impl_ != nullptr; }
  int rank() const;  // as in the options; -1 and 0 of no communicator
  int size() const;
  int local_rank() const;  // among the ranks of its host, by their order; that is its ring's number
  int local_size() const;  // of ranks on each host
  int host() const;        // the hosts are counted by their first ranks; that is its rank in its ring
  int hosts() const;
  // Deadline of each call made from now on, all of its stages together; of everyone()'s as well.
  void SetTimeout(std::chrono::milliseconds timeout);

  // The group of this rank's ring: which way it goes, what its switches have counted, whom it waits for. Not
  // of use before Init or after Destroy, and not for calls.
  const Communicator& ring() const;
  // The group of all ranks, which goes by the hosts: for collectives that this has not. All ranks must make
  // the same calls on it. Its caller must not end it.
  Communicator& everyone();

 private:
  friend EPIC_API Error AllReduce(const void*, void*, size_t, Datatype, RedOp, ParallelCommunicator&);
  std::shared_ptr<internal::Parallel> impl_;
};

// As of a Communicator, for all ranks. Calls from several threads come one after the other.
EPIC_API Error AllReduce(const void* sendbuff, void* recvbuff, size_t count, Datatype datatype, RedOp op,
                         ParallelCommunicator& comm);

// There is nothing to gain for these: kUnsupported, with the name, and the communicator stays usable.
// everyone() has them.
EPIC_API Error Reduce(const void* sendbuff, void* recvbuff, size_t count, Datatype datatype, RedOp op,
                      int root, ParallelCommunicator& comm);
EPIC_API Error Broadcast(const void* sendbuff, void* recvbuff, size_t count, Datatype datatype, int root,
                         ParallelCommunicator& comm);
EPIC_API Error ReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, Datatype datatype,
                             RedOp op, ParallelCommunicator& comm);
EPIC_API Error AllGather(const void* sendbuff, void* recvbuff, size_t sendcount, Datatype datatype,
                         ParallelCommunicator& comm);
EPIC_API Error Barrier(ParallelCommunicator& comm);

}  // namespace epic
