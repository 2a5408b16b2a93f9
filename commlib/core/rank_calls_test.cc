#include "commlib/core/rank_calls.h"

#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace epic {
namespace {

using Numbers = std::vector<int32_t>;

ControlHeader Sum(uint64_t count, uint32_t flags = 0) {
  return {.collective = Collective::kAllReduce,
          .op = ReduceOp::kSum,
          .type = DataType::kInt32,
          .count = count,
          .flags = flags};
}

const uint8_t* Bytes(const Numbers& numbers) { return reinterpret_cast<const uint8_t*>(numbers.data()); }
uint8_t* Bytes(Numbers& numbers) { return reinterpret_cast<uint8_t*>(numbers.data()); }

// A rank with its queue pair and a switch that returns `factor` times what the rank sent.
class World {
 public:
  explicit World(float scale = 0) : calls(64) { calls.SetConfig({.world_size = 2, .scale = scale}); }
  std::vector<RankCalls::Request> Post() {
    std::vector<RankCalls::Request> requests;
    for (RankCalls::Request request; calls.NextRequest(&request);) requests.push_back(request);
    return requests;
  }
  // Control and data of one call, in both directions.
  void Complete(const std::vector<RankCalls::Request>& requests, int32_t factor) {
    ASSERT_EQ(requests.size(), 4u);
    const auto& [control_in, data_in, control_out, data_out] =
        std::tie(requests[0], requests[1], requests[2], requests[3]);
    ASSERT_TRUE(control_in.is_recv && data_in.is_recv && !control_out.is_recv && !data_out.is_recv);
    EXPECT_TRUE(control_out.has_imm);
    std::memcpy(control_in.address, control_out.address, kControlBytes);
    calls.OnComplete(control_in.wr_id, kControlBytes, control_out.imm);
    for (uint32_t at = 0; at < data_in.length; at += 4) {
      int32_t value = 0;
      std::memcpy(&value, data_out.address + at, 4);
      value *= factor;
      std::memcpy(data_in.address + at, &value, 4);
    }
    calls.OnComplete(data_in.wr_id, data_in.length, std::nullopt);
    // What the library has a copy of is nobody's while it is sent again.
    const bool kept = data_out.is_own_memory;
    const auto with_result = calls.NextFinished();
    EXPECT_EQ(with_result.has_value(), kept);
    calls.OnComplete(control_out.wr_id, 0, std::nullopt);
    EXPECT_FALSE(calls.NextFinished());
    calls.OnComplete(data_out.wr_id, 0, std::nullopt);
    const auto finished = kept ? with_result : calls.NextFinished();
    ASSERT_TRUE(finished);
    EXPECT_EQ(finished->outcome, Outcome::kOk);
    EXPECT_FALSE(calls.NextFinished());
  }
  RankCalls calls;
};

TEST(RankCallsTest, ASmallAllReduceIsReceivedIntoTheBytesThatItIsSentFrom) {
  World world;
  const Numbers send = {1, 2, 3, 4};
  Numbers recv(4);
  ASSERT_TRUE(world.calls.Fits(Sum(4)));
  world.calls.Post(Sum(4), Bytes(send), Bytes(recv), Way::kBounce);
  const auto requests = world.Post();
  ASSERT_EQ(requests.size(), 4u);
  EXPECT_EQ(requests[1].address, requests[3].address);
  EXPECT_TRUE(requests[3].is_own_memory);
  world.Complete(requests, 2);
  EXPECT_EQ(recv, (Numbers{2, 4, 6, 8}));
  EXPECT_EQ(send, (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(world.calls.posted(), 0);
}

TEST(RankCallsTest, ALargerOneTravelsInTheCallersBuffers) {
  World world;
  const Numbers send(17, 5);
  Numbers recv(17);
  EXPECT_FALSE(world.calls.Fits(Sum(17)));
  world.calls.Post(Sum(17, kAverageFlag), Bytes(send), Bytes(recv), Way::kDirect);
  const auto requests = world.Post();
  ASSERT_EQ(requests.size(), 4u);
  EXPECT_EQ(requests[1].address, Bytes(recv));
  EXPECT_EQ(requests[3].address, Bytes(send));
  EXPECT_FALSE(requests[3].is_own_memory);
  world.Complete(requests, 4);
  EXPECT_EQ(recv, Numbers(17, 10)) << "an average over two ranks";
}

// What was asked for takes place behind the answer, which nobody takes of a group that has failed.
TEST(RankCallsTest, ARequestThatIsAnsweredAsTheGroupFailsIsNotGranted) {
  for (const bool fails : {false, true}) {
    World world;
    Numbers numbers = {1};
    world.calls.Post(Sum(1, kRequestFlag), Bytes(numbers), Bytes(numbers), Way::kBounce);
    const auto requests = world.Post();
    ASSERT_EQ(requests.size(), 2u);
    std::memcpy(requests[0].address, requests[1].address, kControlBytes);
    world.calls.OnComplete(requests[0].wr_id, kControlBytes, requests[1].imm);
    world.calls.OnComplete(requests[1].wr_id, 0, std::nullopt);
    if (fails) world.calls.Abort();
    const auto finished = world.calls.NextFinished();
    ASSERT_TRUE(finished);
    EXPECT_EQ(finished->outcome, fails ? Outcome::kAborted : Outcome::kOk);
    EXPECT_EQ(numbers, Numbers{1}) << "a request has no data";
  }
}

// A slice of a call has a stretch of each part: between two lie what other slices have.
TEST(RankCallsTest, PartsOfASliceLieSideBySideOnTheirWay) {
  constexpr uint64_t kStride = 6 * sizeof(int32_t);
  const ControlHeader scatter{.collective = Collective::kReduceScatter,
                              .op = ReduceOp::kSum,
                              .type = DataType::kInt32,
                              .count = 2,
                              .parts = 2};
  ControlHeader gather = scatter;
  gather.collective = Collective::kAllGather;
  gather.op = ReduceOp::kNone;
  const Numbers send = {1, 2, 0, 0, 0, 0, 3, 4};
  Numbers recv(8);
  for (const uint64_t inline_bytes : {0, 64}) {
    RankCalls calls(64, inline_bytes);
    calls.SetConfig({.world_size = 2, .inline_bytes = inline_bytes});
    calls.Post(scatter, Bytes(send), Bytes(recv), Way::kBounce, kStride);
    RankCalls::Request request;
    do {
      ASSERT_TRUE(calls.NextRequest(&request));
    } while (request.is_recv);
    const uint8_t* const data = inline_bytes > 0 ? request.address + kControlBytes
                                                 : calls.memory().data() + 32 * kControlBytes;
    EXPECT_EQ(std::memcmp(data, Numbers{1, 2, 3, 4}.data(), 16), 0) << inline_bytes;
  }
  RankCalls calls(64, 64);
  calls.SetConfig({.world_size = 2, .inline_bytes = 64});
  calls.Post(gather, Bytes(send), Bytes(recv), Way::kBounce, kStride);
  RankCalls::Request in, out;
  ASSERT_TRUE(calls.NextRequest(&in) && calls.NextRequest(&out));
  ASSERT_EQ(in.length, out.length);
  std::memcpy(in.address, out.address, kControlBytes);
  std::memcpy(in.address + kControlBytes, Numbers{5, 6, 7, 8}.data(), 16);
  calls.OnComplete(in.wr_id, in.length, out.imm);
  ASSERT_TRUE(calls.NextFinished());
  EXPECT_EQ(recv, (Numbers{5, 6, 0, 0, 0, 0, 7, 8}));
}

TEST(RankCallsTest, AResultIsCopiedOutBeforeItsBufferIsUsedAgain) {
  World world;
  constexpr size_t kCalls = kMaxOpenInvocations + 1;
  const std::array<Numbers, 2> send = {Numbers{7}, Numbers{9}};
  std::vector<Numbers> recv(kCalls, Numbers(1));
  for (size_t k = 0; k < kCalls; ++k)
    world.calls.Post(Sum(1), Bytes(send[k % 2]), Bytes(recv[k]), Way::kBounce);
  // One call of four requests after the other is let through; the next takes its place.
  std::vector<RankCalls::Request> recvs, sends;
  for (size_t k = 0; k < kCalls; ++k) {
    for (const auto& request : world.Post()) (request.is_recv ? recvs : sends).push_back(request);
    ASSERT_GE(recvs.size(), 2 * k + 2);
    ASSERT_GE(sends.size(), 2 * k + 2);
    world.Complete({recvs[2 * k], recvs[2 * k + 1], sends[2 * k], sends[2 * k + 1]}, 3);
  }
  for (size_t k = 0; k < kCalls; ++k) EXPECT_EQ(recv[k], Numbers{send[k % 2][0] * 3}) << k;
}

// The queue pair may read what it has sent until that is acknowledged, though the calls have ended.
TEST(RankCallsTest, ABufferIsNotUsedAgainWhileItsCallIsOpen) {
  World world;
  constexpr size_t kCalls = kMaxOpenInvocations + 1;
  const Numbers send = {7};
  std::vector<Numbers> recv(kCalls, Numbers(1));
  for (size_t k = 0; k < kCalls; ++k) world.calls.Post(Sum(1), Bytes(send), Bytes(recv[k]), Way::kBounce);
  std::vector<RankCalls::Request> sends;
  std::deque<RankCalls::Request> recvs;
  size_t ended = 0;
  for (bool any = true; any;) {
    any = false;
    for (const auto& request : world.Post()) {
      any = true;
      if (request.is_recv) {
        recvs.push_back(request);
      } else {
        sends.push_back(request);
      }
    }
    for (size_t answered = 2 * ended; answered < sends.size(); ++answered, recvs.pop_front()) {
      const RankCalls::Request& in = recvs.front();
      const RankCalls::Request& out = sends[answered];
      std::memmove(in.address, out.address, out.length);  // data come back into the bytes that were sent
      world.calls.OnComplete(in.wr_id, out.length, out.has_imm ? std::optional(out.imm) : std::nullopt);
    }
    while (world.calls.NextFinished()) ++ended;
  }
  EXPECT_EQ(ended, static_cast<size_t>(kMaxOpenInvocations)) << "or MW, where that is less";
  for (const auto& out : sends) world.calls.OnComplete(out.wr_id, 0, std::nullopt);
  EXPECT_FALSE(world.Post().empty()) << "the last call's";
}

// Its data go between the hosts: here it is a control message, and the switches' reply ends it.
TEST(RankCallsTest, ACallByTheHostsIsItsControlMessageAlone) {
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduce}) {
    World world;
    const Numbers send(17, 5);
    Numbers recv(17, 3);
    ControlHeader header = Sum(17, kByHostsFlag | kAverageFlag);
    header.collective = collective;
    world.calls.Post(header, Bytes(send), Bytes(recv), Way::kDirect);
    const auto requests = world.Post();
    ASSERT_EQ(requests.size(), 2u);
    std::memcpy(requests[0].address, requests[1].address, kControlBytes);
    world.calls.OnComplete(requests[0].wr_id, kControlBytes, requests[1].imm);
    world.calls.OnComplete(requests[1].wr_id, 0, std::nullopt);
    const auto finished = world.calls.NextFinished();
    ASSERT_TRUE(finished);
    EXPECT_EQ(finished->outcome, Outcome::kOk);
    EXPECT_EQ(recv, Numbers(17, 3)) << "untouched, an average too";
  }
}

// A slice of a call has its stretch of every part.
TEST(RankCallsTest, PartsMayLieApart) {
  for (const bool gathers : {false, true}) {
    RankCalls calls(0);
    calls.SetConfig({.path_mtu = 256, .message_packets = 1, .world_size = 3});
    ControlHeader header = Sum(100);
    header.collective = gathers ? Collective::kAllGather : Collective::kReduceScatter;
    header.parts = 3;
    if (gathers) header.op = ReduceOp::kNone;
    Numbers parts(3000), one(100);
    calls.Post(header, Bytes(gathers ? one : parts), Bytes(gathers ? parts : one), Way::kDirect, 4000);
    std::vector<std::pair<size_t, uint32_t>> seen;  // place in the buffer with all parts, length
    RankCalls::Request request;
    const auto look = [&] {
      while (calls.NextRequest(&request)) {
        if (request.is_own_memory) {
          if (!request.is_recv && !gathers) continue;
          if (request.is_recv) {
            Encode(header, std::span<uint8_t, kControlBytes>(request.address, kControlBytes));
          }
        } else if (request.is_recv == gathers) {
          seen.emplace_back(static_cast<size_t>(request.address - Bytes(parts)), request.length);
        }
      }
    };
    look();
    if (!gathers) {  // data follow the reply
      calls.OnComplete(1, kControlBytes, 0);
      look();
    }
    const std::vector<std::pair<size_t, uint32_t>> all = {{0, 256},    {256, 144},  {4000, 256},
                                                          {4256, 144}, {8000, 256}, {8256, 144}};
    const std::vector<std::pair<size_t, uint32_t>> others(all.begin() + 2, all.end());
    EXPECT_EQ(seen, gathers ? others : all);
  }
}

TEST(RankCallsTest, AnAbortedCallLeavesTheCallersBufferAlone) {
  World world;
  const Numbers send = {1};
  Numbers recv = {77};
  world.calls.Post(Sum(1), Bytes(send), Bytes(recv), Way::kBounce);
  for (size_t left = world.Post().size(); left > 0; --left) world.calls.OnFlushed();
  world.calls.Abort();
  EXPECT_EQ(world.calls.posted(), 0);
  world.calls.OnDrained();
  EXPECT_EQ(world.calls.NextFinished()->outcome, Outcome::kAborted);
  EXPECT_EQ(recv, Numbers{77});
}

// What is copied otherwise is made INT32 on its way in, and divided on its way out.
TEST(RankCallsTest, AQuantisedCallIsInt32WhileItTravels) {
  World world(1000);
  const std::vector<float> send = {1.5f, -0.0625f, 3e6f, 0.0004f};
  std::vector<float> recv(4);
  const uint32_t flags = kQuantisedFlag | kAverageFlag;
  world.calls.Post(Sum(4, flags), reinterpret_cast<const uint8_t*>(send.data()),
                   reinterpret_cast<uint8_t*>(recv.data()), Way::kBounce);
  const auto requests = world.Post();
  ASSERT_EQ(requests.size(), 4u);
  Numbers whole(4);
  std::memcpy(whole.data(), requests[3].address, 16);
  EXPECT_EQ(whole, (Numbers{1500, -62, INT32_MAX, 0})) << "to nearest, ties to even";
  EXPECT_EQ(world.calls.saturation().inputs, 1u);
  world.Complete(requests, 1);
  EXPECT_EQ(recv, (std::vector<float>{0.75f, static_cast<float>(-62 / 2000.0),
                                      static_cast<float>(INT32_MAX / 2000.0), 0}));
  EXPECT_EQ(world.calls.saturation().results, 1u);
}

// A slice of a ReduceScatter, whose parts lie apart.
TEST(RankCallsTest, AQuantisedSliceIsGatheredFromItsParts) {
  World world(2);
  const std::vector<float> send = {1, 2, 77, 77, 3, 4, 77, 77};
  std::vector<float> recv(2);
  ControlHeader header = Sum(2, kQuantisedFlag);
  header.collective = Collective::kReduceScatter;
  header.parts = 2;
  EXPECT_LE(16u, world.calls.MostQuantised(header.collective));
  world.calls.Post(header, reinterpret_cast<const uint8_t*>(send.data()),
                   reinterpret_cast<uint8_t*>(recv.data()), Way::kBounce, 16);
  for (const auto& request : world.Post()) {
    if (request.is_recv || !request.has_imm) continue;
    Numbers whole(4);
    // Behind all control packets; tracked data have not been asked for yet.
    std::memcpy(whole.data(), world.calls.memory().data() + 2 * kMaxOpenInvocations * kControlBytes, 16);
    EXPECT_EQ(whole, (Numbers{2, 4, 6, 8}));
  }
}

// Two parts of 70 numbers, each of a block and a short one. What is received is divided when it is FP32
// again, and nothing is written behind it.
TEST(RankCallsTest, ACallInBlocksIsSuchWhileItTravels) {
  RankCalls calls(1024);
  calls.SetConfig({.world_size = 2});
  constexpr size_t kElements = 70, kStride = 100;
  std::vector<float> send(2 * kStride, 1e9f), recv(kElements + 1, 77);
  for (size_t i = 0; i < kElements; ++i) {
    send[i] = i < kBlockElements ? 127 : 254;
    send[kStride + i] = -send[i];
  }
  ControlHeader header = InBlocks({.collective = Collective::kReduceScatter,
                                   .op = ReduceOp::kSum,
                                   .type = DataType::kFloat32,
                                   .count = kElements,
                                   .parts = 2,
                                   .flags = kQuantisedFlag | kAverageFlag});
  calls.Post(header, reinterpret_cast<const uint8_t*>(send.data()), reinterpret_cast<uint8_t*>(recv.data()),
             Way::kBounce, kStride * sizeof(float));
  RankCalls::Request control_in, data_in, out;
  ASSERT_TRUE(calls.NextRequest(&control_in) && calls.NextRequest(&data_in) && calls.NextRequest(&out));
  ASSERT_TRUE(control_in.is_recv && data_in.is_recv && out.has_imm);
  EXPECT_EQ(data_in.length, 2 * kBlockBytes);
  // Behind all control packets; tracked data have not been asked for yet.
  const uint8_t* const blocks = calls.memory().data() + 2 * kMaxOpenInvocations * kControlBytes;
  for (size_t block = 0; block < 4; ++block) {
    const auto q = static_cast<int8_t>(block < 2 ? 127 : -127);
    for (size_t i = 0; i < kBlockElements; ++i) {
      const bool in_part = block % 2 == 0 || i < kElements - kBlockElements;
      ASSERT_EQ(static_cast<int8_t>(blocks[block * kBlockBytes + 2 + i]), in_part ? q : 0)
          << block << " " << i;
    }
    EXPECT_EQ(blocks[block * kBlockBytes + 1], block % 2 == 0 ? 0x3f : 0x40) << "1 and 2 in BF16";
  }
  std::memcpy(control_in.address, out.address, kControlBytes);
  calls.OnComplete(control_in.wr_id, kControlBytes, out.imm);
  calls.OnComplete(out.wr_id, 0, std::nullopt);
  for (RankCalls::Request data_out; calls.NextRequest(&data_out);)
    calls.OnComplete(data_out.wr_id, 0, std::nullopt);
  std::memcpy(data_in.address, blocks, 2 * kBlockBytes);
  calls.OnComplete(data_in.wr_id, data_in.length, std::nullopt);
  ASSERT_TRUE(calls.NextFinished());
  for (size_t i = 0; i < kElements; ++i) ASSERT_EQ(recv[i], send[i] / 2) << i;
  EXPECT_EQ(recv[kElements], 77);
}

TEST(RankCallsDeathTest, AQuantisedCallDoesNotTravelInTheCallersBuffers) {
  World world(1);
  Numbers data(4);
  EXPECT_DEATH(world.calls.Post(Sum(4, kQuantisedFlag), Bytes(data), Bytes(data), Way::kDirect), "loaded");
}

}  // namespace
}  // namespace epic
