// The order of a communicator's calls under way, how many there are at a time, and how they end.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mpi/binding/binding.h"
#include "mpi/binding/comm.h"
#include "mpi/binding/process.h"

namespace epic::mpi {
namespace {

constexpr int kErrorCode = 77;

// What the test wants of a group, and what it has been asked for.
struct World {
  std::vector<int64_t> started;  // the calls' counts
  size_t ended = 0;              // how many of them have ended
  std::vector<int64_t> run;      // the counts of those that were made to their end at once
  size_t most = SIZE_MAX;        // how many at a time the group has room for
  std::string refusal;           // of the next call that is started
  std::string failure;           // of the next call that ends
  std::string aborted;
  int left = 0;
};

class FakePending : public Pending {
 public:
  FakePending(World* world, size_t number) : world_(world), number_(number) {}
  bool Test() override { return number_ < world_->ended; }
  std::string Result() override { return std::exchange(world_->failure, ""); }

 private:
  World* world_;
  size_t number_;
};

class FakeGroup : public Group {
 public:
  explicit FakeGroup(World* world) : world_(world) {}
  JoinResult Join(const std::string&, int, int, const Settings&, void (*)(), const std::function<bool()>&) override {
    return {};
  }
  bool Takes(const EpicMpiCall& call, std::string* text) override {
    *text = call.op == kEpicMpiProduct ? "operation product is not in leaf1" : "through the switches";
    return call.op != kEpicMpiProduct;
  }
  Started Start(const EpicMpiCall& call, const void*, void*, std::unique_ptr<Pending>* pending,
                std::string* message) override {
    *message = world_->refusal;
    if (!world_->refusal.empty()) return Started::kFailed;
    *message = "no locked memory";
    if (world_->started.size() - world_->ended >= world_->most) return Started::kLater;
    *pending = std::make_unique<FakePending>(world_, world_->started.size());
    world_->started.push_back(call.count);
    return Started::kYes;
  }
  std::string Run(const EpicMpiCall& call, const void*, void*) override {
    world_->run.push_back(call.count);
    return std::exchange(world_->failure, "");
  }
  bool IsWhole() override { return world_->aborted.empty(); }
  void Abort(const std::string& reason) override { world_->aborted = reason; }
  void Leave(std::chrono::milliseconds) override { ++world_->left; }

 private:
  World* world_;
};

const EpicMpiFunctions kFunctions = {.min = nullptr,
                                     .broadcast = nullptr,
                                     .progress = [] {},
                                     .error_code = [](const char*) { return kErrorCode; },
                                     .place = nullptr};

class RequestsTest : public testing::Test {
 protected:
  RequestsTest() { Join(comm_); }
  ~RequestsTest() override {
    EpicMpiCommFree(comm_);
    EpicMpiFinalize(0);
    EXPECT_EQ(world_.left, 1);
    for (EpicMpiRequest* const request : requests_) EpicMpiRequestFree(request);
  }

  // Groups at once, which are not kept, but in tests that are about that.
  void SetUp() override { ThisProcess().settings = {.from_call = 1, .keep = {}}; }
  static void SetUpTestSuite() { ThisProcess().settings = {.from_call = 1, .keep = {}}; }

  void Join(EpicMpiComm* comm) {
    comm->asked = comm->joined = comm->placed = true;
    comm->place = {.group_rank = 0, .group_ranks = 4, .even = 1};
    comm->group = std::make_unique<FakeGroup>(&world_);
  }

  static EpicMpiCall Call(int64_t count, EpicMpiOp op = kEpicMpiSum) {
    return {
        .collective = kEpicMpiAllreduce, .type = kEpicMpiInt32, .op = op, .count = count, .bytes = 4 * count};
  }

  // Starts so many calls, of 1 and more elements.
  void Start(int calls) {
    for (int i = 0; i < calls; ++i) {
      const EpicMpiCall call = Call(static_cast<int64_t>(requests_.size()) + 1);
      int error = 0;
      EpicMpiRequest* const request = EpicMpiStart(comm_, &call, nullptr, nullptr, &error);
      ASSERT_EQ(error, 0);
      requests_.push_back(request);
    }
  }

