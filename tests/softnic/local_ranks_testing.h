// Ranks in the test's own process, and what they call.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "epic/epic.h"
#include "tests/softnic/local_manager_testing.h"

namespace epic::softnic {

// A group of ranks in this process.
class Group {
 public:
  // `algorithms`: of each rank, where they differ.
  Group(const std::string& name, int size, PathChoice path = PathChoice::kNetwork,
        const std::vector<HostAlgorithm>& algorithms = {})
      : comms_(static_cast<size_t>(size)) {
    std::vector<std::thread> joins;
    for (int rank = 0; rank < size; ++rank) {
      Options options = LocalOptions(name, rank, size, path);
      if (!algorithms.empty()) options.algorithm = algorithms[static_cast<size_t>(rank)];
      joins.emplace_back([this, rank, options] {
        const Error error = (*this)[rank].Init(options);
        EXPECT_TRUE(error.ok()) << error.message();
      });
    }
    for (std::thread& join : joins) join.join();
  }
  Communicator& operator[](int rank) { return comms_[static_cast<size_t>(rank)]; }
  int size() const { return static_cast<int>(comms_.size()); }
  void Destroy() {
    std::vector<std::thread> leaves;
    for (Communicator& comm : comms_) {
      leaves.emplace_back([&comm] {
        const Error error = comm.Destroy();
        EXPECT_TRUE(error.ok()) << error.message();
      });
    }
    for (std::thread& leave : leaves) leave.join();
  }

 private:
  std::vector<Communicator> comms_;
};

// An AllReduce of one rank, in place; the numbers follow from rank, call and element.
struct Sum {
  Sum(int of_rank, int of_call, size_t count) : data(count) {
    for (size_t i = 0; i < count; ++i)
      data[i] = static_cast<int32_t>(of_rank * 1000003 + of_call * 17) + static_cast<int32_t>(i);
    call = of_call;
  }
  void Start(Communicator& comm) {
    const Error error =
        AllReduceAsync(data.data(), data.data(), data.size(), Datatype::kInt32, RedOp::kSum, comm, &request);
    EXPECT_TRUE(error.ok()) << error.message();
  }
  void Finish(int ranks) {
    const Error error = request.Wait();
    ASSERT_TRUE(error.ok()) << error.message();
    const int all = ranks * (ranks - 1) / 2 * 1000003;
    for (size_t i = 0; i < data.size(); ++i)
      ASSERT_EQ(data[i], all + ranks * (call * 17 + static_cast<int>(i)))
          << "call " << call << ", element " << i;
  }
  std::vector<int32_t> data;
  Request request;
  int call = 0;
};

}  // namespace epic::softnic
