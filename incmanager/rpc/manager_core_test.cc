// What the manager does when it is kept, and not before: with a store whose writes are in the test's hands.
#include "incmanager/rpc/manager_core.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/grpc/standing_by.h"
#include "incmanager/rpc/control_plane_testing.h"
#include "incmanager/rpc/kept.h"
#include "incmanager/rpc/manager_world_testing.h"
#include "incmanager/store/hand_store_testing.h"
#include "incmanager/store/memory_store.h"
#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

using testing::ControlPlane;
using ::testing::ElementsAre;
using testing::HandStore;
using ::testing::HasSubstr;
using testing::Rank;

bool Has(const Batch& batch, RowKind kind) {
  return std::ranges::any_of(batch, [kind](const RowChange& change) { return change.row.kind == kind; });
}

class ManagerCoreStore : public ::testing::Test {
 protected:
  // Longer than a test holds a write, however late its threads run.
  explicit ManagerCoreStore(std::chrono::nanoseconds hangs_after = std::chrono::minutes(2))
      : plane_(testing::Star(2), {}, &store_, {.hangs_after = hangs_after}) {}

  // By the hosts; it says what it calls.
  proto::Join Join(uint32_t rank, const std::string& group = "g") const {
    proto::Join join = plane_.Request(rank, 2, group);
    join.set_path(proto::PATH_HOSTS);
    join.set_tells_calls(true);
    join.set_rejoins(true);
    return join;
  }
  // Completes all writes before the first one of such a row, which waits then.
  void AwaitRow(RowKind kind) {
    while (!Has(store_.AwaitWrite(), kind)) store_.Complete();
  }
  // Many turns of the manager.
  void TakeTurns() {
    for (int i = 0; i < 20; ++i) plane_.Show("g");
  }

  HandStore store_;
  ControlPlane plane_;
};

class ManagerCoreHangs : public ManagerCoreStore {
 protected:
  ManagerCoreHangs() : ManagerCoreStore(std::chrono::seconds(3)) {}
};

TEST_F(ManagerCoreStore, RanksAreToldBehindTheWriteOfWhatTheyAreTold) {
  store_.Hold(true);
  Rank& first = plane_.Join(Join(0));
  Rank& second = plane_.Join(Join(1));
  AwaitRow(RowKind::kGroup);
  // The group runs, and what waits for nothing is asked: it is the first that they hear.
  auto shown = std::async(std::launch::async, [this] { return plane_.Show("g", true); });
  for (Rank* const rank : {&first, &second}) {
    const proto::ServerMessage asked = rank->Next();
    EXPECT_TRUE(asked.has_calls()) << asked.ShortDebugString();
    rank->Tell(proto::CallsMade());
  }
  EXPECT_EQ(shown.get().state(), "running");
  store_.Complete();
  for (Rank* const rank : {&first, &second}) EXPECT_TRUE(rank->Next().has_joined());
  first.Leave();
  second.Leave();
  AwaitRow(RowKind::kEnded);
  const auto next = [](Rank* rank) {
    return std::async(std::launch::async, [rank] { return rank->Next(); });
  };
  auto of_first = next(&first), of_second = next(&second);
  TakeTurns();
  for (auto* const told : {&of_first, &of_second})
    EXPECT_NE(told->wait_for(std::chrono::seconds(0)), std::future_status::ready) << "it is not kept yet";
  store_.Hold(false);
  EXPECT_TRUE(of_first.get().has_left());
  EXPECT_TRUE(of_second.get().has_left());
}