  // What Test says of a request; -1: it has not ended.
  int Test(size_t number) {
    int error = 0;
    return EpicMpiTest(requests_[number], &error) != 0 ? error : -1;
  }

  World world_;
  EpicMpiComm* comm_ = EpicMpiCommNew(0, 4, &kFunctions, nullptr, nullptr);
  std::vector<EpicMpiRequest*> requests_;
};

TEST_F(RequestsTest, CallsEndInTheOrderInWhichTheyWereStarted) {
  Start(3);
  EXPECT_EQ(world_.started, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(Test(0), -1);
  world_.ended = 2;
  EXPECT_EQ(Test(2), -1);
  EXPECT_EQ(Test(1), 0);
  EXPECT_EQ(Test(0), 0);
  world_.ended = 3;
  EXPECT_EQ(Test(2), 0);
}

TEST_F(RequestsTest, MoreThanTheLibraryGetsWaitForTheirTurn) {
  constexpr size_t kMost = EpicMpiComm::kMostPending;
  Start(1500);
  EXPECT_EQ(world_.started.size(), kMost);
  world_.ended = 10;
  EXPECT_EQ(Test(1499), -1) << "tests the oldest, too";
  EXPECT_EQ(world_.started.size(), kMost + 10);
  while (world_.started.size() < 1500) {
    world_.ended = world_.started.size();
    EXPECT_EQ(Test(1499), -1);
  }
  for (size_t i = 0; i < 1500; ++i) ASSERT_EQ(world_.started[i], static_cast<int64_t>(i) + 1);
  world_.ended = 1500;
  EXPECT_EQ(Test(1499), 0);
}

TEST_F(RequestsTest, WithoutRoomACallWaitsForThoseBeforeIt) {
  world_.most = 2;
  Start(3);
  EXPECT_EQ(world_.started.size(), 2u);
  world_.ended = 1;
  EXPECT_EQ(Test(0), 0);
  EXPECT_EQ(world_.started.size(), 3u);
  world_.ended = 3;
  EXPECT_EQ(Test(2), 0);
  EXPECT_EQ(world_.aborted, "");
}

TEST_F(RequestsTest, WithoutRoomAndWithNothingToWaitForItIsAnError) {
  world_.most = 0;
  Start(1);
  EXPECT_EQ(Test(0), kErrorCode);
  EXPECT_EQ(world_.aborted, "no locked memory");
}

TEST_F(RequestsTest, ACallThatFailsEndsThoseThatWaitAndThoseThatCome) {
  constexpr int kCalls = EpicMpiComm::kMostPending + 2;
  Start(kCalls);
  world_.failure = "rank lost: rank 3";
  world_.ended = 1;
  EXPECT_EQ(Test(0), kErrorCode);
  EXPECT_EQ(world_.aborted, "rank lost: rank 3");
  EXPECT_EQ(Test(kCalls - 1), -1) << "the library has buffers of calls before it";
  world_.ended = EpicMpiComm::kMostPending;
  EXPECT_EQ(Test(kCalls - 1), kErrorCode);
  EXPECT_EQ(world_.started.size(), static_cast<size_t>(EpicMpiComm::kMostPending));
  int error = 0;
  const EpicMpiCall call = Call(1);
  EXPECT_EQ(EpicMpiStart(comm_, &call, nullptr, nullptr, &error), nullptr);
  EXPECT_EQ(error, kErrorCode);
  EXPECT_EQ(EpicMpiRun(comm_, &call, nullptr, nullptr), kErrorCode);
}

TEST_F(RequestsTest, ACallThatWaitsIsMadeAtOnceIfNoneIsUnderWay) {
  const EpicMpiCall call = Call(9);
  EXPECT_EQ(EpicMpiRun(comm_, &call, nullptr, nullptr), 0);
  EXPECT_EQ(world_.run, (std::vector<int64_t>{9}));
  EXPECT_EQ(world_.started.size(), 0u);
  world_.failure = "rank lost: rank 3";
  EXPECT_EQ(EpicMpiRun(comm_, &call, nullptr, nullptr), kErrorCode);
  EXPECT_EQ(world_.aborted, "rank lost: rank 3");
}

TEST_F(RequestsTest, ACallThatWaitsComesBehindThoseUnderWay) {
  static World* world;
  world = &world_;
  EpicMpiFunctions functions = kFunctions;
  functions.progress = [] { ++world->ended; };
  comm_->mpi = &functions;
  Start(2);
  const EpicMpiCall call = Call(9);
  EXPECT_EQ(EpicMpiRun(comm_, &call, nullptr, nullptr), 0);
  EXPECT_EQ(world_.started, (std::vector<int64_t>{1, 2, 9}));
  EXPECT_EQ(world_.run.size(), 0u);
  EXPECT_EQ(Test(0), 0);
  EXPECT_EQ(Test(1), 0);
  comm_->mpi = &kFunctions;
}

TEST_F(RequestsTest, ACallThatCannotBeStartedIsAnErrorForAll) {
  world_.refusal = "internal: out of order";
  Start(1);
  EXPECT_EQ(Test(0), kErrorCode);
  EXPECT_EQ(world_.aborted, "internal: out of order");
}

TEST_F(RequestsTest, WhatTheGroupLacksIsTheMpis) {
  const EpicMpiCall sum = Call(1);
  const EpicMpiCall product = Call(1, kEpicMpiProduct);
  EXPECT_EQ(EpicMpiTakesRequest(comm_, &sum), 1);
  EXPECT_EQ(EpicMpiTakesRequest(comm_, &product), 0);
  EXPECT_EQ(EpicMpiRun(comm_, &product, nullptr, nullptr), kEpicMpiFallBack);
}

TEST_F(RequestsTest, WithSeveralRanksOnAHostOrWithoutAGroupNonblockingCallsAreTheMpis) {
  const EpicMpiCall sum = Call(1);
  comm_->place.group_ranks = 2;
  EXPECT_EQ(EpicMpiTakesRequest(comm_, &sum), 0);
  comm_->place.group_ranks = 4;
  comm_->asked = false;
  EXPECT_EQ(EpicMpiTakesRequest(comm_, &sum), 0);
  comm_->asked = true;
  EXPECT_EQ(EpicMpiTakesRequest(comm_, &sum), 1);
}

// Of a front end that has such calls in stages.
TEST_F(RequestsTest, WithSeveralRanksOnAHostCallsAreEpicsWhatTheMpiCanCountAndHostsHaveInEqualParts) {
  EpicMpiFunctions functions = kFunctions;
  functions.has_stages = 1;
  comm_->mpi = &functions;
  comm_->place = {.group_rank = 0, .group_ranks = 2, .even = 1};
  const EpicMpiCall sum = Call(1);
  const EpicMpiCall product = Call(1, kEpicMpiProduct);
  EpicMpiCall parts = {.collective = kEpicMpiAllgather, .count = 1 << 29, .bytes = 1 << 29};
  EXPECT_EQ(EpicMpiTakesRequest(comm_, &sum), 1);
  EXPECT_EQ(EpicMpiTakesRequest(comm_, &product), 0);
  EXPECT_EQ(EpicMpiTakesRequest(comm_, &parts), 0) << "2 GiB of four ranks";
  --parts.bytes;
  EXPECT_EQ(EpicMpiTakesRequest(comm_, &parts), 1);
  comm_->place.even = 0;
  EXPECT_EQ(EpicMpiTakesRequest(comm_, &parts), 0);
  EXPECT_EQ(EpicMpiTakesRequest(comm_, &sum), 1);
  comm_->mpi = &kFunctions;
}

// Rank 0 has said that the group lacks products.
int TellOfProducts(void*, void* data, size_t bytes, int) {
  std::array<std::array<char, kEpicMpiOps>, kEpicMpiTypes> refused{};
  if (bytes != sizeof refused) return 0;  // of the join
  refused[kEpicMpiInt32][kEpicMpiProduct] = 1;
  std::memcpy(data, refused.data(), bytes);
  return 0;
}

int BesideTheGroup(void*, EpicMpiPlace* place) {
  *place = {.group_rank = -1, .group_ranks = 2, .even = 1};
  return 0;
}

TEST_F(RequestsTest, ARankBesideTheGroupKnowsWhatItRefuses) {
  EpicMpiFunctions functions = kFunctions;
  functions.min = [](void*, int*) { return 0; };
  functions.broadcast = TellOfProducts;
  functions.place = BesideTheGroup;
  functions.has_stages = 1;
  EpicMpiComm* const beside = EpicMpiCommNew(1, 4, &functions, nullptr, nullptr);
  const EpicMpiCall sum = Call(1);
  const EpicMpiCall product = Call(1, kEpicMpiProduct);
  int error = -1;
  EXPECT_EQ(EpicMpiTakes(beside, &sum, &error), 1);
  EXPECT_EQ(error, 0);
  EXPECT_EQ(EpicMpiTakesRequest(beside, &sum), 1);
  EXPECT_EQ(EpicMpiTakesRequest(beside, &product), 0);
  EpicMpiCommFree(beside);
}

int InTheGroup(void*, EpicMpiPlace* place) {
  *place = {.group_rank = 0, .group_ranks = 4, .even = 1, .members = 7};
  return 0;
}

// As all ranks have it: whatever this one says is the least, and what rank 0 says is its own.
constexpr EpicMpiFunctions kAllAlike = {.min = [](void*, int*) { return 0; },
                                        .broadcast = [](void*, void*, size_t, int) { return 0; },
                                        .progress = [] {},
                                        .error_code = [](const char*) { return kErrorCode; },
                                        .place = InTheGroup};

TEST_F(RequestsTest, TheGroupOfOneThatWasFreedIsTheNextOnesAtTheCallFromWhichOnThereIsToBeOne) {
  ThisProcess().settings = {.from_call = 3, .keep = std::chrono::hours(1)};
  EpicMpiComm* const first = EpicMpiCommNew(0, 4, &kAllAlike, nullptr, nullptr);
  World world;
  Join(first);
  first->group = std::make_unique<FakeGroup>(&world);
  first->group_name = "mpi-1";
  InTheGroup(nullptr, &first->place);
  EpicMpiCommFree(first);
  EpicMpiComm* const next = EpicMpiCommNew(0, 4, &kAllAlike, nullptr, nullptr);
  const EpicMpiCall sum = Call(1);
  int error = -1;
  EXPECT_EQ(EpicMpiTakes(next, &sum, &error), 0);
  EXPECT_EQ(EpicMpiTakesRequest(next, &sum), 0);
  EXPECT_EQ(EpicMpiTakes(next, &sum, &error), 1);
  EXPECT_EQ(error, 0);
  EXPECT_EQ(EpicMpiTakesRequest(next, &sum), 1);
  EXPECT_EQ(EpicMpiRun(next, &sum, nullptr, nullptr), 0);
  EXPECT_EQ(world.run, std::vector<int64_t>{1});
  EXPECT_EQ(world.left, 0);
  EpicMpiCommFree(next);
  EpicMpiFinalize(0);
  EXPECT_EQ(world.left, 1);
}

TEST_F(RequestsTest, AGroupThatHasEndedIsNotKept) {
  ThisProcess().settings = {.from_call = 3, .keep = std::chrono::hours(1)};
  EpicMpiComm* const first = EpicMpiCommNew(0, 4, &kAllAlike, nullptr, nullptr);
  World world;
  Join(first);
  first->group = std::make_unique<FakeGroup>(&world);
  first->place.members = 7;
  EpicMpiFail(first, "this rank cannot");
  EpicMpiCommFree(first);
  EXPECT_EQ(ThisProcess().leavers.Offer(7), "");
  EpicMpiFinalize(0);
  EXPECT_EQ(world.left, 1);
}

TEST_F(RequestsTest, ACommunicatorThatWasFreedGoesWithItsLastCall) {
  EpicMpiComm* const other = EpicMpiCommNew(0, 4, &kFunctions, nullptr, nullptr);
  Join(other);
  const EpicMpiCall call = Call(1);
  int error = 0;
  EpicMpiRequest* const request = EpicMpiStart(other, &call, nullptr, nullptr, &error);
  EpicMpiCommFree(other);
  EpicMpiFinalize(0);
  EXPECT_EQ(world_.left, 0);
  world_.ended = 1;
  EXPECT_EQ(EpicMpiTest(request, &error), 1);
  EpicMpiRequestFree(request);
  EpicMpiFinalize(0);
  EXPECT_EQ(std::exchange(world_.left, 0), 1);
}

}  // namespace
}  // namespace epic::mpi
