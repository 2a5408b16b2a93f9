#include "commlib/arguments.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/flow.h"

namespace epic::internal {
namespace {

constexpr int kRank = 1, kSize = 4;

class ArgumentsTest : public testing::Test {
 protected:
  Error Check(const CallArguments& arguments) {
    return CheckArguments(arguments, kRank, kSize, group_, /*in_blocks=*/true, &header_);
  }
  void ExpectWrong(const CallArguments& arguments, ErrorCode code, const std::string& text) {
    const Error error = Check(arguments);
    EXPECT_EQ(error.code(), code) << error.message();
    EXPECT_THAT(error.message(), testing::HasSubstr(text));
  }
  float* At(size_t i) { return &data_[i]; }

  std::vector<float> data_ = std::vector<float>(1000);
  ControlHeader header_;
  GroupAbilities group_;
};

TEST_F(ArgumentsTest, EveryCollectiveMakesAHeaderThatFitsTheGroup) {
  for (int c = 1; c <= 6; ++c) {
    const auto collective = static_cast<Collective>(c);
    const Error e = Check({.collective = collective,
                           .send = At(0),
                           .recv = At(500),
                           .count = 10,
                           .op = RedOp::kMax,
                           .root = 0});
    ASSERT_TRUE(e.ok()) << e.message();
    EXPECT_EQ(header_.collective, collective);
    EXPECT_EQ(WrongField(header_, kSize), ControlField::kNone) << c;
    EXPECT_EQ(header_.op,
              Reduces(collective) && collective != Collective::kBarrier ? ReduceOp::kMax : ReduceOp::kNone);
  }
}

TEST_F(ArgumentsTest, AnAverageIsASumWithAFlag) {
  CallArguments a{.collective = Collective::kAllReduce, .send = At(0), .recv = At(0), .count = 10};
  ASSERT_TRUE(Check(a).ok());
  const ControlHeader sum = header_;
  a.op = RedOp::kAvg;
  ASSERT_TRUE(Check(a).ok());
  EXPECT_EQ(header_.op, ReduceOp::kSum);
  EXPECT_EQ(FirstDifference(header_, sum), ControlField::kFlags);
}

TEST_F(ArgumentsTest, WhatIsWrongIsNamed) {
  const CallArguments good{.collective = Collective::kReduce, .send = At(0), .recv = At(0), .count = 10};
  CallArguments a = good;
  a.root = 4;
  ExpectWrong(a, ErrorCode::kInvalidArgument, "root 4");
  a.root = -1;
  ExpectWrong(a, ErrorCode::kInvalidArgument, "root -1");
  a = good;
  a.send = nullptr;
  ExpectWrong(a, ErrorCode::kInvalidArgument, "sendbuff is null");
  a = good;
  a.recv = nullptr;
  EXPECT_TRUE(Check(a).ok()) << "only the root receives";
  a.root = kRank;
  ExpectWrong(a, ErrorCode::kInvalidArgument, "recvbuff is null");
  a = good;
  a.type = Datatype::kByte;
  ExpectWrong(a, ErrorCode::kUnsupported, "operation sum of type byte: bytes cannot be reduced");
  a.type = static_cast<Datatype>(77);
  ExpectWrong(a, ErrorCode::kUnsupported, "type 77");
  a.type = static_cast<Datatype>(256 + 1);
  ExpectWrong(a, ErrorCode::kUnsupported, "type 257");
  a = good;
  a.type = static_cast<Datatype>(-1);
  ExpectWrong(a, ErrorCode::kUnsupported, "type -1");
  a = good;
  a.op = static_cast<RedOp>(11);
  ExpectWrong(a, ErrorCode::kUnsupported, "operation 11");
  a.op = static_cast<RedOp>(0);
  ExpectWrong(a, ErrorCode::kUnsupported, "operation 0");
}

// Every pair either makes a header that a switch reduces, or is refused by the names of both.
TEST_F(ArgumentsTest, EveryTypeHasItsOperations) {
  for (const TypeInfo& type : kCallerTypes) {
    for (int op = 1; op <= static_cast<int>(RedOp::kLogicalOr); ++op) {
      const CallArguments a{.collective = Collective::kAllReduce,
                            .send = At(0),
                            .recv = At(0),
                            .count = 10,
                            .type = static_cast<Datatype>(type.type),
                            .op = static_cast<RedOp>(op)};
      const bool of_bits = op >= static_cast<int>(RedOp::kBitAnd);
      const bool refused = type.kind == ElementKind::kBytes || (of_bits && type.kind == ElementKind::kFloat);
      const Error e = Check(a);
      ASSERT_EQ(e.code(), refused ? ErrorCode::kUnsupported : ErrorCode::kOk) << type.name << " " << op;
      if (!refused) {
        EXPECT_TRUE(CanReduce(header_.op, header_.type));
        EXPECT_EQ(header_.flags != 0, a.op == RedOp::kAvg);
        continue;
      }
      EXPECT_THAT(e.message(), testing::HasSubstr("of type " + std::string(type.name)));
      EXPECT_THAT(e.message(), testing::HasSubstr("unsupported operation "));
    }
  }
}

TEST_F(ArgumentsTest, ARefusalNamesTypeAndOperation) {
  CallArguments a{.collective = Collective::kReduce, .send = At(0), .recv = At(0), .count = 10};
  a.type = Datatype::kFloat64;
  a.op = RedOp::kBitXor;
  ExpectWrong(a, ErrorCode::kUnsupported, "operation bxor of type float64: bitwise and logical");
  a.type = Datatype::kByte;
  a.op = RedOp::kAvg;
  ExpectWrong(a, ErrorCode::kUnsupported, "operation avg of type byte");
}

TEST_F(ArgumentsTest, WhatASwitchLacksIsRefusedWithItsName) {
  group_.has = Abilities::First();
  group_.where["operation product"] = "leaf1 (version 0.1.0)";
  CallArguments a{.collective = Collective::kAllReduce, .send = At(0), .recv = At(0), .count = 10};
  EXPECT_TRUE(Check(a).ok());
  a.op = RedOp::kProduct;
  ExpectWrong(a, ErrorCode::kUnsupported, "operation product is not in leaf1 (version 0.1.0)");
  a.count = 0;
  EXPECT_TRUE(Check(a).ok()) << "nothing is reduced";
  a.count = 10;
  a.type = Datatype::kUint32;
  ExpectWrong(a, ErrorCode::kUnsupported, "type uint32 is not in what the manager knows");
  a.op = RedOp::kBitOr;
  a.type = Datatype::kFloat64;
  ExpectWrong(a, ErrorCode::kUnsupported, "operation bor of type float64");
}

TEST_F(ArgumentsTest, CopiesOfATypeThatASwitchLacksTravelAsBytes) {
  CallArguments a{.collective = Collective::kAllGather, .send = At(0), .recv = At(100), .count = 10};
  a.type = Datatype::kFloat64;
  ASSERT_TRUE(Check(a).ok());
  EXPECT_EQ(header_.type, DataType::kFloat64);
  EXPECT_EQ(header_.count, 10u);
  group_.has = Abilities::First();
  ASSERT_TRUE(Check(a).ok());
  EXPECT_EQ(header_.type, DataType::kByte);
  EXPECT_EQ(header_.count, 80u);
  EXPECT_EQ(WrongField(header_, kSize), ControlField::kNone);
  group_.has = {};
  group_.where["type float64"] = "leaf1 (version 0.1.0)";
  ExpectWrong(a, ErrorCode::kUnsupported, "type float64 is not in leaf1");
}

TEST_F(ArgumentsTest, WhatSwitchesLackGoesBetweenTheHostsIfTheyReachOneAnother) {
  group_.has = Abilities::First();
  group_.where["operation product"] = "leaf1 (version 0.1.0)";
  CallArguments a{.collective = Collective::kAllReduce, .send = At(0), .recv = At(0), .count = 10};
  a.op = RedOp::kProduct;
  group_.why_not_hosts = "router1 lies between h1 and h2";
  ExpectWrong(
      a, ErrorCode::kUnsupported,
      "operation product is not in leaf1 (version 0.1.0); between the hosts it cannot go: router1 lies "
      "between h1 and h2");
  group_.hosts_reach = true;
  ASSERT_TRUE(Check(a).ok());
  EXPECT_EQ(header_.flags, kByHostsFlag);
  EXPECT_EQ(WhyByHosts(group_, header_), "operation product is not in leaf1 (version 0.1.0)");
  a.op = RedOp::kAvg;
  ASSERT_TRUE(Check(a).ok());
  EXPECT_EQ(header_.flags, kAverageFlag) << "what they have goes through them";
  a = {.collective = Collective::kAllGather, .send = At(0), .recv = At(100), .count = 10};
  a.type = Datatype::kFloat64;
  ASSERT_TRUE(Check(a).ok());
  EXPECT_EQ(header_.type, DataType::kByte) << "as bytes, if that is enough";
  EXPECT_EQ(header_.flags, 0u);
  group_.has = {};
  ASSERT_TRUE(Check(a).ok());
  EXPECT_EQ(header_.type, DataType::kFloat64);
  EXPECT_EQ(header_.flags, kByHostsFlag);
}

// Whatever types the switches lack: as bytes they would go through these.
TEST_F(ArgumentsTest, WithMulticastCopiesGoBetweenTheHosts) {
  group_.multicast = true;
  CallArguments a{.collective = Collective::kAllGather, .send = At(0), .recv = At(100), .count = 10};
  a.type = Datatype::kFloat64;
  ASSERT_TRUE(Check(a).ok());
  EXPECT_EQ(header_.flags, 0u) << "where these do not reach one another, through the switches";
  group_.hosts_reach = true;
  for (const Abilities& has : {group_.has, Abilities::First()}) {
    group_.has = has;
    for (const Collective collective : {Collective::kAllGather, Collective::kBroadcast}) {
      a.collective = collective;
      ASSERT_TRUE(Check(a).ok());
      EXPECT_EQ(header_.flags, kByHostsFlag);
      EXPECT_EQ(header_.type, DataType::kFloat64);
      EXPECT_EQ(WhyByHosts(group_, header_),
                "broadcasts and allgathers go as datagrams (algorithm multicast)");
    }
  }
  a.collective = Collective::kReduceScatter;
  a.type = Datatype::kFloat32;
  ASSERT_TRUE(Check(a).ok());
  EXPECT_EQ(header_.flags, 0u) << "which sums";
}

TEST_F(ArgumentsTest, ALargeReduceScatterGoesBetweenTheHostsIfTheyReachOneAnother) {
  constexpr size_t kLeast = size_t{kSize} * (kSize - 1) * (24 << 10) / (4 * kSize);  // of a rank's share
  CallArguments a{.collective = Collective::kReduceScatter, .recv = At(0), .count = kLeast};
  a.send = reinterpret_cast<void*>(uintptr_t{1} << 50);
  ASSERT_TRUE(Check(a).ok());
  EXPECT_EQ(header_.flags, 0u) << "they do not";
  group_.hosts_reach = true;
  ASSERT_TRUE(Check(a).ok());
  EXPECT_EQ(header_.flags, kByHostsFlag);
  EXPECT_EQ(
      WhyByHosts(group_, header_),
      "reducescatter of 288 KiB and more: around the ring 3/4 of the data pass a host's link, through the "
      "switches all of them");
  a.type = Datatype::kBFloat16;
  a.count *= 2;
  ASSERT_TRUE(Check(a).ok());
  EXPECT_EQ(header_.flags, 0u) << "which switches round less often";
  a.type = Datatype::kFloat32;
  a.count = kLeast - 1;
  ASSERT_TRUE(Check(a).ok());
  EXPECT_EQ(header_.flags, 0u) << "one element less";
  a.collective = Collective::kAllGather;
  a.count = 100 * kLeast;
  ASSERT_TRUE(Check(a).ok());
  EXPECT_EQ(header_.flags, 0u) << "of which no more passes a link by the switches";
}

TEST_F(ArgumentsTest, InAGroupWithAScaleFloat32IsInt32) {
  group_.scale = 1000;
  group_.has = {};
  group_.has.Add(DataType::kInt32);
  for (const ReduceOp op : {ReduceOp::kSaturatingSum, ReduceOp::kMin}) group_.has.Add(op);
  CallArguments a{.collective = Collective::kAllReduce, .send = At(0), .recv = At(0), .count = 10};
  ASSERT_TRUE(Check(a).ok());
  EXPECT_EQ(header_.type, DataType::kInt32);
  EXPECT_EQ(header_.op, ReduceOp::kSaturatingSum);
  EXPECT_EQ(header_.flags, kQuantisedFlag);
  a.op = RedOp::kAvg;
  ASSERT_TRUE(Check(a).ok());
  EXPECT_EQ(header_.op, ReduceOp::kSaturatingSum);
  EXPECT_EQ(header_.flags, kQuantisedFlag | kAverageFlag);
  a.op = RedOp::kMin;
  ASSERT_TRUE(Check(a).ok());
  EXPECT_EQ(header_.op, ReduceOp::kMin);
  EXPECT_EQ(header_.flags, kQuantisedFlag);
  a.op = RedOp::kProduct;
  ExpectWrong(a, ErrorCode::kUnsupported, "operation product of type float32");
  a.op = RedOp::kBitAnd;
  ExpectWrong(a, ErrorCode::kUnsupported, "operation band of type float32");
  a.op = RedOp::kMax;
  ExpectWrong(a, ErrorCode::kUnsupported, "operation max is not in");
  a.op = RedOp::kSum;
  a.type = Datatype::kFloat64;
  ExpectWrong(a, ErrorCode::kUnsupported, "type float64 is not in");
  a = {.collective = Collective::kAllGather, .send = At(0), .recv = At(100), .count = 10};
  ASSERT_TRUE(Check(a).ok());
  EXPECT_EQ(header_.type, DataType::kInt32) << "as it is";
  EXPECT_EQ(header_.flags, 0u);
  group_.scale = 0;
  ExpectWrong(a, ErrorCode::kUnsupported, "type float32 is not in");
}

TEST_F(ArgumentsTest, InAGroupWithBlocksLargerSumsTravelAsSuch) {
  group_.blocks = true;
  group_.plain_bytes = 400;
  CallArguments a{.collective = Collective::kAllReduce, .send = At(0), .recv = At(0), .count = 101};
  const auto is_in_blocks = [&](bool asked = true) {
    const Error error = CheckArguments(a, 0, kSize, group_, asked, &header_);
    EXPECT_TRUE(error.ok()) << error.message();
    EXPECT_EQ(IsQuantised(header_), IsInBlocks(header_));
    return IsInBlocks(header_);
  };
  EXPECT_TRUE(is_in_blocks());
  EXPECT_EQ(header_.called, DataType::kFloat32);
  EXPECT_EQ(header_.count, 2u);
  EXPECT_EQ(header_.last, 39);
  EXPECT_FALSE(is_in_blocks(/*asked=*/false)) << "the program has said so";
  a.op = RedOp::kAvg;
  EXPECT_TRUE(is_in_blocks());
  EXPECT_EQ(header_.flags, kQuantisedFlag | kAverageFlag);
  for (const RedOp op : {RedOp::kMin, RedOp::kMax, RedOp::kProduct}) {
    a.op = op;
    EXPECT_FALSE(is_in_blocks()) << static_cast<int>(op);
  }
  a.op = RedOp::kSum;
  a.count = 100;
  EXPECT_FALSE(is_in_blocks()) << "what is no more than such data stays as it is";
  a.count = 201;
  for (const Datatype type : {Datatype::kFloat16, Datatype::kBFloat16}) {
    a.type = type;
    EXPECT_TRUE(is_in_blocks());
  }
  for (const Datatype type : {Datatype::kFloat64, Datatype::kInt32, Datatype::kInt8}) {
    a.type = type;
    EXPECT_FALSE(is_in_blocks());
  }
  a.type = Datatype::kFloat32;
  for (const Collective collective : {Collective::kReduce, Collective::kReduceScatter}) {
    a.collective = collective;
    EXPECT_TRUE(is_in_blocks());
  }
  a = {.collective = Collective::kAllGather, .send = At(0), .recv = At(200), .count = 150};
  EXPECT_FALSE(is_in_blocks());
  ControlHeader scatter{.collective = Collective::kReduceScatter,
                        .op = ReduceOp::kSum,
                        .type = DataType::kFloat32,
                        .count = 1,
                        .parts = kMostBlockParts};
  EXPECT_TRUE(ChooseWay(group_, true, &scatter).ok());
  EXPECT_TRUE(IsInBlocks(scatter));
  scatter = {.collective = Collective::kReduceScatter,
             .op = ReduceOp::kSum,
             .type = DataType::kFloat32,
             .count = 100,
             .parts = kMostBlockParts + 1};
  EXPECT_TRUE(ChooseWay(group_, true, &scatter).ok());
  EXPECT_FALSE(IsInBlocks(scatter));
  group_.has = Abilities::All().Within(2);
  a = {.collective = Collective::kAllReduce, .send = At(0), .recv = At(0), .count = 101};
  ExpectWrong(a, ErrorCode::kUnsupported, "type block8 is not in");
}

TEST_F(ArgumentsTest, TheSaturatingSumIsNobodysToAskFor) {
  CallArguments a{.collective = Collective::kAllReduce, .send = At(0), .recv = At(0), .count = 10};
  a.type = Datatype::kInt32;
  a.op = static_cast<RedOp>(77);
  const Error error = Check(a);
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_EQ(error.message().find("saturating"), std::string::npos) << error.message();
}

// What is more than an invocation has is made in slices.
TEST_F(ArgumentsTest, AllPartsTogetherAreAtMost64Tebibytes) {
  CallArguments a{.collective = Collective::kAllGather, .send = At(0), .recv = nullptr};
  a.type = Datatype::kByte;
  a.recv = reinterpret_cast<void*>(uintptr_t{1} << 50);
  a.count = kMaxCallBytes / kSize;
  EXPECT_TRUE(Check(a).ok());
  EXPECT_EQ(header_.count, kMaxCallBytes / kSize);
  ++a.count;
  ExpectWrong(a, ErrorCode::kInvalidArgument, "64 TiB");
  a.count = SIZE_MAX;
  ExpectWrong(a, ErrorCode::kInvalidArgument, "64 TiB");
}

TEST_F(ArgumentsTest, BuffersAreTheSameOrApart) {
  CallArguments a{.collective = Collective::kAllReduce, .send = At(0), .recv = At(9), .count = 10};
  ExpectWrong(a, ErrorCode::kInvalidArgument, "overlap");
  a.recv = At(10);
  EXPECT_TRUE(Check(a).ok());

  a = {.collective = Collective::kReduceScatter, .send = At(0), .recv = At(10 * kRank), .count = 10};
  EXPECT_TRUE(Check(a).ok()) << "in place";
  a.recv = At(0);
  ExpectWrong(a, ErrorCode::kInvalidArgument, "overlap");
  a.recv = At(39);
  ExpectWrong(a, ErrorCode::kInvalidArgument, "overlap");
  a.recv = At(40);
  EXPECT_TRUE(Check(a).ok());

  a = {.collective = Collective::kAllGather, .send = At(10 * kRank), .recv = At(0), .count = 10};
  EXPECT_TRUE(Check(a).ok()) << "in place";
  a.send = At(39);
  ExpectWrong(a, ErrorCode::kInvalidArgument, "overlap");

  a = {.collective = Collective::kBroadcast, .send = At(0), .recv = At(5), .count = 10, .root = 0};
  EXPECT_TRUE(Check(a).ok()) << "only the root sends";
  a.root = kRank;
  ExpectWrong(a, ErrorCode::kInvalidArgument, "overlap");
}

}  // namespace
}  // namespace epic::internal