// With the system's words. What runs goes on, and ends as ever.
TEST_F(ManagerCoreStore, WhileTheStoreCannotBeWrittenNothingNewIsPromised) {
  const auto warnings = [this] {
    grpc::ClientContext context;
    proto::ListSwitchesReply reply;
    EXPECT_TRUE(plane_.stub->ListSwitches(&context, {}, &reply).ok());
    return std::vector<std::string>(reply.warnings().begin(), reply.warnings().end());
  };
  Rank& first = plane_.Join(Join(0));
  Rank& second = plane_.Join(Join(1));
  EXPECT_TRUE(first.Next().has_joined());
  // Nobody knows of it before the group is to be kept, which is placed on a switch.
  store_.FailWith(MakeStatus(StatusCode::kResourceExhausted, "no space left"), RowKind::kGroup);
  proto::Join of_network = plane_.Request(0, 2, "new");
  of_network.set_rejoins(true);
  Rank& third = plane_.Join(of_network);
  of_network = plane_.Request(1, 2, "new");
  of_network.set_rejoins(true);
  Rank& fourth = plane_.Join(of_network);
  for (Rank* const rank : {&third, &fourth}) {
    const proto::Failure failure = rank->Next().failure();
    EXPECT_EQ(failure.code(), proto::ERROR_NO_RESOURCE) << failure.ShortDebugString();
    EXPECT_EQ(failure.message(),
              "group new: the manager's store cannot be written, and nothing new is promised: no space left");
    rank->Kill();
  }
  EXPECT_TRUE(testing::Eventually([this] { return plane_.Contexts() == 0; }));
  store_.FailWith(MakeStatus(StatusCode::kResourceExhausted, "no space left"));
  // Now all do.
  EXPECT_THAT(warnings(), ElementsAre("the manager's store cannot be written: no space left"));
  EXPECT_THAT(plane_.Join(Join(0, "newer")).Next().failure().message(), HasSubstr("no space left"));
  EXPECT_EQ(plane_.Show("newer").state(), "none");
  second.Abort("no more");
  EXPECT_THAT(first.Next().failure().message(), HasSubstr("no more"));
  store_.FailWith(absl::OkStatus());
  // By itself within a second, and with each change that is asked for.
  grpc::ClientContext context;
  proto::CreateGroupRequest create;
  create.set_name("room");
  create.set_world_size(2);
  proto::GroupState reply;
  EXPECT_TRUE(plane_.stub->CreateGroup(&context, create, &reply).ok());
  ASSERT_TRUE(testing::Eventually([&] { return warnings().empty(); }));
  Rank& fifth = plane_.Join(Join(0));
  plane_.Join(Join(1));
  EXPECT_TRUE(fifth.Next().has_joined());
}

// What it had to say is another one's to say, though a store that fails keeps nobody waiting. So is what it
// has, for whoever asks.
TEST_F(ManagerCoreStore, WhoHoldsItsStoreNoMoreTellsNobodyAnything) {
  store_.Hold(true);
  Rank& first = plane_.Join(Join(0));
  Rank& second = plane_.Join(Join(1));
  AwaitRow(RowKind::kGroup);
  store_.Lose();
  store_.FailWith(MakeStatus(StatusCode::kAborted, "this manager leads no more"));
  store_.Hold(false);
  Rank& late = plane_.Join(Join(0, "late"));
  {
    grpc::ClientContext context;
    proto::GroupState reply;
    proto::CreateGroupRequest create;
    create.set_name("new");
    create.set_world_size(2);
    EXPECT_EQ(plane_.stub->CreateGroup(&context, create, &reply).error_message(),
              "stands by: its lead is over")
        << "and that is behind the group's write";
    EXPECT_TRUE(StandsBy(context)) << "so that the next one is asked";
  }
  for (const bool of_agent : {true, false}) {  // with threads for calls, and without
    grpc::ClientContext context;
    proto::HeartbeatReply heard;
    proto::ListHostsReply hosts;
    const grpc::Status status = of_agent ? plane_.stub->Heartbeat(&context, {}, &heard)
                                         : plane_.stub->ListHosts(&context, {}, &hosts);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
    EXPECT_TRUE(StandsBy(context));
  }
  plane_.server->End();
  for (Rank* const rank : {&first, &second, &late}) EXPECT_EQ(rank->Next().ShortDebugString(), "");
}

TEST_F(ManagerCoreHangs, AStoreThatHangsIsSaidAndWhatIsNewIsRefusedAndTheManagerEnds) {
  store_.Hold(true);
  Rank& first = plane_.Join(Join(0));
  plane_.Join(Join(1));
  AwaitRow(RowKind::kGroup);
  const auto warnings = [this] {
    grpc::ClientContext context;
    proto::ListSwitchesReply reply;
    EXPECT_TRUE(plane_.stub->ListSwitches(&context, {}, &reply).ok());
    return std::vector<std::string>(reply.warnings().begin(), reply.warnings().end());
  };
  ASSERT_TRUE(testing::Eventually([&] { return !warnings().empty(); }));
  EXPECT_THAT(warnings().front(), HasSubstr("the manager's store hangs"));
  // It is not behind what waits.
  EXPECT_THAT(plane_.Join(Join(0, "new")).Next().failure().message(), HasSubstr("the manager's store hangs"));
  // Nor is what strangers are told: who says that again and again would fill the manager's memory.
  proto::ClientMessage rejoin, nothing;
  rejoin.mutable_rejoin()->set_group("none");
  for (const proto::ClientMessage& message : {rejoin, nothing}) {
    Rank stranger(plane_.stub.get());
    stranger.Say(message);
    EXPECT_TRUE(stranger.Next().has_failure()) << message.ShortDebugString();
  }
  grpc::ClientContext context;
  proto::CreateGroupRequest create;
  create.set_name("new");
  create.set_world_size(2);
  proto::GroupState reply;
  const grpc::Status refused = plane_.stub->CreateGroup(&context, create, &reply);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(refused.error_message(), HasSubstr("its disk hangs"));
  auto told = std::async(std::launch::async, [&] { return first.Next(); });
  EXPECT_FALSE(plane_.server->End());
  EXPECT_FALSE(told.get().has_joined()) << "what is not kept is told to nobody";
  store_.Hold(false);
}

