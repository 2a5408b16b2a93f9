#include "incmanager/policies/tenants.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace epic::manager {
namespace {

constexpr uint64_t kMiB = 1 << 20;

std::vector<SwitchMemory> Two() { return {{0, "leaf1", 16 * kMiB}, {1, "leaf2", 8 * kMiB}}; }

Allocation Taken(const std::string& tenant, NodeId node, uint64_t bytes, uint64_t kbps = 0) {
  return {
      .links = {}, .switches = {{node, bytes}}, .reserved_kbps = kbps, .exclusive = false, .tenant = tenant};
}

std::string Said(const Status& status) { return std::string(status.message()); }

TEST(Tenants, WhatDoesNotFitNamesTheSwitch) {
  Tenants tenants;
  Load load;
  EXPECT_EQ(Said(tenants.Set({.name = "red", .limit_bytes = 9 * kMiB}, Two(), load)),
            "limit_bytes: 9.0 MiB are more than the 8.0 MiB that leaf2 has");
  EXPECT_EQ(
      Said(tenants.Set({.name = "red", .limit_bytes = kMiB, .guaranteed_bytes = 2 * kMiB}, Two(), load)),
      "guarantee_bytes: 2.0 MiB are more than the limit of 1.0 MiB");
  EXPECT_TRUE(tenants.Set({.name = "red", .guaranteed_bytes = 5 * kMiB}, Two(), load).ok());
  const Status status = tenants.Set({.name = "blue", .guaranteed_bytes = 4 * kMiB}, Two(), load);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Said(status), "guarantee_bytes: those of all tenants would be 9.0 MiB, and leaf2 has 8.0 MiB");
  load.Apply(Taken("", 1, 2 * kMiB));
  EXPECT_EQ(Said(tenants.Set({.name = "blue", .guaranteed_bytes = 2 * kMiB}, Two(), load)),
            "guarantee_bytes: 7.0 MiB would have to be kept for tenants, and leaf2 has 6.0 MiB free");
  EXPECT_TRUE(tenants.Set({.name = "blue", .guaranteed_bytes = kMiB}, Two(), load).ok());
  EXPECT_EQ(tenants.List().size(), 2U);
}

TEST(Tenants, ARoomIsWhatIsNotKeptForOthersAsFarAsTheLimitGoes) {
  Tenants tenants;
  Load load;
  ASSERT_TRUE(
      tenants.Set({.name = "red", .limit_bytes = 4 * kMiB, .guaranteed_bytes = 2 * kMiB}, Two(), load).ok());
  ASSERT_TRUE(tenants.Set({.name = "blue", .guaranteed_bytes = 3 * kMiB}, Two(), load).ok());
  const auto room = [&](const std::string& tenant) { return tenants.RoomOf(tenant, Two()[1], load); };
  EXPECT_EQ(room("").bytes, 3 * kMiB);
  EXPECT_EQ(room("").kept, "5.0 MiB are kept for other tenants");
  EXPECT_EQ(room("red").bytes, 4 * kMiB);
  EXPECT_EQ(room("red").kept, "no more is free for tenant red, which may have 4.0 MiB of a switch");
  EXPECT_EQ(room("blue").bytes, 6 * kMiB);
  load.Apply(Taken("red", 1, kMiB));
  EXPECT_EQ(room("").bytes, 3 * kMiB);
  EXPECT_EQ(room("red").bytes, 3 * kMiB);
  load.Apply(Taken("red", 1, 2 * kMiB));
  EXPECT_EQ(room("").bytes, 2 * kMiB);
  EXPECT_EQ(room("red").bytes, kMiB);
  EXPECT_EQ(Said(tenants.Remove("red", load)), "tenant: red has 2 groups on switches");
  EXPECT_EQ(tenants.Remove("green", load).code(), StatusCode::kNotFound);
  EXPECT_TRUE(tenants.Remove("blue", load).ok());
  EXPECT_EQ(room("").kept, "");
}

TEST(Tenants, HaveSoManyGroupsAndReserveSoMuch) {
  Tenants tenants;
  Load load;
  ASSERT_TRUE(tenants.Set({.name = "red", .limit_groups = 2, .limit_kbps = 5'000'000}, Two(), load).ok());
  EXPECT_TRUE(tenants.Refuses("red", 5'000'000, load).ok());
  load.Apply(Taken("red", 0, 64, 3'000'000));
  EXPECT_EQ(tenants.Refuses("red", 2'500'000, load).message,
            "tenant red: its groups reserve 3 of 5 Gbit/s, 2.5 needed");
  EXPECT_TRUE(tenants.Refuses("red", 2'000'000, load).ok());
  EXPECT_TRUE(tenants.Refuses("red", 0, load).ok());
  load.Apply(Taken("red", 0, 64));
  EXPECT_EQ(tenants.Refuses("red", 0, load).message,
            "tenant red: it has 2 of 2 groups that may go through switches");
  EXPECT_TRUE(tenants.Refuses("", 9'000'000, load).ok());
}

// Whoever takes what it is told that it may have, and in whatever order groups come and go.
TEST(Tenants, GuaranteesAreAlwaysHonoured) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937 random(seed);
    const auto roll = [&random](uint64_t sides) { return random() % sides; };
    Tenants tenants;
    Load load;
    std::vector<Allocation> taken;
    for (int step = 0; step < 60; ++step) {
      const std::string name = std::string(1, static_cast<char>('a' + roll(4)));
      if (roll(8) == 0) {
        Tenant tenant{.name = name, .guaranteed_bytes = roll(6 * kMiB)};
        if (roll(2) == 0) tenant.limit_bytes = tenant.guaranteed_bytes + roll(2 * kMiB);
        (void)tenants.Set(tenant, Two(), load);
      } else if (!taken.empty() && roll(3) == 0) {
        std::swap(taken[roll(taken.size())], taken.back());
        load.Undo(taken.back());
        taken.pop_back();
      } else {
        const std::string owner = roll(4) == 0 ? "" : name;
        const SwitchMemory memory = Two()[roll(2)];
        const uint64_t bytes = roll(4 * kMiB);
        if (bytes > tenants.RoomOf(owner, memory, load).bytes) continue;
        taken.push_back(Taken(owner, memory.node, bytes));
        load.Apply(taken.back());
      }
      for (const SwitchMemory& memory : Two()) {
        ASSERT_LE(load.at(memory.node).bytes, memory.arena_bytes);
        for (const Tenant& tenant : tenants.List()) {
          const auto has = load.of(tenant.name).bytes.find(memory.node);
          const uint64_t bytes = has == load.of(tenant.name).bytes.end() ? 0 : has->second;
          ASSERT_GE(bytes + tenants.RoomOf(tenant.name, memory, load).bytes, tenant.guaranteed_bytes)
              << tenant.name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace epic::manager
