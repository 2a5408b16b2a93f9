#include "incmanager/groups/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "incmanager/groups/group_life_testing.h"
#include "protocol/types.h"

namespace epic::manager {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class AdmissionTest : public ::testing::Test {
 protected:
  static GroupSpec Spec() {
    GroupSpec spec;
    spec.name = "g";
    spec.world_size = 4;
    return WithDefaults(spec, Policy::kShortest);
  }
  // What an operator is told of such a spec.
  Failure OfSpec(const std::function<void(GroupSpec*)>& spoil) const {
    GroupSpec spec = Spec();
    spoil(&spec);
    return admission_.RefusesGroup(spec);
  }
  // What rank 1 on h1 is told when it joins a group in which rank 0 on h0 is.
  Failure OfJoin(const std::function<void(JoinRequest*)>& spoil) const {
    Group group;
    group.spec = Spec();
    group.phase = GroupPhase::kJoining;
    group.members[0] = {.join = w_.Request("h0", 0, 4), .host = w_.Id("h0")};
    JoinRequest join = w_.Request("h1", 1, 4);
    spoil(&join);
    return admission_.RefusesRank(group, join);
  }

  const testing::GroupWorldFixture w_{testing::Star(4)};
  const Tenants tenants_;
  const Admission admission_{&w_.topology, &tenants_, GroupOptions().window_packets};
};

// One check of what both may say; each is told in the words of what he said.
TEST_F(AdmissionTest, OperatorsAndRanksAreRefusedTheSame) {
  const auto expect = [this](auto spoil, const std::string& operators, const std::string& ranks) {
    const Failure of_spec = OfSpec([&](GroupSpec* spec) { spoil(spec); });
    const Failure of_join = OfJoin([&](JoinRequest* join) { spoil(join); });
    for (const Failure& failure : {of_spec, of_join}) EXPECT_EQ(failure.code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(of_spec.message, operators);
    EXPECT_EQ(of_spec.rank, -1);
    EXPECT_EQ(of_join.message, ranks);
  };
  const std::string one = "1 is less than 2: a group of one rank needs no manager";
  expect([](auto* asked) { asked->world_size = 1; }, "size: " + one, "world_size: " + one);
  expect([](auto* asked) { asked->world_size = 0; }, "size: 0 is not between 2 and 4096",
         "world_size: 0 is less than 2");
  expect([](auto* asked) { asked->world_size = 4097; }, "size: 4097 is not between 2 and 4096",
         "world_size: 4097 is more than 4096");
  expect([](auto* asked) { asked->mode = static_cast<Mode>(99); }, "mode: 99 is none of " + ModeChoice(),
         "mode: rank 1 asks for 99, which is none of " + ModeChoice());
  // Of one that is still being built it is not known that it is one.
  expect([](auto* asked) { asked->mode = Mode::kInitiated; }, "mode: 6 is none of " + ModeChoice(),
         "mode: rank 1 asks for 6, which is none of " + ModeChoice());
  expect([](auto* asked) { asked->path = static_cast<Path>(9); },
         "path: 9 is none of auto, network and hosts",
         "path: rank 1 asks for 9, which is none of auto, network and hosts");
  const std::string scale = "quantise: -1 is not a number from 1e-20 to 1e+20";
  expect([](auto* asked) { asked->scale = -1; }, scale, scale);
  const std::string wrong = "types: 'x' is no type";
  expect([&](auto* asked) { asked->wrong = wrong; }, wrong, wrong);
}

TEST_F(AdmissionTest, GroupsThatCannotBeAreRefused) {
  const auto code = [this](const std::function<void(GroupSpec*)>& spoil) { return OfSpec(spoil).code; };
  EXPECT_EQ(code([](GroupSpec* s) { s->hosts = {"h0"}; }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code([](GroupSpec* s) { s->hosts = {"h0", "h1", "h2", "s1"}; }), ErrorCode::kNotFound);
  EXPECT_EQ(code([](GroupSpec* s) { s->path_mtu = 1000; }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code([](GroupSpec* s) { s->message_packets = 65; }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code([](GroupSpec* s) { s->start_psn = 1 << 24; }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code([](GroupSpec* s) { s->inline_bytes = kMaxInlineBytes + 1; }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code([](GroupSpec*) {}), ErrorCode::kOk);
  EXPECT_EQ(StatusOf(OfSpec([](GroupSpec* s) { s->tenant = "t"; })).code(), StatusCode::kNotFound);
  EXPECT_EQ(StatusOf(OfSpec([](GroupSpec* s) { s->rate_kbps = 1; })).code(), StatusCode::kInvalidArgument);
}

TEST_F(AdmissionTest, RanksThatCannotBeAreRefused) {
  const Failure duplicate = OfJoin([this](JoinRequest* join) { *join = w_.Request("h1", 0, 4); });
  EXPECT_EQ(duplicate.code, ErrorCode::kDuplicateRank);
  EXPECT_EQ(duplicate.message, "rank 0 of group g is held by h0 (10.10.0.1, pid 1000)");
  const Failure size = OfJoin([](JoinRequest* join) { join->world_size = 3; });
  EXPECT_EQ(size.code, ErrorCode::kSizeMismatch);
  EXPECT_EQ(size.message, "world_size: rank 1 says 3, the group g has 4");
  EXPECT_EQ(size.rank, 1);
  EXPECT_EQ(OfJoin([](JoinRequest* join) { join->rank = 4; }).message,
            "rank: 4 is not below the world size 4");
  const Failure unknown = OfJoin([](JoinRequest* join) { join->ip = *ParseIpv4("10.10.0.77"); });
  EXPECT_EQ(unknown.code, ErrorCode::kNotFound);
  EXPECT_THAT(unknown.message, HasSubstr("no host with the address 10.10.0.77"));
  EXPECT_THAT(unknown.message, HasSubstr("EPIC_IFNAME")) << "what cures it";
  EXPECT_THAT(OfJoin([](JoinRequest* join) { join->qpn = 1 << 24; }).message, StartsWith("qpn:"));
  EXPECT_THAT(OfJoin([](JoinRequest* join) { join->max_path_mtu = 1500; }).message,
              StartsWith("max_path_mtu:"));
  EXPECT_THAT(OfJoin([](JoinRequest* join) { join->group = "a b"; }).message, StartsWith("group:"));
  EXPECT_TRUE(OfJoin([](JoinRequest*) {}).ok());
}

}  // namespace
}  // namespace epic::manager
