// What a host lends, and who gets it.
#include "inchost/servers/lent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "inchost/servers/servers_testing.h"
#include "protocol/fallback.h"

namespace epic::host {
namespace {

using proto::ServerMade;
using testing::HasSubstr;
using testing::StartsWith;

constexpr uint64_t kNeeded = LentBytes(kTestMtu, 2, kTestSlots);

TEST(Lent, AGroupGetsWhatItNeedsUntilThereIsTooLittleLeft) {
  Lent lent(2 * kNeeded + 5, 4096);
  for (const uint64_t id : {1, 2}) {
    const ServerMade made = lent.Take(ServerOf(id));
    EXPECT_EQ(made.outcome(), ServerMade::OUTCOME_SERVES) << made.message();
    EXPECT_EQ(made.needed_bytes(), kNeeded);
  }
  const ServerMade refused = lent.Take(ServerOf(3));
  EXPECT_EQ(refused.outcome(), ServerMade::OUTCOME_NO_MEMORY);
  EXPECT_EQ(refused.needed_bytes(), kNeeded);
  EXPECT_EQ(refused.left_bytes(), 5u);
  EXPECT_EQ(lent.Offer(Ipv4{7}).bytes(), 2 * kNeeded + 5);
  EXPECT_EQ(lent.Offer(Ipv4{7}).ip(), 7u);
  EXPECT_TRUE(lent.Give(ServerOf(1).group()));
  EXPECT_EQ(lent.Take(ServerOf(3)).left_bytes(), 5u);
}

// All sums at once, what comes, what goes, and what waits to go.
TEST(Lent, WhatAGroupNeedsIsWhatItsServerMayHold) {
  EXPECT_EQ(LentBytes(4096, 2, 128), 128u * 8192 + 32 * 8192 + 2 * 32 * 4096);
}

TEST(Lent, AGroupHasOneServerHere) {
  Lent lent(10 * kNeeded, 4096);
  EXPECT_EQ(lent.Take(ServerOf(1)).outcome(), ServerMade::OUTCOME_SERVES);
  proto::MakeServer again = ServerOf(1);
  EXPECT_EQ(lent.Take(again).outcome(), ServerMade::OUTCOME_IN_USE);
  again.mutable_group()->set_generation(2);
  EXPECT_EQ(lent.Take(again).outcome(), ServerMade::OUTCOME_IN_USE) << "of its life before";
  EXPECT_FALSE(lent.Give(again.group())) << "nothing of that life is here";
  EXPECT_EQ(lent.left(), 9 * kNeeded);
  EXPECT_TRUE(lent.Give(ServerOf(1).group()));
  EXPECT_FALSE(lent.Give(ServerOf(1).group()));
  EXPECT_EQ(lent.left(), 10 * kNeeded);
}

TEST(Lent, WhatIsWrongIsNamedAndTakesNothing) {
  Lent lent(10 * kNeeded, 2048);
  const auto wrong = [&lent](const std::function<void(proto::MakeServer*)>& change) {
    proto::MakeServer request = ServerOf(1);
    change(&request);
    const ServerMade answer = lent.Take(request);
    EXPECT_EQ(answer.outcome(), ServerMade::OUTCOME_BAD_CONFIG);
    return answer.message();
  };
  EXPECT_THAT(wrong([](auto* r) { r->set_path_mtu(1000); }), StartsWith("path_mtu: 1000"));
  EXPECT_THAT(wrong([](auto* r) { r->set_path_mtu(4096); }), HasSubstr("2048 at most"));
  EXPECT_THAT(wrong([](auto* r) { r->set_sum_mtus(3); }), StartsWith("sum_mtus"));
  EXPECT_THAT(wrong([](auto* r) { r->set_slots(0); }), StartsWith("slots"));
  EXPECT_THAT(wrong([](auto* r) { r->set_slots(1u << 17); }), StartsWith("slots"));
  EXPECT_THAT(wrong([](auto* r) { r->set_world_size(0); }), StartsWith("world_size"));
  EXPECT_THAT(wrong([](auto* r) { r->set_message_packets(0); }), StartsWith("message_packets"));
  EXPECT_THAT(wrong([](auto* r) { r->set_remote_ip(0); }), StartsWith("remote_ip"));
  EXPECT_THAT(wrong([](auto* r) { r->set_remote_qpn(1u << 24); }), StartsWith("remote_qpn"));
  EXPECT_THAT(wrong([](auto* r) { r->set_send_psn(1u << 24); }), StartsWith("send_psn"));
  EXPECT_THAT(wrong([](auto* r) { r->set_recv_psn(1u << 24); }), StartsWith("recv_psn"));
  EXPECT_THAT(wrong([](auto* r) { r->set_qp_timeout(32); }), StartsWith("qp_timeout"));
  EXPECT_THAT(wrong([](auto* r) { r->set_retry_cnt(8); }), StartsWith("retry_cnt"));
  EXPECT_THAT(wrong([](auto* r) { r->set_rnr_retry(8); }), StartsWith("rnr_retry"));
  EXPECT_THAT(wrong([](auto* r) { r->set_min_rnr_timer(32); }), StartsWith("min_rnr_timer"));
  EXPECT_THAT(wrong([](auto* r) { r->mutable_group()->set_group_id(0); }), StartsWith("group_id"));
  EXPECT_EQ(lent.left(), 10 * kNeeded);
}

}  // namespace
}  // namespace epic::host
