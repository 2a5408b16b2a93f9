#include "commlib/core/rank_core.h"

#include <array>
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

TEST(RankCoreTest, ACallWhoseDataStayEndsWithItsResult) {
  RankCore core({});
  const ControlHeader header = AllReduceHeader(4);
  core.Post(header, true);
  const auto requests = TakeAll(core);
  ASSERT_EQ(requests.size(), 4u);
  CompleteRecv(core, requests[0], header);
  EXPECT_FALSE(core.NextFinished());
  CompleteRecv(core, requests[1], header);
  ASSERT_TRUE(core.NextFinished());
  EXPECT_EQ(core.first_open(), 0) << "its sends are not acknowledged";
  core.OnSendComplete(requests[2].wr_id);
  EXPECT_FALSE(core.idle());
  core.OnSendComplete(requests[3].wr_id);
  EXPECT_TRUE(core.idle());
  EXPECT_EQ(core.first_open(), 1);
  EXPECT_FALSE(core.NextFinished()) << "once";
}

// Nothing comes back that would say that the data of a Broadcast have arrived.
TEST(RankCoreTest, WhoOnlySendsWaitsForTheAcknowledgement) {
  RankCore core({});
  const ControlHeader header = {
      .collective = Collective::kBroadcast, .type = DataType::kFloat32, .count = 4, .root = 0};
  core.Post(header, true);
  auto requests = TakeAll(core);
  ASSERT_EQ(requests.size(), 2u) << "data follow the reply";
  CompleteRecv(core, requests[0], header);
  core.OnSendComplete(requests[1].wr_id);
  const auto data = TakeAll(core);
  ASSERT_EQ(data.size(), 1u);
  EXPECT_FALSE(core.NextFinished());
  core.OnSendComplete(data[0].wr_id);
  EXPECT_TRUE(core.NextFinished());
}

TEST(RankCoreTest, ACallThatHasEndedDoesNotEndAgainWhenTheGroupFails) {
  RankCore core({});
  const ControlHeader header = AllReduceHeader(4);
  core.Post(header, true);
  core.Post(header, true);
  const auto requests = TakeAll(core);
  CompleteRecv(core, requests[0], header);
  CompleteRecv(core, requests[1], header);
  ASSERT_TRUE(core.NextFinished());
  core.Abort();
  core.OnDrained();
  const auto second = core.NextFinished();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->op, 1);
  EXPECT_EQ(second->outcome, Outcome::kAborted);
  EXPECT_FALSE(core.NextFinished());
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

TEST(RankCoreTest, ASmallerSendWindowHoldsSendsBack) {
  RankCore core({.path_mtu = 256, .message_packets = 2, .window_messages = 4});
  const ControlHeader header = AllReduceHeader(64 * 16);  // indices 0 (control) to 16
  core.Post(header);
  core.SetSendWindow(1);
  std::vector<WorkRequest> sends, recvs;
  const auto take = [&core, &sends, &recvs] {
    const size_t before = sends.size();
    for (const auto& r : TakeAll(core)) (r.is_recv ? recvs : sends).push_back(r);
    return sends.size() - before;
  };
  const auto complete = [&](size_t message) {
    CompleteRecv(core, recvs[message], header);
    core.OnSendComplete(sends[message].wr_id);
  };
  EXPECT_EQ(take(), 1u) << "the control message: 2 packets may be under way, and data are 2 more";
  EXPECT_EQ(recvs.size(), 9u) << "receives go by W";
  EXPECT_FALSE(core.HasReply(0));
  complete(0);
  EXPECT_TRUE(core.HasReply(0));
  EXPECT_EQ(take(), 1u);
  core.SetSendWindow(3);
  EXPECT_EQ(take(), 2u) << "a longer one lets more go, with nothing having come";
  core.SetSendWindow(2);
  EXPECT_EQ(take(), 0u);
  complete(1);
  EXPECT_EQ(take(), 0u) << "as much as a shorter one allows is still under way";
  complete(2);
  EXPECT_EQ(take(), 1u);
  core.SetSendWindow(4);
  EXPECT_EQ(take(), 2u);
}

