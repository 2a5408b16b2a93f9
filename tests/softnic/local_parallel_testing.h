// Ranks of several hosts in the test's own process: ParallelCommunicators, which say on which host they are.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "epic/parallel.h"
#include "tests/softnic/local_calls_testing.h"

namespace epic::softnic {

// Ranks of one job; rank r is on hosts[r].
class Job {
 public:
  Job(std::string name, std::vector<std::string> hosts, PathChoice path = PathChoice::kHosts)
      : name_(std::move(name)), hosts_(std::move(hosts)), comms_(hosts_.size()), path_(path) {}
  // Every rank's answer.
  std::vector<Error> Init() {
    std::vector<Error> errors(hosts_.size());
    OnAll([&](int rank, ParallelCommunicator& comm) {
      errors[static_cast<size_t>(rank)] =
          comm.Init(LocalOptions(name_, rank, size(), path_), hosts_[static_cast<size_t>(rank)]);
    });
    return errors;
  }
  void MustInit() {
    for (const Error& error : Init()) Succeed(error);
  }
  void OnAll(const std::function<void(int rank, ParallelCommunicator& comm)>& act) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank)
      threads.emplace_back([&, rank] { act(rank, comms_[static_cast<size_t>(rank)]); });
    for (std::thread& thread : threads) thread.join();
  }
  void Destroy() {
    OnAll([](int, ParallelCommunicator& comm) { Succeed(comm.Destroy()); });
  }
  int size() const { return static_cast<int>(hosts_.size()); }
  ParallelCommunicator& operator[](int rank) { return comms_[static_cast<size_t>(rank)]; }

 private:
  std::string name_;
  std::vector<std::string> hosts_;
  std::vector<ParallelCommunicator> comms_;
  PathChoice path_;
};

inline Error SumOf(Numbers* data, ParallelCommunicator& comm) {
  return AllReduce(data->data(), data->data(), data->size(), Datatype::kInt32, RedOp::kSum, comm);
}

// Out of place and in place.
inline void Sums(Job& job, const std::vector<size_t>& counts) {
  job.OnAll([&](int rank, ParallelCommunicator& comm) {
    for (const size_t count : counts) {
      SCOPED_TRACE(fmt::format("rank {} of {}, {} elements", rank, job.size(), count));
      Numbers in = Given(rank, count), out(count + 1, -1);
      Succeed(AllReduce(in.data(), out.data(), count, Datatype::kInt32, RedOp::kSum, comm));
      EXPECT_EQ(out.back(), -1) << "what is behind the result";
      out.pop_back();
      EXPECT_EQ(out, SumOfAll(job.size(), count));
      EXPECT_EQ(in, Given(rank, count)) << "the input";
      Succeed(SumOf(&in, comm));
      EXPECT_EQ(in, out) << "in place";
    }
  });
}

}  // namespace epic::softnic
