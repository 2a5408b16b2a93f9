// Keeps groups for a while, and leaves groups, while the program goes on.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "mpi/binding/kept.h"
#include "mpi/group/group.h"

namespace epic::mpi {

// A thread that leaves one group after the other, in the order in which communicators were freed. MPI lets
// MPI_Comm_free wait for the other ranks, so that a program frees them in an order in which nobody waits in a
// circle. At the end all that are left go together, so that whoever does not come is waited for once. Any
// thread may call.
class Leavers {
 public:
  Leavers() = default;
  ~Leavers() { Wait(); }

  // Returns at once.
  void Leave(std::unique_ptr<Group> group);
  // Keeps a group for others to take (kept.h), and leaves it if nobody has. Returns at once.
  void Keep(KeptGroup kept, std::chrono::milliseconds keep_for);
  std::string Offer(uint64_t members);
  std::unique_ptr<Group> Take(const std::string& name, int rank, int ranks);
  // Returns when all groups have been left, or given up; also those that are kept.
  void Wait();

 private:
  void Push(std::unique_ptr<Group> group);
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  KeptGroups kept_;
  std::deque<std::unique_ptr<Group>> groups_;
  std::thread thread_;
  bool ends_ = false;
};

}  // namespace epic::mpi
