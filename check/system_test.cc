// What a packet must carry, whoever made it.
#include "check/system.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "check/setups_testing.h"
#include "protocol/types.h"

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

// Elements are combined here, without the product's arithmetic.
std::vector<uint8_t> Combined(const std::string& op, size_t bytes, const std::vector<uint8_t>& a,
                              const std::vector<uint8_t>& b) {
  std::vector<uint8_t> out(a.size());
  for (size_t at = 0; at < a.size(); at += bytes) {
    uint64_t x = 0, y = 0;
    std::memcpy(&x, &a[at], bytes);
    std::memcpy(&y, &b[at], bytes);
    const uint64_t z = op == "sum" ? x + y : op == "product" ? x * y : x ^ y;
    std::memcpy(&out[at], &z, bytes);
  }
  return out;
}

// Neither what lacks a contribution nor what has one twice is a result, whatever the elements are.
TEST(SystemTest, AResultShowsWhoIsInIt) {
  for (const char* type : {"int32", "int8", "uint16", "int64"}) {
    for (const char* op : {"sum", "product", "bxor"}) {
      SCOPED_TRACE(testing::Message() << type << " " << op);
      const System system(Built({.topology = "star-2", .type = type, .op = op}));
      const size_t bytes = ElementBytes(*TypeNamed(type));
      const auto& one = system.EdgeAt(1, 0).up[1].payload;
      const auto& other = system.EdgeAt(2, 0).up[1].payload;
      const auto& result = system.EdgeAt(1, 0).down[1].payload;
      EXPECT_EQ(Combined(op, bytes, one, other), result);
      for (const auto& lonely : {one, other}) {
        EXPECT_NE(lonely, result);
        EXPECT_NE(Combined(op, bytes, lonely, result), result) << "one twice";
      }
    }
  }
}

}  // namespace
}  // namespace epic::check