TEST(RankCoreTest, NoSendWindowBeyondTheBoundNorOfNothing) {
  RankCore core({.path_mtu = 256, .message_packets = 2, .window_messages = 4});
  EXPECT_DEATH(core.SetSendWindow(5), "window_messages");
  EXPECT_DEATH(core.SetSendWindow(0), "messages >= 1");
}

// Of a call without data, and of one that only others send or receive.
TEST(RankCoreTest, TheReplyIsThatOfTheControlMessage) {
  RankCore core({.rank = 1, .world_size = 2});
  ControlHeader reduce = AllReduceHeader(4);
  reduce.collective = Collective::kReduce;
  core.Post({});
  core.Post(reduce);
  std::vector<WorkRequest> recvs = TakeAll(core);
  std::erase_if(recvs, [](const auto& r) { return !r.is_recv; });
  ASSERT_EQ(recvs.size(), 2u);
  EXPECT_FALSE(core.HasReply(0));
  CompleteRecv(core, recvs[0], {});
  EXPECT_TRUE(core.HasReply(0));
  EXPECT_FALSE(core.HasReply(1));
  CompleteRecv(core, recvs[1], reduce);
  EXPECT_TRUE(core.HasReply(1));
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
  ControlHeader bad{.collective = Collective::kAllReduce, .op = ReduceOp{41}, .type = DataType{40}};
  bad.status = ControlStatus::kMismatch;
  bad.field = ControlField::kType;
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
  EXPECT_EQ(refused->reply.field, ControlField::kType) << "of a later version";
  EXPECT_EQ(core.NextFinished()->outcome, Outcome::kRefused);
  EXPECT_FALSE(core.NextFinished());
}

TEST(RankCoreTest, AbortEndsWhatIsOutstanding) {
  RankCore core({});
  core.Post(AllReduceHeader(10));
  TakeAll(core);
  core.Abort();
  EXPECT_TRUE(TakeAll(core).empty());
  EXPECT_FALSE(core.NextFinished().has_value()) << "the queue pair may still use the buffers";
  core.OnDrained();
  EXPECT_EQ(core.NextFinished()->outcome, Outcome::kAborted);
}

