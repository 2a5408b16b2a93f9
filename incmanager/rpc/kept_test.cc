#include "incmanager/rpc/kept.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "incmanager/store/memory_store.h"

namespace epic::manager {
namespace {

using ::testing::HasSubstr;

constexpr Moment kThen{.now = 500 * kSecond, .unix_us = 1'000'000'000};
// Another start of the machine: its clock has begun anew.
constexpr Moment kNow{.now = 7 * kSecond, .unix_us = 1'060'000'000};

// Each field is another than that of an empty one.
GroupSpec FullSpec() {
  GroupSpec spec{.name = "train",
                 .world_size = 3,
                 .hosts = {"h0", "h1", "h2"},
                 .mode = Mode::kAugmented,
                 .switch_modes = {{"leaf1", Mode::kAugmented}},
                 .reproducible = true,
                 .path_mtu = 2048,
                 .message_packets = 4,
                 .window_messages = 8,
                 .start_psn = 0,
                 .inline_bytes = 0,
                 .needs = {},
                 .max_bytes = uint64_t{1} << 40,
                 .scale = 1e-20f,
                 .int8 = true,
                 .priority_limit = 0x18001,
                 .path = Path::kNetwork,
                 .policy = Policy::kTemporal,
                 .prefer = Prefer::kLatency,
                 .rate_kbps = 123'456'789,
                 .tenant = "red",
                 .duty = 333'333,
                 .job = "j",
                 .phase = "p"};
  spec.needs.Add(DataType::kFloat64);
  spec.needs.Add(ReduceOp::kProduct);
  return spec;
}

// A field that is added does not compile without its row here.
void ExpectSame(const GroupSpec& got, const GroupSpec& want) {
  const auto& [name, world_size, hosts, mode, switch_modes, reproducible, path_mtu, message_packets,
               window_messages, start_psn, inline_bytes, needs, max_bytes, scale, int8, priority_limit, wrong,
               path, policy, prefer, rate_kbps, tenant, duty, job, phase] = got;
  EXPECT_EQ(name, want.name);
  EXPECT_EQ(world_size, want.world_size);
  EXPECT_EQ(hosts, want.hosts);
  EXPECT_EQ(mode, want.mode);
  EXPECT_EQ(switch_modes, want.switch_modes);
  EXPECT_EQ(reproducible, want.reproducible);
  EXPECT_EQ(path_mtu, want.path_mtu);
  EXPECT_EQ(message_packets, want.message_packets);
  EXPECT_EQ(window_messages, want.window_messages);
  EXPECT_EQ(start_psn, want.start_psn);
  EXPECT_EQ(inline_bytes, want.inline_bytes);
  EXPECT_EQ(needs, want.needs);
  EXPECT_EQ(max_bytes, want.max_bytes);
  EXPECT_EQ(scale, want.scale);
  EXPECT_EQ(int8, want.int8);
  EXPECT_EQ(priority_limit, want.priority_limit);
  EXPECT_EQ(wrong, "");
  EXPECT_EQ(path, want.path);
  EXPECT_EQ(policy, want.policy);
  EXPECT_EQ(prefer, want.prefer);
  EXPECT_EQ(rate_kbps, want.rate_kbps);
  EXPECT_EQ(tenant, want.tenant);
  EXPECT_EQ(duty, want.duty);
  EXPECT_EQ(job, want.job);
  EXPECT_EQ(phase, want.phase);
}

Contents RowsOf(const Batch& batch) {
  Contents rows;
  for (const RowChange& change : batch) rows[change.row] = *change.value;
  return rows;
}
const std::string kId(16, 'i');

TEST(Kept, AReservationIsWhatItWas) {
  for (const GroupSpec& spec : {FullSpec(), GroupSpec{.name = "train", .world_size = 2}}) {
    const auto kept =
        ReadKept(RowsOf({RowOf(kId, 1), RowOf(spec), RowOfLives("train", 7), RowOfLives("gone", 1)}), kNow);
    ASSERT_TRUE(kept.ok()) << kept.status();
    ASSERT_EQ(kept->groups.reserved.size(), 1u);
    ExpectSame(kept->groups.reserved[0].spec, spec);
    EXPECT_EQ(kept->groups.reserved[0].lives, 7u);
  }
}

TEST(Kept, ATenantAndThePolicyAreWhatTheyWere) {
  const Tenant full{"red", 1, 2, 3'000'001, 4}, none{.name = "blue"};
  const auto kept = ReadKept(RowsOf({RowOf(kId, 1), RowOf(full), RowOf(none), RowOf(Policy::kEdt)}), kNow);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->groups.default_policy, Policy::kEdt);
  ASSERT_EQ(kept->groups.tenants.size(), 2u);
  for (const Tenant& want : {full, none}) {
    const auto& [name, limit_bytes, limit_groups, limit_kbps, guaranteed_bytes] =
        kept->groups.tenants[want.name == "red" ? 1 : 0];
    EXPECT_EQ(name, want.name);
    EXPECT_EQ(limit_bytes, want.limit_bytes);
    EXPECT_EQ(limit_groups, want.limit_groups);
    EXPECT_EQ(limit_kbps, want.limit_kbps);
    EXPECT_EQ(guaranteed_bytes, want.guaranteed_bytes);
  }
}

TEST(Kept, AnEventHappenedWhenItDid) {
  const Event event{.number = 12,
                    .at = kThen.now - kSecond,
                    .times = 3,
                    .about = "group g",
                    .text = "t\xff",
                    .ending = true};
  const auto kept = ReadKept(RowsOf({RowOf(kId, 1), RowOf(event, kThen)}), kNow);
  ASSERT_TRUE(kept.ok()) << kept.status();
  ASSERT_EQ(kept->events.size(), 1u);
  const auto& [number, at, times, about, text, ending] = kept->events[0];
  EXPECT_EQ(number, 12u);
  EXPECT_EQ(kNow.now - at, 61 * kSecond);
  EXPECT_EQ(times, 3u);
  EXPECT_EQ(about, "group g");
  EXPECT_EQ(text, "t?") << "what is no UTF-8 could not be read again";
  EXPECT_TRUE(ending);
  // The clock has been set back.
  const auto later = ReadKept(RowsOf({RowOf(kId, 1), RowOf(event, kThen)}), {.now = kNow.now, .unix_us = 5});
  EXPECT_EQ(later->events[0].at, kNow.now);
}

TEST(Kept, EachStartIsAnotherEpochOfOneCluster) {
  MemoryStore store;
  const auto first = BeginEpoch(&store, kNow);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->epoch, 1u);
  EXPECT_EQ(first->cluster.size(), 16u);
  EXPECT_EQ(first->groups.first_id, (uint64_t{1} << 32) + 1);
  const auto second = BeginEpoch(&store, kNow);
  EXPECT_EQ(second->epoch, 2u);
  EXPECT_EQ(second->cluster, first->cluster);
  EXPECT_EQ(second->groups.first_id, (uint64_t{2} << 32) + 1);
  MemoryStore other;
  EXPECT_NE(BeginEpoch(&other, kNow)->cluster, first->cluster);
  store.FailWith(MakeStatus(StatusCode::kResourceExhausted, "full"));
  EXPECT_EQ(BeginEpoch(&store, kNow).status().message(), "full");
}

TEST(Kept, ABackupThatIsRestoredGivesNoNumberThatWasGivenBefore) {
  MemoryStore store;
  ASSERT_TRUE(BeginEpoch(&store, kNow).ok());
  ASSERT_TRUE(BeginEpoch(&store, kNow).ok());
  const Contents backup = *store.Load();
  std::set<uint64_t> given{1, 2};
  // The same one again and again, each time in place of a store that two managers have had.
  Contents replaced;
  for (int i = 0; i < 3; ++i) {
    const auto restored = RestoredFrom(backup, replaced);
    ASSERT_TRUE(restored.ok()) << restored.status();
    MemoryStore after(*restored);
    EXPECT_TRUE(given.insert(BeginEpoch(&after, kNow)->epoch).second);
    EXPECT_TRUE(given.insert(BeginEpoch(&after, kNow)->epoch).second);
    EXPECT_GT(*given.rbegin(), 1'000'000u);
    replaced = *after.Load();
  }
  // A later one, and one of another cluster.
  replaced = RowsOf({RowOf(std::string(16, 'o'), 77'000'000)});
  MemoryStore after(*RestoredFrom(backup, replaced));
  EXPECT_EQ(BeginEpoch(&after, kNow)->epoch, 78'000'001u);
  replaced = RowsOf({RowOf(kId, UINT32_MAX)});
  EXPECT_THAT(std::string(RestoredFrom(backup, replaced).status().message()), HasSubstr("beyond 4294967295"));
  replaced[{RowKind::kTenant, "red"}] = "\xff";
  EXPECT_TRUE(RestoredFrom(backup, replaced).ok()) << "what cannot be read says nothing";
}

TEST(Kept, WhatCannotBeReadIsNamed) {
  const auto refused = [](const RowKey& row, const std::string& value) {
    Contents rows = RowsOf({RowOf(kId, 1)});
    rows[row] = value;
    return std::string(ReadKept(rows, kNow).status().message());
  };
  EXPECT_EQ(refused({RowKind::kTenant, "red"}, "\xff"),
            "the store's row tenant red cannot be read: it is no message");
  EXPECT_THAT(refused({RowKind::kTenant, "red"}, *RowOf(Tenant{.name = "blue"}).value),
              HasSubstr("another name"));
  EXPECT_THAT(refused({RowKind::kReserved, "x"}, *RowOf(FullSpec()).value),
              HasSubstr("reserved x cannot be read: it has another"));
  EXPECT_THAT(refused({RowKind::kMeta, "colour"}, ""), HasSubstr("no version of the manager"));
  EXPECT_THAT(refused({RowKind::kMeta, "policy"}, ""), HasSubstr("no such policy"));
  EXPECT_THAT(refused({RowKind::kMeta, "cluster"}, ""), HasSubstr("16 bytes"));
  EXPECT_THAT(refused(RowOf(kId, 1).row, *RowOf(kId, uint64_t{1} << 32).value), HasSubstr("below 2^32"));
  EXPECT_THAT(refused({RowKind::kEvent, "12"}, ""), HasSubstr("its number"));
  EXPECT_THAT(refused({RowKind::kEvent, "0000000000000000001x"}, ""), HasSubstr("its number"));
  EXPECT_THAT(std::string(ReadKept(RowsOf({RowOf(Policy::kEdt)}), kNow).status().message()),
              HasSubstr("no cluster"));
  EXPECT_TRUE(ReadKept({}, kNow).ok());
}

TEST(Kept, ARowIsALineForPeople) {
  const RowChange row = RowOf(Tenant{.name = "red", .limit_groups = 2});
  EXPECT_EQ(*JsonOf(row.row, *row.value),
            R"({"kind":"tenant","key":"red","value":{"tenant":{"name":"red","limit_groups":"2"}}})");
  EXPECT_FALSE(JsonOf(row.row, "\xff").ok());
}

}  // namespace
}  // namespace epic::manager
