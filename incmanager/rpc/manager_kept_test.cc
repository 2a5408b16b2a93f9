#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/seeds_testing.h"
#include "incmanager/rpc/kept.h"
#include "incmanager/rpc/manager_state.h"
#include "incmanager/rpc/manager_world_testing.h"
#include "incmanager/rpc/switch_model_testing.h"
#include "incmanager/store/memory_store.h"
#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

using ::testing::HasSubstr;

// A manager over a store, all of whose changes are looked at, committed and done in one go.
class Manager {
 public:
  explicit Manager(MemoryStore* store) : store_(store), topology_(testing::Star(3).Build()) {
    const auto kept = BeginEpoch(store, {});
    EXPECT_TRUE(kept.ok()) << kept.status();
    state = std::make_unique<ManagerState>(topology_, GroupOptions{}, 1, 1, &world_);
    state->Resume({}, *kept, "memory");
    const NodeId node = topology_.switches[0];
    proto::RegisterRequest agent;
    agent.set_name(topology_.nodes[node].name);
    agent.set_agent_address("10.0.0.1:7401");
    *agent.mutable_engine() = testing::SwitchModel(topology_.nodes[node]).Describe();
    EXPECT_TRUE(state->Register(0, agent).ok());
  }

  // Whether it was done.
  template <typename Request, typename Do>
  bool Change(const Request& request, const Do& change) {
    const StatusOr<Batch> batch = state->Keep(request);
    if (!batch.ok()) {
      EXPECT_EQ(change(request).status(), batch.status());
      return false;
    }
    if (!batch->empty() && !store_->Apply(*batch).ok()) return false;
    EXPECT_TRUE(change(request).ok());
    EXPECT_EQ(state->TruthOf(*batch), *batch) << "what was written is not what is";
    return true;
  }
  bool Create(const std::string& name, const std::string& tenant = "", const std::string& policy = "") {
    proto::CreateGroupRequest request;
    request.set_name(name);
    request.set_world_size(2);
    request.set_tenant(tenant);
    request.set_policy(policy);
    return Change(request, [this](const auto& asked) { return state->CreateGroup(asked); });
  }
  bool Destroy(const std::string& name) {
    proto::DestroyGroupRequest request;
    request.set_name(name);
    return Change(request,
                  [this](const auto& asked) { return state->DestroyGroup(0, asked.name(), asked.force()); });
  }
  bool SetTenant(const std::string& name, uint64_t groups) {
    proto::SetTenantRequest request;
    request.mutable_tenant()->set_name(name);
    request.mutable_tenant()->set_limit_groups(groups);
    return Change(request, [this](const auto& asked) { return state->SetTenant(0, asked); });
  }
  bool RemoveTenant(const std::string& name) {
    proto::RemoveTenantRequest request;
    request.set_name(name);
    return Change(request, [this](const auto& asked) { return state->RemoveTenant(0, asked); });
  }
  bool SetPolicy(const std::string& name) {
    proto::PolicyRequest request;
    request.set_policy(name);
    return Change(request, [this](const auto& asked) { return state->DefaultPolicy(0, asked); });
  }
  // Two ranks join it, by the hosts, so that it runs.
  void Begin(const std::string& name) {
    for (const uint32_t rank : {0, 1}) {
      proto::ClientMessage message;
      proto::Join& join = *message.mutable_join();
      const Node& host = topology_.nodes[topology_.switches.size() + rank];
      join.set_group(name);
      join.set_rank(rank);
      join.set_world_size(2);
      join.set_ip(Raw(host.address));
      join.set_qpn(0x11);
      join.set_max_path_mtu(1024);
      join.set_host_name(host.name);
      state->OnMessage(0, state->NewSession(), message);
    }
  }
  void KeepEvents() {
    for (Batch batch = state->TakeUnkept({}); !batch.empty(); batch = state->TakeUnkept({}))
      EXPECT_TRUE(store_->Apply(batch).ok());
  }
  // What operators see of what they have asked for.
  std::string Shown() {
    return state->ListGroups().DebugString() + state->ListTenants().DebugString() +
           state->DefaultPolicy(0, {})->policy();
  }
  std::vector<std::string> Events() {
    std::vector<std::string> lines;
    const proto::EventsReply reply = state->Events(0, {});
    for (const proto::Event& event : reply.events())
      lines.push_back(fmt::format("{} {}: {}", event.number(), event.about(), event.text()));
    return lines;
  }

  std::unique_ptr<ManagerState> state;

 private:
  MemoryStore* store_;
  testing::IdleWorld world_;
  const Topology topology_;
};

TEST(ManagerKept, WhatOperatorsHaveAskedForIsThereAgain) {
  MemoryStore store;
  std::string before;
  {
    Manager manager(&store);
    EXPECT_TRUE(manager.SetTenant("red", 2));
    EXPECT_TRUE(manager.SetPolicy("edt"));
    EXPECT_TRUE(manager.Create("train", "red"));
    EXPECT_FALSE(manager.Create("train"));
    EXPECT_FALSE(manager.Destroy("nobody"));
    EXPECT_FALSE(manager.RemoveTenant("red")) << "train is reserved for it";
    EXPECT_FALSE(manager.SetPolicy("best"));
    // It has the policy of then.
    EXPECT_TRUE(manager.SetPolicy("spatial"));
    before = manager.Shown();
    EXPECT_THAT(before, HasSubstr("policy: \"edt\""));
  }
  Manager manager(&store);
  EXPECT_EQ(manager.Shown(), before);
  EXPECT_TRUE(manager.Destroy("train"));
  EXPECT_TRUE(manager.RemoveTenant("red"));
  before = manager.Shown();
  EXPECT_EQ(Manager(&store).Shown(), before);
}