TEST(RankCoreTest, CompletionsOutOfTurnEndTheGroup) {
  const auto started = [] {
    RankCore core({});
    core.Post(AllReduceHeader(10));
    EXPECT_EQ(TakeAll(core).size(), 4u);  // control and data, both ways
    return core;
  };
  RankCore later = started();
  later.OnSendComplete(1);
  EXPECT_EQ(later.failure(), Outcome::kDisorder);
  RankCore twice = started();
  twice.OnSendComplete(0);
  EXPECT_FALSE(twice.failed());
  twice.OnSendComplete(0);
  EXPECT_EQ(twice.failure(), Outcome::kDisorder);
  RankCore never_posted = started();
  for (const uint64_t send : {0, 1, 2}) never_posted.OnSendComplete(send);
  EXPECT_EQ(never_posted.failure(), Outcome::kDisorder);

  RankCore received = started();
  EXPECT_FALSE(received.ControlOf(1)) << "not its turn";
  received.OnRecvComplete(1, 40, std::nullopt, {});
  EXPECT_EQ(received.failure(), Outcome::kDisorder);
  RankCore idle({});
  EXPECT_FALSE(idle.ControlOf(0));
  idle.OnRecvComplete(0, 64, 0, {});
  EXPECT_EQ(idle.failure(), Outcome::kDisorder);

  received.OnDrained();
  EXPECT_EQ(received.NextFinished()->outcome, Outcome::kDisorder);
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

std::vector<std::pair<uint64_t, uint32_t>> DataOf(const std::vector<WorkRequest>& requests, bool is_recv) {
  std::vector<std::pair<uint64_t, uint32_t>> out;
  for (const auto& r : requests) {
    if (r.is_recv == is_recv && !r.is_control) out.emplace_back(r.offset, r.length);
  }
  return out;
}

using Stretch = std::pair<uint64_t, uint32_t>;

TEST(RankCoreTest, DataThatSendersDoNotGetBackWaitForTheReply) {
  RankCore core({.rank = 1, .world_size = 3});
  const ControlHeader header{.collective = Collective::kReduceScatter,
                             .op = ReduceOp::kSum,
                             .type = DataType::kInt32,
                             .count = 10,
                             .parts = 3};
  core.Post(header);
  const auto before = TakeAll(core);
  EXPECT_THAT(DataOf(before, true), testing::ElementsAre(Stretch(0, 40))) << "its own part, at the front";
  EXPECT_TRUE(DataOf(before, false).empty());
  CompleteRecv(core, before[0], header);
  EXPECT_THAT(DataOf(TakeAll(core), false),
              testing::ElementsAre(Stretch(0, 40), Stretch(40, 40), Stretch(80, 40)));
}

TEST(RankCoreTest, AllGatherReceivesEveryPartButItsOwn) {
  RankCore core({.rank = 1, .world_size = 3});
  const ControlHeader header{
      .collective = Collective::kAllGather, .type = DataType::kByte, .count = 2000, .parts = 3};
  core.Post(header);
  const auto before = TakeAll(core);
  EXPECT_THAT(DataOf(before, true), testing::ElementsAre(Stretch(0, 2000), Stretch(4000, 2000)));
  CompleteRecv(core, before[0], header);
  EXPECT_THAT(DataOf(TakeAll(core), false), testing::ElementsAre(Stretch(0, 2000)));
}

TEST(RankCoreTest, ARankWithoutDataGoesOnToTheNextCall) {
  // Not the root of a Broadcast: the window closes only by what it has not received.
  RankCore core({.path_mtu = 256, .message_packets = 1, .window_messages = 2, .world_size = 2});
  const ControlHeader header{
      .collective = Collective::kBroadcast, .type = DataType::kByte, .count = 256, .root = 1};
  core.Post(header);
  core.Post({});
  std::vector<WorkRequest> sends, recvs;
  for (const auto& r : TakeAll(core)) (r.is_recv ? recvs : sends).push_back(r);
  ASSERT_EQ(recvs.size(), 3u);
  ASSERT_EQ(sends.size(), 1u);  // index 0; the barrier has index 2
  core.OnSendComplete(0);
  EXPECT_TRUE(TakeAll(core).empty());
  CompleteRecv(core, recvs[0], header);
  const auto more = TakeAll(core);
  ASSERT_EQ(more.size(), 1u);
  EXPECT_EQ(more[0].op, 1);
  EXPECT_EQ(more[0].wr_id, 1u) << "its second message";
}

TEST(RankCoreTest, AReduceIsWholeForASenderWhenItIsAcknowledged) {
  const ControlHeader header{.collective = Collective::kReduce,
                             .op = ReduceOp::kMax,
                             .type = DataType::kInt32,
                             .count = 1,
                             .root = 1};
  for (const bool acknowledged : {false, true}) {
    RankCore core({.world_size = 2});
    core.Post(header);
    const auto requests = TakeAll(core);
    ASSERT_EQ(requests.size(), 2u);
    CompleteRecv(core, requests[0], header);
    ASSERT_EQ(TakeAll(core).size(), 1u);
    core.OnSendComplete(0);
    if (acknowledged) core.OnSendComplete(1);
    core.Abort();
    core.OnDrained();
    EXPECT_EQ(core.NextFinished()->outcome, acknowledged ? Outcome::kOk : Outcome::kAborted);
  }
}

}  // namespace
}  // namespace epic
