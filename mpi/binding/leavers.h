// Leaves groups while the program goes on.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "mpi/group/group.h"

namespace epic::mpi {

// A thread that leaves one group after the other, in the order in which communicators were freed. MPI lets
// MPI_Comm_free wait for the other ranks, so that a program frees them in an order in which nobody waits in a
// circle. At the end all that are left go together, so that whoever does not come is waited for once.
class Leavers {
 public:
  Leavers() = default;
  ~Leavers() { Wait(); }

  // Returns at once.
  void Leave(std::unique_ptr<Group> group);
  // Returns when all groups have been left, or given up.
  void Wait();

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Group>> groups_;
  std::thread thread_;
  bool ends_ = false;
};

}  // namespace epic::mpi
