// Small calls in one message each way: what the ranks of a group put behind their headers, and take out of
// what comes back (docs/PROTOCOL.md, section 3; docs/HOST-INTERNALS.md, "A call's way").
#include <array>
#include <cstring>
#include <vector>

#include "commlib/core/rank_calls.h"
#include "gtest/gtest.h"
#include "reduce/reduce.h"

namespace epic {
namespace {

constexpr uint32_t kRanks = 3;
using Numbers = std::vector<int32_t>;

ControlHeader Header(Collective collective, uint64_t count, uint32_t root = 0) {
  return {.collective = collective,
          .op = Reduces(collective) ? ReduceOp::kSum : ReduceOp::kNone,
          .type = DataType::kInt32,
          .count = count,
          .root = root,
          .parts = HasPartPerRank(collective) ? kRanks : 1};
}

// Three ranks, and a switch that adds what is to be added and merges what is not.
class InlinedCallsTest : public testing::Test {
 protected:
  InlinedCallsTest() {
    for (uint32_t r = 0; r < kRanks; ++r) {
      ranks.emplace_back(/*bounce_bytes=*/64, /*inline_bytes=*/192);
      ranks[r].SetConfig(
          {.path_mtu = 256, .message_packets = 1, .rank = r, .world_size = kRanks, .inline_bytes = 192});
    }
  }
  // Makes the call on all ranks, with what each gives and what each must get.
  void Call(const ControlHeader& header, const std::vector<Numbers>& give, const std::vector<Numbers>& get) {
    std::vector<Numbers> recv = get;
    std::vector<RankCalls::Request> in, out;
    for (uint32_t r = 0; r < kRanks; ++r) {
      std::fill(recv[r].begin(), recv[r].end(), -1);
      CopyOwnPart(header, r, Bytes(give[r]), Bytes(recv[r]));
      ASSERT_TRUE(ranks[r].Inlines(header));
      ranks[r].Post(header, Bytes(give[r]), Bytes(recv[r]), Way::kDirect);
      RankCalls::Request request;
      ASSERT_TRUE(ranks[r].NextRequest(&request));
      ASSERT_TRUE(request.is_recv && request.is_own_memory);
      in.push_back(request);
      ASSERT_TRUE(ranks[r].NextRequest(&request));
      ASSERT_TRUE(!request.is_recv && request.is_own_memory && request.has_imm);
      ASSERT_EQ(request.length, kControlBytes + CallBytes(header));
      out.push_back(request);
      ASSERT_FALSE(ranks[r].NextRequest(&request)) << "one message each way";
    }
    Exchange(header, in, out);
    for (uint32_t r = 0; r < kRanks; ++r) {
      const auto finished = ranks[r].NextFinished();
      ASSERT_TRUE(finished);
      EXPECT_EQ(finished->outcome, Outcome::kOk);
      EXPECT_EQ(recv[r], get[r]) << "rank " << r;
    }
  }

  std::vector<RankCalls> ranks;

