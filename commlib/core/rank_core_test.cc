#include "commlib/core/rank_core.h"

#include <array>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/flow.h"

namespace epic {
namespace {

ControlHeader AllReduceHeader(uint64_t count) {
  return {
      .collective = Collective::kAllReduce, .op = ReduceOp::kSum, .type = DataType::kFloat32, .count = count};
}

std::vector<WorkRequest> TakeAll(RankCore& core) {
  std::vector<WorkRequest> out;
  for (WorkRequest request; core.NextWorkRequest(&request);) out.push_back(request);
  return out;
}

// Completes a receive the way a switch that agrees with us would have it.
void CompleteRecv(RankCore& core, const WorkRequest& recv, const ControlHeader& header) {
  std::array<uint8_t, kControlBytes> bytes{};
  ControlHeader reply = header;
  reply.invocation = static_cast<uint64_t>(recv.op);
  Encode(reply, bytes);
  core.OnRecvComplete(recv.wr_id, recv.length,
                      recv.is_control ? std::optional<uint32_t>(recv.op) : std::nullopt, bytes);
}

TEST(RankCoreTest, BarrierIsOneControlMessageEachWay) {
  RankCore core({});
  EXPECT_EQ(core.Post({}), 0);
  const auto requests = TakeAll(core);
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_TRUE(requests[0].is_recv);
  EXPECT_FALSE(requests[1].is_recv);
  for (const auto& r : requests) {
    EXPECT_TRUE(r.is_control);
    EXPECT_EQ(r.length, kControlBytes);
  }
  CompleteRecv(core, requests[0], {});
  EXPECT_FALSE(core.NextFinished()) << "our own send is not acknowledged yet";
  core.OnSendComplete(requests[1].wr_id);
  const auto finished = core.NextFinished();
  ASSERT_TRUE(finished);
  EXPECT_EQ(finished->outcome, Outcome::kOk);
  EXPECT_TRUE(core.idle());
}

TEST(RankCoreTest, DataIsCutIntoMessagesOfMPackets) {
  RankCore core({.path_mtu = 256, .message_packets = 4, .window_messages = 16});
  const uint64_t count = 4 * 64 + 64 + 3;  // 5 packets and 12 bytes
  core.Post(AllReduceHeader(count));
  std::vector<std::pair<uint64_t, uint32_t>> sends;
  for (const auto& r : TakeAll(core)) {
    if (!r.is_recv && !r.is_control) sends.emplace_back(r.offset, r.length);
  }
  EXPECT_THAT(sends, testing::ElementsAre(std::pair<uint64_t, uint32_t>(0, 1024),
                                          std::pair<uint64_t, uint32_t>(1024, 268)));
}

TEST(RankCoreTest, NoElementsIsAControlMessageOnly) {
  RankCore core({});
  core.Post(AllReduceHeader(0));
  EXPECT_EQ(TakeAll(core).size(), 2u);
}

TEST(RankCoreTest, ReceivesAloneDoNotOpenTheWindow) {
  RankCore core({.path_mtu = 256, .message_packets = 1, .window_messages = 2});
  const ControlHeader header = AllReduceHeader(64 * 4);  // indices 0 (control) to 4
  core.Post(header);
  std::vector<WorkRequest> sends, recvs;
  for (const auto& r : TakeAll(core)) (r.is_recv ? recvs : sends).push_back(r);
  ASSERT_EQ(sends.size(), 2u);  // MW = 2
  CompleteRecv(core, recvs[0], header);
  CompleteRecv(core, recvs[1], header);
  for (const auto& r : TakeAll(core)) EXPECT_TRUE(r.is_recv) << "results came, acknowledgements did not";
  core.OnSendComplete(sends[0].wr_id);
  int more = 0;
  for (const auto& r : TakeAll(core)) more += r.is_recv ? 0 : 1;
  EXPECT_EQ(more, 1);
}

TEST(RankCoreTest, AtMostSixteenInvocationsAreOpen) {
  RankCore core({.path_mtu = 1024, .message_packets = 8, .window_messages = 8});
  for (int i = 0; i < 40; ++i) core.Post({});
  std::vector<WorkRequest> sends, recvs;
  for (const auto& r : TakeAll(core)) (r.is_recv ? recvs : sends).push_back(r);
  EXPECT_EQ(sends.size(), 16u);
  EXPECT_EQ(recvs.size(), 16u);
  CompleteRecv(core, recvs[0], {});
  core.OnSendComplete(sends[0].wr_id);
  const auto more = TakeAll(core);
  ASSERT_EQ(more.size(), 2u);
  EXPECT_EQ(more[0].op, 16);
  EXPECT_EQ(ControlSlot(more[0].op), ControlSlot(0));
}

TEST(RankCoreTest, RefusalIsFatalAndKeepsWhatWasWhole) {
  RankCore core({});
  core.Post({});
  core.Post(AllReduceHeader(100));
  core.Post({});
  std::vector<WorkRequest> recvs;
  for (const auto& r : TakeAll(core)) {
    if (r.is_recv) recvs.push_back(r);
  }
  CompleteRecv(core, recvs[0], {});  // whole, though its send is not acknowledged
  ControlHeader bad = AllReduceHeader(200);
  bad.status = ControlStatus::kMismatch;
  bad.field = ControlField::kCount;
  bad.culprit = 2;
  CompleteRecv(core, recvs[1], bad);
  EXPECT_TRUE(core.failed());
  EXPECT_EQ(core.failure(), Outcome::kRefused);
  EXPECT_FALSE(core.NextFinished()) << "the queue pair still may touch the buffers";
  EXPECT_TRUE(TakeAll(core).empty());
  core.OnSendComplete(0);  // a late completion does no harm
  core.OnDrained();
  EXPECT_EQ(core.NextFinished()->outcome, Outcome::kOk);
  const auto refused = core.NextFinished();
  EXPECT_EQ(refused->outcome, Outcome::kRefused);
  EXPECT_EQ(refused->reply.culprit, 2u);
  EXPECT_EQ(refused->reply.field, ControlField::kCount);
  EXPECT_EQ(core.NextFinished()->outcome, Outcome::kRefused);
  EXPECT_FALSE(core.NextFinished());
}

TEST(RankCoreTest, AbortEndsWhatIsOutstanding) {
  RankCore core({});
  core.Post(AllReduceHeader(10));
  TakeAll(core);
  core.Abort();
  EXPECT_TRUE(TakeAll(core).empty());
  core.OnDrained();
  EXPECT_EQ(core.NextFinished()->outcome, Outcome::kAborted);
}

TEST(RankCoreTest, WrongRepliesAreProtocolErrors) {
  const ControlHeader header = AllReduceHeader(10);
  const auto first_recv = [&](RankCore& core) {
    core.Post(header);
    return TakeAll(core)[0];
  };
  std::array<uint8_t, kControlBytes> bytes{};
  Encode(header, bytes);
  {
    RankCore core({});
    core.OnRecvComplete(first_recv(core).wr_id, 64, 1, bytes);
    EXPECT_EQ(core.failure(), Outcome::kProtocol) << "immediate of another invocation";
  }
  {
    RankCore core({});
    core.OnRecvComplete(first_recv(core).wr_id, 60, 0, bytes);
    EXPECT_EQ(core.failure(), Outcome::kProtocol) << "short";
  }
  {
    RankCore core({});
    CompleteRecv(core, first_recv(core), AllReduceHeader(11));
    EXPECT_EQ(core.failure(), Outcome::kProtocol) << "OK for another count";
  }
  {
    RankCore core({});
    core.Post(header);
    const auto requests = TakeAll(core);
    CompleteRecv(core, requests[0], header);
    core.OnRecvComplete(requests[1].wr_id, 39, std::nullopt, {});
    EXPECT_EQ(core.failure(), Outcome::kProtocol) << "short data";
  }
}

// The window rule stated once more, on packets instead of messages: a sent packet's index is below the
// smallest index that is not complete in both directions, plus MW.
struct Oracle {
  int64_t window = 0;
  std::vector<int64_t> message_end;  // index behind each message
  size_t sends = 0, recvs = 0;       // completed messages