// A crash behind any transaction: what was told by then is there.
TEST(ManagerKept, EachPrefixOfTheCommitsIsAManager) {
  const TestSeeds seeds = SeedsToRun(10);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE(fmt::format("replay: EPIC_SEED={} with this test as --gtest_filter", seed));
    std::mt19937_64 random(seed);
    MemoryStore store;
    std::vector<std::pair<size_t, std::string>> told;
    {
      Manager manager(&store);
      for (int step = 0; step < 30; ++step) {
        const std::string name(1, static_cast<char>('a' + random() % 4));
        switch (random() % 6) {
          case 0:
            manager.SetTenant(name, random() % 5);
            break;
          case 1:
            manager.RemoveTenant(name);
            break;
          case 2:
            manager.SetPolicy(random() % 2 == 0 ? "edt" : "temporal");
            break;
          case 3:
            manager.Destroy(name);
            break;
          case 4:
            manager.KeepEvents();
            break;
          default:
            manager.Create(name, random() % 2 == 0 ? "" : name, random() % 2 == 0 ? "" : "shortest");
        }
        told.emplace_back(store.count(), manager.Shown());
      }
    }
    for (const auto& [commits, shown] : told) {
      MemoryStore prefix(store.After(commits));
      ASSERT_EQ(Manager(&prefix).Shown(), shown) << commits;
    }
  }
}

// What nobody waits for is kept just when the end of the group has been, and before it is done.
TEST(ManagerKept, OfAGroupThatIsBeingDestroyedNoRowIsLeft) {
  MemoryStore store;
  Manager manager(&store);
  EXPECT_TRUE(manager.Create("g"));
  manager.Begin("g");
  ASSERT_EQ(manager.state->groups().LivesOf("g"), 1u);
  proto::DestroyGroupRequest request;
  request.set_name("g");
  request.set_force(true);
  const StatusOr<Batch> batch = manager.state->Keep(request);
  ASSERT_TRUE(batch.ok()) << batch.status();
  std::set<RowKey> changing;
  for (const RowChange& change : *batch) changing.insert(change.row);
  ASSERT_TRUE(store.Apply(*batch).ok());
  ASSERT_TRUE(store.Apply(manager.state->TakeUnkept({}, changing)).ok());
  EXPECT_TRUE(manager.state->DestroyGroup(0, "g", true).ok());
  manager.KeepEvents();
  const Contents rows = *store.Load();
  EXPECT_FALSE(rows.contains({RowKind::kReserved, "g"}));
  EXPECT_FALSE(rows.contains({RowKind::kLives, "g"}));
}

TEST(ManagerKept, HowOftenAGroupHasBegunIsKeptWhenAnotherIsBeingChanged) {
  MemoryStore store;
  Manager manager(&store);
  EXPECT_TRUE(manager.Create("g"));
  manager.Begin("g");
  ASSERT_TRUE(store.Apply(manager.state->TakeUnkept({}, {{RowKind::kLives, "h"}})).ok());
  EXPECT_TRUE(store.Load()->contains({RowKind::kLives, "g"}));
}

TEST(ManagerKept, EventsAreThereAgainWithTheirNumbers) {
  MemoryStore store;
  std::vector<std::string> before;
  {
    Manager manager(&store);
    manager.Create("a");
    manager.Destroy("a");
    manager.KeepEvents();
    before = manager.Events();
    EXPECT_TRUE(manager.state->TakeUnkept({}).empty());
    manager.Create("lost");
  }
  Manager manager(&store);
  std::vector<std::string> after = manager.Events();
  ASSERT_GT(after.size(), before.size());
  EXPECT_THAT(after[before.size()], HasSubstr("manager: started with the store memory: cluster "));
  EXPECT_THAT(after[before.size()], HasSubstr("epoch 2, 1 reserved group, 0 tenants"));
  after.resize(before.size());
  EXPECT_EQ(after, before);
}

TEST(ManagerKept, AStoreThatCannotBeWrittenIsToldOnceAndShown) {
  MemoryStore store;
  Manager manager(&store);
  const size_t before = manager.Events().size();
  for (int i = 0; i < 3; ++i)
    manager.state->OnStoreHealth(0, MakeStatus(StatusCode::kResourceExhausted, "no space left"));
  ASSERT_EQ(manager.Events().size(), before + 1);
  EXPECT_THAT(manager.Events().back(), HasSubstr("groups run on: no space left"));
  ASSERT_EQ(manager.state->ListSwitches(0).warnings_size(), 1);
  EXPECT_THAT(manager.state->ListSwitches(0).warnings(0), HasSubstr("no space left"));
  manager.state->OnStoreHealth(0, absl::OkStatus());
  EXPECT_THAT(manager.Events().back(), HasSubstr("can be written again"));
  EXPECT_EQ(manager.state->ListSwitches(0).warnings_size(), 0);
}

}  // namespace
}  // namespace epic::manager
