// Behind epic::ParallelCommunicator: three communicators, their public calls, and a thread that carries the
// end of one to the others.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "commlib/parallel_plan.h"
#include "epic/epic.h"

namespace epic::internal {

class Parallel {
 public:
  // Joins; `options` is resolved. Nothing is left if it fails.
  static Error Create(const Options& options, const std::string& host, std::shared_ptr<Parallel>* out);
  ~Parallel();
  Parallel(const Parallel&) = delete;
  Parallel& operator=(const Parallel&) = delete;

  Error AllReduce(const void* send, void* recv, size_t count, Datatype type, RedOp op);
  Error Destroy();
  void Abort(const std::string& reason);
  Error AsyncError();
  void SetTimeout(std::chrono::milliseconds timeout) {
    timeout_ = timeout;
    everyone_.SetTimeout(timeout);
  }

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }
  const ParallelPlace& place() const { return place_; }
  const Communicator& ring() const { return ring_; }
  Communicator& everyone() { return everyone_; }
  // In a child of the process that joined nothing here may be used, nor given free.
  bool InChild() const;

 private:
  explicit Parallel(const Options& options);
  Error Join(const std::string& host);
  Error JoinEveryone(const std::string& host);
  // The options of one of the groups.
  Options OptionsOf(const std::string& group, int rank, int size) const;
  Options OptionsOfPart(const std::string& group, int rank, int size) const;
  // kUnsupported or kInvalidArgument of what no rank may begin with.
  Error Check(const void* send, void* recv, size_t count, Datatype type, RedOp op) const;

  // The stages of a call, in order; with the turn.
  Error InHost(const void* send, uint8_t* recv, const Division& d, Datatype type, RedOp op);
  Error InRing(uint8_t* recv, const Division& d, Datatype type, RedOp op);
  Error Spread(uint8_t* recv, const Division& d, Datatype type);
  // A group whose call is about to be made has what is left of the time for it.
  void Limit(Communicator* comm) const;

  // Ends this rank's groups, and so those of all ranks, with the first error that was found; returns that.
  Error End(const Error& found);
  // The first error of the groups that is known; ok while all work.
  Error Found() const;
  Error StartWatching();
  void Watch();
  void StopWatching();

  Options options_;
  const uint32_t fork_depth_;
  ParallelPlace place_;
  std::string host_name_, ring_name_;  // in errors
  Communicator everyone_, host_, ring_;
  Doable doable_{};  // by the rings of all ranks
  std::atomic<std::chrono::milliseconds> timeout_;

  std::mutex turn_;                                 // of the call that is under way
  std::chrono::steady_clock::time_point deadline_;  // of that

  std::mutex mutex_;  // of what follows; no call is made with it held
  std::condition_variable stops_;
  bool stop_ = false;
  Error error_;
  std::thread watcher_;
};

}  // namespace epic::internal
