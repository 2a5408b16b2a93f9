// What a packet must carry, whoever made it.
#include "check/system.h"

#include <gtest/gtest.h>

#include "check/setups_testing.h"

namespace epic::check {
namespace {

// Of star-2: the switch is node 0, the host node 1. One control packet, and one of data at each place after
// it.
constexpr int kHost = 1;

class Judged {
 public:
  explicit Judged(const Setup& setup) : system_(Built(setup)) {}

  const Edge& edge() const { return system_.EdgeAt(kHost, 0); }

  // That the host sends the packet of this place with these contents, after it has taken so many.
  bool MaySend(size_t place, const std::vector<uint8_t>& contents, int64_t taken) const {
    const Carried& carried = edge().up[place];
    roce::Packet packet;
    packet.bth.opcode = carried.opcode;
    packet.bth.psn = Psn(system_.config().first_psn) + static_cast<int32_t>(place);
    packet.imm = carried.imm;
    packet.payload = contents;
    const auto breach = system_.JudgeData(kHost, 0, packet, taken);
    EXPECT_TRUE(!breach || breach->invariant == Invariant::kPayload) << Text(breach);
    return !breach;
  }

 private:
  System system_;
};

TEST(SystemTest, WhatABouncingHostSendsIsItsContributionUntilTheResultHasCome) {
  const Judged judged({.topology = "star-2", .messages = 2, .buffers = "bounce"});
  for (const size_t place : {1u, 2u}) {
    const auto& contribution = judged.edge().up[place].payload;
    const auto& result = judged.edge().down[place].payload;
    ASSERT_NE(contribution, result);
    for (const int64_t taken : {int64_t{0}, static_cast<int64_t>(place)}) {
      EXPECT_TRUE(judged.MaySend(place, contribution, taken)) << taken;
      EXPECT_FALSE(judged.MaySend(place, result, taken)) << taken;
    }
    EXPECT_TRUE(judged.MaySend(place, result, static_cast<int64_t>(place) + 1));
    EXPECT_FALSE(judged.MaySend(place, contribution, static_cast<int64_t>(place) + 1));
  }
}

TEST(SystemTest, WithBuffersOfItsOwnItIsTheContribution) {
  const Judged separate({.topology = "star-2"});
  EXPECT_TRUE(separate.MaySend(1, separate.edge().up[1].payload, 2));
  EXPECT_FALSE(separate.MaySend(1, separate.edge().down[1].payload, 2));
  // As the root of a Reduce, who both sends and receives, has also in bounce buffers.
  const Judged reduce({.collective = "reduce@0", .topology = "star-2", .buffers = "bounce"});
  EXPECT_TRUE(reduce.MaySend(1, reduce.edge().up[1].payload, 2));
  EXPECT_FALSE(reduce.MaySend(1, reduce.edge().down[1].payload, 2));
}

}  // namespace
}  // namespace epic::check