  int64_t Complete() const {
    const size_t both = std::min(sends, recvs);
    return both == 0 ? 0 : message_end[both - 1];
  }
};

void RunRandomSchedule(uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  const CoreConfig config{.path_mtu = 256, .message_packets = 1 + below(8), .window_messages = 1 + below(8)};
  RankCore core(config);
  Oracle oracle{.window = static_cast<int64_t>(config.message_packets) * config.window_messages,
                .message_end = {}};
  std::vector<ControlHeader> headers;
  std::vector<WorkRequest> sends, recvs;
  size_t finished = 0;
  const size_t calls = 40;
  while (finished < calls) {
    if (headers.size() < calls && below(3) == 0) {
      headers.push_back(below(2) == 0 ? ControlHeader{} : AllReduceHeader(below(6000)));
      ASSERT_EQ(core.Post(headers.back()), static_cast<OpId>(headers.size()) - 1);
      int64_t at = oracle.message_end.empty() ? 0 : oracle.message_end.back();
      oracle.message_end.push_back(++at);
      for (int64_t left = LayoutOf(headers.back(), 256).packets(); left > 0; left -= config.message_packets) {
        at += std::min<int64_t>(left, config.message_packets);
        oracle.message_end.push_back(at);
      }
    }
    for (const auto& r : TakeAll(core)) {
      auto& queue = r.is_recv ? recvs : sends;
      ASSERT_EQ(r.wr_id, queue.size()) << "stream order, seed " << seed;
      if (!r.is_recv) {
        ASSERT_LT(r.wr_id, recvs.size()) << "receive first, seed " << seed;
        ASSERT_LE(oracle.message_end[r.wr_id], oracle.Complete() + oracle.window) << "seed " << seed;
        ASSERT_LT(r.op, static_cast<OpId>(finished) + kMaxOpenInvocations) << "seed " << seed;
      }
      queue.push_back(r);
      ASSERT_LE(sends.size() - oracle.sends, MaxSendRequests(static_cast<uint32_t>(oracle.window)));
      ASSERT_LE(recvs.size() - oracle.recvs, MaxRecvRequests(static_cast<uint32_t>(oracle.window)));
    }
    // A result comes after our own packet has left; the two directions complete independently.
    if (below(2) == 0 && oracle.recvs < sends.size()) {
      const WorkRequest& r = recvs[oracle.recvs++];
      CompleteRecv(core, r, headers[static_cast<size_t>(r.op)]);
    }
    if (below(2) == 0 && oracle.sends < sends.size()) core.OnSendComplete(sends[oracle.sends++].wr_id);
    while (const auto done = core.NextFinished()) {
      ASSERT_EQ(done->op, static_cast<OpId>(finished)) << "program order, seed " << seed;
      ASSERT_EQ(done->outcome, Outcome::kOk);
      ++finished;
    }
    ASSERT_FALSE(core.failed());
  }
  EXPECT_TRUE(core.idle());
}

TEST(RankCoreTest, KeepsTheWindowUnderRandomCompletions) {
  for (uint32_t seed = 0; seed < 200; ++seed) ASSERT_NO_FATAL_FAILURE(RunRandomSchedule(seed));
}

}  // namespace
}  // namespace epic