// Its rows; what follows from each prefix of them is looked at before the next one.
class WatchedStore : public MemoryStore {
 public:
  Status Apply(const Batch& batch) override {
    if (before) before(After(count()));
    return MemoryStore::Apply(batch);
  }
  std::function<void(const Contents& kept)> before;
};

// What a manager says that comes then to whoever was told something by this one.
class NextManager : public testing::IdleWorld {
 public:
  NextManager(const Topology& topology, const Contents& kept) {
    MemoryStore store(kept);
    const auto began = BeginEpoch(&store, {});
    EXPECT_TRUE(began.ok()) << began.status();
    state.emplace(topology, GroupOptions{}, 1, 1, this);
    state->Resume({}, *began, "memory");
  }
  proto::ServerMessage Returns(const proto::Joined& joined, uint32_t rank) {
    state->OnMessage(0, state->NewSession(), testing::RejoinOf("g", rank, joined));
    return std::exchange(told_, {});
  }
  std::optional<ManagerState> state;

 private:
  void Send(SessionId, const proto::ServerMessage& message, bool) override { told_ = message; }
  proto::ServerMessage told_;
};

// What others were told so far.
struct Heard {
  bool created = false;
  std::map<uint32_t, proto::Joined> joined;  // by rank
  std::set<uint32_t> left;
};

TEST(ManagerCorePrefixes, OfASmallLifeNothingWasToldThatIsNotKept) {
  WatchedStore store;
  std::mutex mutex;
  Heard heard;
  size_t prefixes = 0;
  std::atomic<bool> serves = true;
  ControlPlane plane(testing::Star(2), {}, &store);
  // What was told too early is heard meanwhile.
  const auto take_turns = [&] {
    for (int i = 0; i < 10 && serves; ++i) {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(2));
      proto::ListGroupsReply reply;
      static_cast<void>(plane.stub->ListGroups(&context, {}, &reply));
    }
  };
  const auto check = [&](const Contents& kept) {
    take_turns();
    const std::lock_guard lock(mutex);
    ++prefixes;
    NextManager next(plane.topology, kept);
    if (heard.created) {
      EXPECT_TRUE(next.state->ShowGroup("g").ok());
    }
    for (const auto& [rank, joined] : heard.joined) {
      const proto::ServerMessage told = next.Returns(joined, rank);
      EXPECT_TRUE(heard.left.contains(rank) ? told.has_left() : told.has_rejoined() || told.has_left())
          << "rank " << rank << ": " << told.ShortDebugString();
    }
    const bool runs =
        std::ranges::any_of(kept, [](const auto& row) { return row.first.kind == RowKind::kGroup; });
    EXPECT_TRUE(!runs || plane.Contexts() == 1) << "a switch was told to remove it";
  };
  store.before = check;
  grpc::ClientContext context;
  proto::CreateGroupRequest create;
  create.set_name("g");
  create.set_world_size(2);
  create.set_path(proto::PATH_NETWORK);
  proto::GroupState reply;
  const grpc::Status created = plane.stub->CreateGroup(&context, create, &reply);
  ASSERT_TRUE(created.ok()) << created.error_message();
  {
    const std::lock_guard lock(mutex);
    heard.created = true;
  }
  std::vector<Rank*> ranks;
  for (const uint32_t rank : {0, 1}) {
    proto::Join join = plane.Request(rank, 2);
    join.set_rejoins(true);
    ranks.push_back(&plane.Join(join));
  }
  for (const uint32_t rank : {0, 1}) {
    const proto::ServerMessage told = ranks[rank]->Next();
    ASSERT_TRUE(told.has_joined()) << told.ShortDebugString();
    const std::lock_guard lock(mutex);
    heard.joined[rank] = told.joined();
  }
  for (Rank* const rank : ranks) rank->Leave();
  for (const uint32_t rank : {0, 1}) {
    EXPECT_TRUE(ranks[rank]->Next().has_left());
    const std::lock_guard lock(mutex);
    heard.left.insert(rank);
  }
  plane.ranks.clear();
  serves = false;
  EXPECT_TRUE(plane.server->End());
  store.before = nullptr;
  check(*store.Load());
  EXPECT_GE(prefixes, 4u) << "reserved, running, ended, and the whole";
}

}  // namespace
}  // namespace epic::manager
