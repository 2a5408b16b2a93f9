// Sums as blocks of INT8, through a switch and between the hosts: the host library on softnic in virtual
// time, with a manager in this process (local_manager_testing.h). Also under ThreadSanitizer. Numbers are
// such that blocks hold them and their sums as they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/softnic/local_calls_testing.h"

namespace epic {
namespace {

using softnic::Group;
using softnic::LocalWorld;
using softnic::OnAll;
using softnic::Succeed;

using Floats = std::vector<float>;
constexpr auto kFloat = Datatype::kFloat32;

class CommInt8Test : public testing::TestWithParam<PathChoice> {
 protected:
  explicit CommInt8Test(bool asks = false) {
    internal::GroupAbilities group;
    group.blocks = true;
    group.levels = 1;
    group.asks = asks;
    world_.manager().SetAbilities(group);
  }
  Group Make(int size) { return {"g" + std::to_string(++groups_), size, GetParam()}; }
  LocalWorld world_;
  int groups_ = 0;  // made, each with a name of its own
};

Floats Given(float times, size_t count, size_t first = 0) {
  Floats out(count);
  for (size_t i = 0; i < count; ++i) out[i] = (first + i) % 3 == 0 ? -127 * times : 127 * times;
  return out;
}

// In one slice, and in several, with parts that lie apart.
void SumsAreRight(Group& group, size_t count) {
  SCOPED_TRACE(testing::Message() << group.size() << " ranks, " << count << " elements");
  const int n = group.size();
  const auto all = static_cast<float>(n * (n + 1) / 2);
  OnAll(group, [&](int rank, Communicator& comm) {
    const auto own = static_cast<float>(rank + 1);
    const Floats mine = Given(own, count), wide = Given(own, count * static_cast<size_t>(n));
    Floats out(count, -1);
    Succeed(AllReduce(mine.data(), out.data(), count, kFloat, RedOp::kSum, comm));
    EXPECT_EQ(out, Given(all, count));
    out = mine;
    Succeed(AllReduce(out.data(), out.data(), count, kFloat, RedOp::kAvg, comm));
    EXPECT_EQ(out, Given(all / static_cast<float>(n), count)) << "in place";
    out.assign(count, -1);
    Succeed(Reduce(mine.data(), out.data(), count, kFloat, RedOp::kSum, n - 1, comm));
    EXPECT_EQ(out, rank == n - 1 ? Given(all, count) : Floats(count, -1));
    Succeed(ReduceScatter(wide.data(), out.data(), count, kFloat, RedOp::kSum, comm));
    EXPECT_EQ(out, Given(all, count, count * static_cast<size_t>(rank)));
    EXPECT_TRUE(comm.Quantised().int8);
  });
}

TEST_P(CommInt8Test, SumsOfAllLengths) {
  for (const int n : {2, 3}) {
    Group group = Make(n);
    for (const size_t count : {size_t{1}, size_t{5000}, size_t{70'003}, size_t{200'001}})
      SumsAreRight(group, count);
    group.Destroy();
  }
}

// One whose magnitudes differ is rounded, and as it is when the program says so, on all ranks alike.
TEST_P(CommInt8Test, TheProgramTurnsThemOffAndOn) {
  Group group = Make(2);
  OnAll(group, [](int, Communicator& comm) {
    Floats data(20'000), twice(data.size());
    for (size_t i = 0; i < data.size(); ++i) {
      data[i] = static_cast<float>(i);
      twice[i] = 2 * data[i];
    }
    Floats out(data.size());
    for (const bool on : {true, false, true}) {
      comm.SetQuantise(on);
      Succeed(AllReduce(data.data(), out.data(), data.size(), kFloat, RedOp::kSum, comm));
      EXPECT_EQ(out == twice, !on);
      EXPECT_NEAR(out[100], 200, 2);
    }
  });
  group.Destroy();
}

// Who is told by the manager first has the bare words.
TEST_P(CommInt8Test, RanksThatDifferInItAreToldSo) {
  Group group = Make(2);
  OnAll(group, [](int rank, Communicator& comm) {
    Floats data(20'000);
    comm.SetQuantise(rank == 0);
    const Error error = AllReduce(data.data(), data.data(), data.size(), kFloat, RedOp::kSum, comm);
    EXPECT_EQ(error.code(), ErrorCode::kMismatch);
    const std::string words = "rank 1 called with another type than rank 0";
    const std::string own = rank == 0 ? "" : ", rank 1: float32";
    EXPECT_THAT(error.message(),
                testing::AnyOf(words, words + " (rank 0: float32 as blocks of int8" + own + ")"));
    EXPECT_EQ(comm.Destroy().code(), ErrorCode::kMismatch);
  });
}

INSTANTIATE_TEST_SUITE_P(Paths, CommInt8Test, testing::Values(PathChoice::kNetwork, PathChoice::kHosts),
                         [](const auto& given) {
                           return given.param == PathChoice::kHosts ? "Hosts" : "Network";
                         });

// Where the memory is granted, and where it is not.
class CommInt8SharedTest : public CommInt8Test {
 protected:
  CommInt8SharedTest() : CommInt8Test(/*asks=*/true) {}
};
TEST_P(CommInt8SharedTest, SumsOfAllLengths) {
  Group group = Make(2);
  for (const size_t count : {size_t{5000}, size_t{70'003}}) SumsAreRight(group, count);
  EXPECT_GT(group[0].Shared().granted, 0u);
  group.Destroy();
}
INSTANTIATE_TEST_SUITE_P(Path, CommInt8SharedTest, testing::Values(PathChoice::kNetwork));

TEST(CommInt8Alone, OfOneRankNothingIsRounded) {
  Communicator comm;
  Succeed(comm.Init({.rank = 0, .size = 1, .quantise_int8 = true, .environment = false}));
  Floats data(20'000), out(data.size());
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
  Succeed(AllReduce(data.data(), out.data(), data.size(), kFloat, RedOp::kSum, comm));
  EXPECT_EQ(out, data);
  Succeed(comm.Destroy());
}

}  // namespace
}  // namespace epic
