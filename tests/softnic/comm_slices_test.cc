// Calls through a switch that are longer than an invocation may be, and so are made in slices: the host
// library on softnic in virtual time, with a manager in this process (local_manager_testing.h), which lets
// invocations have some KiB instead of kMaxBytes. Also under ThreadSanitizer.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/softnic/local_calls_testing.h"

namespace epic {
namespace {

using softnic::AllCollectives;
using softnic::Group;
using softnic::LocalWorld;
using softnic::Numbers;
using softnic::OnAll;
using softnic::Succeed;
using softnic::Sum;

// Most elements of a slice: 64 KiB, so that no call that is cut fits into a bounce buffer.
constexpr size_t kMost = 16 * 1024;

struct SlicesWorld {
  SlicesWorld() { world.manager().SetInvocationBytes(kMost * sizeof(int32_t)); }
  LocalWorld world;
};

// Of one slice, of several with and without a rest, and of more than there are control buffers; with a part
// of every rank's the slices are shorter, and the parts of each lie apart.
TEST(CommSlicesTest, AllCollectives) {
  for (const int size : {2, 3}) {
    SlicesWorld slices;
    Group group("g", size);
    ASSERT_EQ(group[0].Path().path, PathChoice::kNetwork);
    for (const size_t count : {kMost, kMost + 1, 18 * kMost + 7}) AllCollectives(group, count);
    group.Destroy();
  }
}

// Some MB, as an application's; the 1 GiB of kMaxBytes is the end-to-end tests' business.
TEST(CommSlicesTest, SomeMegabytes) {
  LocalWorld world;
  world.manager().SetInvocationBytes(512 * 1024);
  Group group("g", 2);
  AllCollectives(group, 600'001);
  group.Destroy();
}

TEST(CommSlicesTest, CallsThatOverlap) {
  SlicesWorld slices;
  Group group("g", 3);
  OnAll(group, [](int rank, Communicator& comm) {
    std::vector<Sum> sums;
    for (int call = 0; call < 20; ++call) sums.emplace_back(rank, call, call % 3 == 0 ? 5 * kMost + 3 : 10);
    for (Sum& sum : sums) sum.Start(comm);
    for (Sum& sum : sums) sum.Finish(3);
  });
  group.Destroy();
}

// Slices by the network wait behind those between the hosts of the call before them, and the other way round.
TEST(CommSlicesTest, BesideCallsBetweenTheHosts) {
  SlicesWorld slices;
  slices.world.manager().SetAbilities({.has = Abilities::First()});
  Group group("g", 3);
  OnAll(group, [](int rank, Communicator& comm) {
    Sum before(rank, 1, 20 * kMost + 3), after(rank, 2, 20 * kMost + 3);
    Numbers product(2'000'003, rank + 1);  // more than is staged at a time between hosts
    before.Start(comm);
    Request request;
    Succeed(AllReduceAsync(product.data(), product.data(), product.size(), Datatype::kInt32, RedOp::kProduct,
                           comm, &request));
    after.Start(comm);
    Succeed(request.Wait());
    EXPECT_EQ(product, Numbers(product.size(), 6));
    after.Finish(3);
    before.Finish(3);
  });
  group.Destroy();
}

// Rank 1 has another count. Of a call in slices no count is told, since none is one that a program has asked
// for.
void ExpectMismatch(size_t count, size_t other) {
  SCOPED_TRACE(testing::Message() << count << " and " << other);
  SlicesWorld slices;
  Group group("g", 3);
  OnAll(group, [&](int rank, Communicator& comm) {
    Numbers data(rank == 1 ? other : count, rank);
    Succeed(Barrier(comm));
    const Error error = AllReduce(data.data(), data.data(), data.size(), Datatype::kInt32, RedOp::kSum, comm);
    EXPECT_EQ(error.code(), ErrorCode::kMismatch) << error.message();
    const std::string which = "rank 1 called with another count than rank 0";
    const std::string in_one = which + fmt::format(" (rank 0: {})", count);
    const bool is_in_one = rank != 1 && count <= kMost;
    EXPECT_THAT(error.message(), testing::AnyOf(which, is_in_one ? in_one : which));
    EXPECT_EQ(comm.AsyncError().code(), ErrorCode::kMismatch);
    EXPECT_EQ(Barrier(comm).code(), ErrorCode::kMismatch);
    EXPECT_EQ(comm.Destroy().code(), ErrorCode::kMismatch);
  });
}

TEST(CommSlicesTest, CallsThatDifferInTheirSlices) {
  ExpectMismatch(3 * kMost, kMost);          // what rank 1 calls is as long as the first slice of the others
  ExpectMismatch(3 * kMost, 2 * kMost);      // of two of them
  ExpectMismatch(kMost, 3 * kMost);          // the other way round
  ExpectMismatch(3 * kMost, 3 * kMost - 1);  // in the last slice alone
  ExpectMismatch(20 * kMost, 20 * kMost - 1);  // which is posted when others have ended
}

}  // namespace
}  // namespace epic