 private:
  static uint8_t* Bytes(const Numbers& numbers) {
    return reinterpret_cast<uint8_t*>(const_cast<int32_t*>(numbers.data()));
  }
  void Exchange(const ControlHeader& header, const std::vector<RankCalls::Request>& in,
                const std::vector<RankCalls::Request>& out) {
    std::vector<uint8_t> message(out[0].address, out[0].address + out[0].length);
    const auto data = std::span(message).subspan(kControlBytes);
    for (uint32_t r = 1; r < kRanks; ++r) {
      EXPECT_TRUE(IsInlined(*HeaderOf({out[r].address, kControlBytes})));
      const std::span<const uint8_t> more(out[r].address + kControlBytes, data.size());
      Reduces(header.collective) ? Accumulate(header.op, header.type, data, more) : Merge(data, more);
    }
    for (uint32_t r = 0; r < kRanks; ++r) {
      const std::vector<uint8_t> sent(out[r].address, out[r].address + out[r].length);
      std::memcpy(in[r].address, message.data(), message.size());
      EXPECT_TRUE(std::equal(sent.begin(), sent.end(), out[r].address)) << "what is sent may be sent again";
      ranks[r].OnComplete(in[r].wr_id, in[r].length, out[r].imm);
      ranks[r].OnComplete(out[r].wr_id, 0, std::nullopt);
    }
  }
};

TEST_F(InlinedCallsTest, ReductionsGoToThoseWhoReceiveThem) {
  const std::vector<Numbers> give = {{1, 2, 3}, {10, 20, 30}, {100, 200, 300}};
  const Numbers sum = {111, 222, 333};
  Call(Header(Collective::kAllReduce, 3), give, {sum, sum, sum});
  Call(Header(Collective::kReduce, 3, 1), give, {{}, sum, {}});
  Call(Header(Collective::kReduceScatter, 1), give, {{111}, {222}, {333}});
}

TEST_F(InlinedCallsTest, CopiesComeFromThoseWhoSendThem) {
  Call(Header(Collective::kBroadcast, 2, 2), {{}, {}, {-7, 8}}, {{-7, 8}, {-7, 8}, {-7, 8}});
  const Numbers all = {1, -1, 2, -2, 3, -3};
  Call(Header(Collective::kAllGather, 2), {{1, -1}, {2, -2}, {3, -3}}, {all, all, all});
}

TEST_F(InlinedCallsTest, AverageIsMadeOfASum) {
  ControlHeader header = Header(Collective::kAllReduce, 2);
  header.flags = kAverageFlag;
  Call(header, {{3, 6}, {3, 6}, {6, 9}}, {{4, 7}, {4, 7}, {4, 7}});
}

TEST_F(InlinedCallsTest, MoreThanTheLimitFollowsItsControlPacket) {
  EXPECT_TRUE(ranks[0].Inlines(Header(Collective::kAllReduce, 48)));
  EXPECT_FALSE(ranks[0].Inlines(Header(Collective::kAllReduce, 49)));
  EXPECT_FALSE(ranks[0].Inlines(Header(Collective::kReduceScatter, 17))) << "51 elements in all parts";
  EXPECT_FALSE(ranks[0].Inlines({}));
}

// The reply fits whatever a rank expects, and says why.
TEST_F(InlinedCallsTest, ARefusalIsAHeaderAlone) {
  const Numbers send = {1, 2};
  Numbers recv = {7, 7};
  ControlHeader header = Header(Collective::kAllReduce, 2);
  RankCalls& rank = ranks[0];
  rank.Post(header, reinterpret_cast<const uint8_t*>(send.data()), reinterpret_cast<uint8_t*>(recv.data()),
            Way::kDirect);
  RankCalls::Request in, out;
  ASSERT_TRUE(rank.NextRequest(&in) && rank.NextRequest(&out));
  header.status = ControlStatus::kMismatch;
  Encode(header, std::span<uint8_t, kControlBytes>(in.address, kControlBytes));
  rank.OnComplete(in.wr_id, kControlBytes, 0);
  EXPECT_TRUE(rank.failed());
  EXPECT_EQ(rank.failure(), Outcome::kRefused);
  EXPECT_EQ(rank.failure_reply().status, ControlStatus::kMismatch);
  EXPECT_EQ(recv, (Numbers{7, 7}));
}

TEST_F(InlinedCallsTest, AReplyWithoutTheDataIsNoResult) {
  const Numbers send = {1, 2};
  Numbers recv = {7, 7};
  RankCalls& rank = ranks[0];
  rank.Post(Header(Collective::kAllReduce, 2), reinterpret_cast<const uint8_t*>(send.data()),
            reinterpret_cast<uint8_t*>(recv.data()), Way::kDirect);
  RankCalls::Request in, out;
  ASSERT_TRUE(rank.NextRequest(&in) && rank.NextRequest(&out));
  std::memcpy(in.address, out.address, kControlBytes);
  rank.OnComplete(in.wr_id, kControlBytes, 0);
  EXPECT_EQ(rank.failure(), Outcome::kProtocol);
}

}  // namespace
}  // namespace epic
