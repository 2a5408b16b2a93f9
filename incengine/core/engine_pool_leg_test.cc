// Mode V at one switch: how groups with a pool are installed and end, and what a server may not do
// (docs/PROTOCOL-MODE-V.md, section 4).
#include <algorithm>
#include <random>
#include <utility>

#include "fallback/sums.h"
#include "incengine/core/engine_pool_testing.h"
#include "protocol/number_blocks.h"
#include "reduce/reduce.h"

namespace epic::engine {
namespace {

class EnginePoolEndTest : public EnginePoolTest {
 protected:
  // A split index whose sum the server has been asked for.
  void UntilTheFetch() {
    MakePool(1, 8);
    Install(PoolGroup(1, 2));
    Install(PoolGroup(2, 1));
    Call(1, 2, 2);
    Call(2, 1, 1, 2 << 16);
    Data(1, 0, 1, 1);
    Data(2, 0, 1, 5);
    Data(1, 1, 1, 2);
    ASSERT_EQ(Heard(1), "OPEN 0, PART 1: 1, LAST 1: 2, FETCH 1");
    Acknowledge(2, 0, 1);
    Data(1, 0, 2, 3);
    ASSERT_EQ(pool().in_use(), 1u);
  }
  // The group has failed, and has nothing in the pool; its hosts are refused, and nothing crashes.
  void ExpectFailed() {
    EXPECT_EQ(context(1).state, GroupState::kFailed);
    EXPECT_EQ(context(1).pooled->end, LegFailure::kMessage);
    EXPECT_EQ(
        engine.LegStatus(1).message(),
        "server: the leg to 10.0.254.1 has ended: it sent a message that was not asked for, or has another "
        "kind, index or length");
    EXPECT_FALSE(context(1).pooled->own_taken);
    EXPECT_EQ(pool().spare(), pool().buffers());
    Data(1, 1, 2, 3);
    EXPECT_EQ(drops, std::vector{DropReason::kGroupFailed});
    EXPECT_TRUE(Results(1, 1).empty());
    engine.OnTimer(now + kSecond, TimerId{1}, *this);
    // The other group goes on.
    EXPECT_EQ(context(2).state, GroupState::kRunning);
  }
};

TEST_F(EnginePoolEndTest, ASumOfAnotherLengthEndsTheLeg) {
  UntilTheFetch();
  Sum(1, 1, 3, 63);
  ExpectFailed();
}

TEST_F(EnginePoolEndTest, ASumThatIsTooLongEndsTheLeg) {
  UntilTheFetch();
  Sum(1, 1, 3, 65);
  ExpectFailed();
}

TEST_F(EnginePoolEndTest, ASumOfAnotherIndexEndsTheLeg) {
  UntilTheFetch();
  Sum(1, 2, 3);
  ExpectFailed();
}

TEST_F(EnginePoolEndTest, AMessageOfAnotherKindEndsTheLeg) {
  UntilTheFetch();
  const std::vector<int32_t> words(64, 1);
  FromServer(1, LegMessage::kPart, 1, std::as_bytes(std::span(words)));
  ExpectFailed();
}

TEST_F(EnginePoolEndTest, ASumThatWasNotAskedForEndsTheLeg) {
  UntilTheFetch();
  Sum(1, 1, 3);
  ASSERT_EQ(Results(1, 1), (std::vector<int32_t>{3, 3}));
  const std::vector<int32_t> words(64, 1);
  FromServer(1, LegMessage::kSum, 2, std::as_bytes(std::span(words)));
  EXPECT_EQ(drops, std::vector{DropReason::kUnexpectedResult});
  EXPECT_EQ(context(1).state, GroupState::kFailed);
  EXPECT_EQ(context(1).pooled->end, LegFailure::kMessage);
  // The result that is out keeps the group's own buffer, and is repeated, until all have it.
  EXPECT_TRUE(context(1).pooled->own_taken);
  sent.clear();
  now += kSecond;
  engine.OnTimer(now, TimerId{1}, *this);
  EXPECT_EQ(Results(1, 1), (std::vector<int32_t>{3, 3}));
  AcknowledgeAll(1, 2, 1);
  EXPECT_FALSE(context(1).pooled->own_taken);
  EXPECT_EQ(pool().spare(), pool().buffers());
}

TEST_F(EnginePoolEndTest, ARefusalOfWhatWasNotSentIsDropped) {
  UntilTheFetch();
  silent = true;
  Data(1, 1, 2, 4);  // nothing of it goes to the server
  Refuse(1, Psn(kFirstOut) + 4);
  EXPECT_EQ(context(1).state, GroupState::kRunning) << "of what was not sent: it is dropped";
}

TEST_F(EnginePoolEndTest, ARefusalOfAPartEndsTheLeg) {
  MakePool(1, 8);
  Install(PoolGroup(1, 2));
  Install(PoolGroup(2, 1));
  Call(1, 2, 1);
  Call(2, 1, 1, 2 << 16);
  silent = true;
  Data(1, 0, 1, 1);
  Data(2, 0, 1, 5);
  ASSERT_FALSE(to_servers.empty());
  Refuse(1, to_servers.back().head.bth.psn);
  EXPECT_EQ(context(1).state, GroupState::kFailed);
  EXPECT_EQ(context(1).pooled->end, LegFailure::kRefused);
  EXPECT_EQ(engine.LegStatus(1).code(), StatusCode::kUnavailable);
  EXPECT_EQ(engine.LegStatus(1).message(), "server: the leg to 10.0.254.1 has ended: it refused a message");
  EXPECT_TRUE(engine.LegStatus(2).ok());
  EXPECT_EQ(engine.LegStatus(3).code(), StatusCode::kNotFound);
  Acknowledge(2, 0, 1);
  EXPECT_EQ(pool().spare(), pool().buffers());
}

TEST_F(EnginePoolEndTest, PartsThatAreLostComeAgain) {
  MakePool(1, 8);
  Install(PoolGroup(1, 2));
  Install(PoolGroup(2, 1));
  Call(1, 2, 1);
  Call(2, 1, 1, 2 << 16);
  silent = true;
  Data(1, 0, 1, 1);
  Data(2, 0, 1, 5);
  to_servers.clear();
  silent = false;
  now = timers.at(1);
  for (int fired = 0; fired < 20 && legs.at(1).got.empty(); ++fired) {
    engine.OnTimer(now, TimerId{1}, *this);
    RunLegs();
    now = timers.at(1);
  }
  EXPECT_EQ(Heard(1), "OPEN 0, PART 1: 1");
}

class EnginePoolTurnTest : public EnginePoolTest {
 protected:
  // Two groups of one server, to which one part may be under way: group 2 has it, and the rest of an index of
  // group 1, to which all have contributed, waits for it.
  void UntilARestWaits() {
    MakePool(1, 7, PoolPolicy::kFcfs);
    Install(PoolGroup(1, 3));
    Install(PoolGroup(2, 2));
    Call(1, 3, 1);
    Call(2, 2, 2);
    Data(2, 0, 1, 50);
    Data(1, 0, 1, 1);
    Data(2, 1, 1, 50);
    AcknowledgeAll(2, 2, 1);
    Data(1, 1, 1, 2);
    ASSERT_EQ(Heard(1), "OPEN 0, PART 1: 1");
    silent = true;
    Data(2, 0, 2, 60);
    Data(1, 2, 1, 4);
    ASSERT_EQ(context(1).pooled->held.size(), 1u);
    silent = false;
  }
};

TEST_F(EnginePoolTurnTest, ARestLeavesAtOnceWhenThePartOfAnotherGroupIsAcknowledged) {
  UntilARestWaits();
  RunLegs();
  EXPECT_EQ(Heard(2), "OPEN 0, PART 2: 60");
  EXPECT_EQ(Heard(1), "LAST 1: 6, FETCH 1");
}

TEST_F(EnginePoolTurnTest, SoItDoesWhenTheLegOfTheOtherGroupEnds) {
  UntilARestWaits();
  const Psn psn = to_servers.back().head.bth.psn;
  to_servers.clear();
  Refuse(2, psn);
  RunLegs();
  EXPECT_EQ(engine.LegStatus(2).code(), StatusCode::kUnavailable);
  EXPECT_EQ(Heard(1), "LAST 1: 6, FETCH 1");
}

TEST_F(EnginePoolTurnTest, WhenTheOtherGroupIsRemovedTheTimerSeesTheRoom) {
  UntilARestWaits();
  to_servers.clear();
  // Of what else a timer is for nothing is left when it has fired some times.
  for (int fired = 0; fired < 8; ++fired) {
    ASSERT_TRUE(timers.contains(1)) << "a rest waits";
    now = std::exchange(timers, {}).at(1);
    engine.OnTimer(now, TimerId{1}, *this);
  }
  EXPECT_TRUE(to_servers.empty());
  engine.Remove(2, 1);
  now = timers.at(1);
  engine.OnTimer(now, TimerId{1}, *this);
  RunLegs();
  EXPECT_EQ(Heard(1), "LAST 1: 6, FETCH 1");
}

TEST_F(EnginePoolTurnTest, AGroupThatHasFailedWaitsNoMore) {
  UntilARestWaits();
  Sum(1, 1, 7);  // was not asked for
  EXPECT_EQ(context(1).state, GroupState::kFailed);
  RunLegs();
  EXPECT_EQ(Heard(2), "OPEN 0, PART 2: 60");
  EXPECT_EQ(Heard(1), "");
  EXPECT_EQ(pool().spare(), pool().buffers());
}

// Numbers in blocks: no lane of what leaves is left over from what the buffer held, and the sum at the server
// is what it were at the switch alone.
TEST_F(EnginePoolTurnTest, BlocksGoToTheServerAsTheyAreSummed) {
  ASSERT_TRUE(engine.MakePool({.bytes = 9 * 1024, .buffer_bytes = 1024, .most_places = 1}).ok());
  GroupConfig config = PoolGroup(1, 2);
  config.accumulator_mtus = 4;
  Install(config);
  Install(PoolGroup(2, 1));
  Call(2, 1, 3, 2 << 16);
  Data(2, 0, 1, -1);
  AcknowledgeAll(2, 1, 1);
  ControlHeader call{.collective = Collective::kAllReduce,
                     .op = ReduceOp::kSum,
                     .type = DataType::kFloat32,
                     .count = 4 * kBlockElements};
  call = InBlocks(call);
  for (const uint32_t rank : {0u, 1u}) Header(1, rank, call);
  std::mt19937 random(7);
  std::array<std::vector<uint8_t>, 2> given;
  for (auto& blocks : given) {
    for (size_t at = 0; at < 256; ++at) blocks.push_back(static_cast<uint8_t>(random()));
    for (size_t at = 0; at < 256; at += kBlockBytes) blocks[at + 1] = 0x3f;  // scales near 1
  }
  const auto give = [&](uint32_t rank) {
    Deliver(1, rank, From(1, rank, Psn(kFirstIn) + 1, roce::Opcode::kRcSendOnly, given[rank]));
  };
  give(0);
  Data(2, 0, 2, -1);  // takes the place
  give(1);
  const std::vector<LegEnd::Got> got = legs.at(1).got;
  EXPECT_EQ(Heard(1).substr(0, 6), "OPEN 0");
  ASSERT_EQ(got.size(), 4u);
  fallback::Sums server({.world_size = 2, .path_mtu = 256, .message_packets = 2, .slots = 8});
  std::vector<uint8_t> part(1024), sum(256);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(server.Take(LegImmediate(got[i].kind, got[i].index), got[i].bytes), "");
    if (i != 1 && i != 2) continue;
    Load(call.op, call.type, part, given[i - 1]);
    EXPECT_EQ(got[i].bytes, part);
  }
  fallback::Sums::Fetched fetched;
  ASSERT_TRUE(server.NextFetched(&fetched));
  Load(call.op, call.type, part, given[0]);
  Accumulate(call.op, call.type, part, given[1]);
  Store(call.op, call.type, part, sum);
  EXPECT_EQ(fetched.bytes, sum);
}

TEST_F(EnginePoolEndTest, OthersThanTheServerAreNotHeard) {
  UntilTheFetch();
  roce::Packet p;
  p.src_ip = Ipv4{0x0a00fe02};
  p.dst_ip = kSwitchIp;
  p.bth.dest_qp = Qpn{0x10f};
  p.bth.opcode = roce::Opcode::kRcAck;
  drops.clear();
  engine.OnPacket(now, kServerPort, p, *this);
  EXPECT_EQ(drops, std::vector{DropReason::kStranger});
  p.src_ip = kServerIp;
  drops.clear();
  engine.OnPacket(now, 0, p, *this);
  EXPECT_EQ(drops, std::vector{DropReason::kWrongPort});
  EXPECT_FALSE(engine.Bears(p));
}

TEST_F(EnginePoolEndTest, AMismatchLeavesNothingInThePool) {
  MakePool(1, 8);
  Install(PoolGroup(1, 3));
  ControlHeader call{
      .collective = Collective::kAllReduce, .op = ReduceOp::kSum, .type = DataType::kInt32, .count = 64};
  Header(1, 0, call);
  packets_of[1] = 1;
  Data(1, 0, 1, 1);
  EXPECT_EQ(pool().in_use(), 1u);
  Header(1, 1, call);
  call.count = 128;
  Header(1, 2, call);
  EXPECT_EQ(context(1).state, GroupState::kFailed);
  EXPECT_EQ(pool().spare(), pool().buffers());
}

TEST_F(EnginePoolEndTest, AMismatchEndsWhatIsUnderWayToTheServer) {
  MakePool(1, 8);
  Install(PoolGroup(1, 2));
  Install(PoolGroup(2, 1));
  Call(2, 1, 1, 2 << 16);
  ControlHeader call{
      .collective = Collective::kAllReduce, .op = ReduceOp::kSum, .type = DataType::kInt32, .count = 64};
  Header(1, 0, call);
  packets_of[1] = 1;
  Data(1, 0, 1, 1);
  silent = true;
  Data(2, 0, 1, 5);
  Acknowledge(2, 0, 1);
  EXPECT_EQ(pool().spare(), pool().buffers() - 1) << "the part";
  call.count = 128;
  Header(1, 1, call);
  EXPECT_EQ(context(1).state, GroupState::kFailed);
  EXPECT_EQ(pool().spare(), pool().buffers());
}

TEST_F(EnginePoolEndTest, WhatIsStoppedOrRemovedHasNothingInThePool) {
  UntilTheFetch();
  engine.Fail(1, 1);
  EXPECT_EQ(pool().spare(), pool().buffers());
  Sum(1, 1, 3);
  EXPECT_EQ(drops, std::vector{DropReason::kGroupFailed});
  engine.Remove(1, 1);
  engine.Remove(2, 1);
  EXPECT_EQ(pool().spare(), pool().buffers());
  Sum(1, 1, 3);
  EXPECT_TRUE(std::ranges::all_of(drops, [](DropReason why) { return why == DropReason::kUnknownQpn; }));
  Install(PoolGroup(1, 2));
}

TEST_F(EnginePoolEndTest, RemovedWhileAPartIsUnderWay) {
  MakePool(1, 8);
  Install(PoolGroup(1, 2));
  Install(PoolGroup(2, 1));
  Call(1, 2, 1);
  Call(2, 1, 1, 2 << 16);
  silent = true;
  Data(1, 0, 1, 1);
  Data(2, 0, 1, 5);
  engine.Remove(1, 1);
  Acknowledge(2, 0, 1);
  EXPECT_EQ(pool().spare(), pool().buffers());
}

TEST_F(EnginePoolEndTest, WhichPoolsAndGroupsThereMayBe) {
  EXPECT_EQ(engine.Install(PoolGroup(1, 2)).status().message(), "server: this switch has no pool");
  EXPECT_EQ(engine.MakePool({.bytes = 7 * 512, .buffer_bytes = 512}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(engine.MakePool({.bytes = 2 << 20, .buffer_bytes = 512}).code(), StatusCode::kInvalidArgument);
  const size_t before = engine.arena().free_bytes();
  MakePool(4, 4);
  EXPECT_EQ(before - engine.arena().free_bytes(), 8u * 512);
  EXPECT_EQ(engine.MakePool({.bytes = 8 * 512, .buffer_bytes = 512}).code(), StatusCode::kFailedPrecondition);
  const auto refused = [&](const auto& change) {
    GroupConfig config = PoolGroup(1, 2);
    change(config);
    const auto installed = engine.Install(config);
    return installed.ok() ? std::string("installed") : std::string(installed.status().message());
  };
  EXPECT_EQ(refused([](GroupConfig& c) { c.path_mtu = 512; }),
            "path_mtu: sums of 1024 bytes do not fit into the pool's buffers of 512");
  EXPECT_EQ(refused([](GroupConfig& c) { c.reproducible = true; }).substr(0, 12), "reproducible");
  EXPECT_EQ(refused([](GroupConfig& c) { c.block = 1; }).substr(0, 5), "block");
  EXPECT_EQ(refused([](GroupConfig& c) { c.server->port = 99; }).substr(0, 6), "server");
  EXPECT_EQ(refused([](GroupConfig& c) { c.server->local_qpn = c.children[0].local_qpn; }).substr(0, 6),
            "server");
  EXPECT_EQ(refused([](GroupConfig& c) { c.server->is_host = true; }).substr(0, 6), "server");
  EXPECT_EQ(refused([](GroupConfig& c) { c.mode = kDefaultMode; }),
            "server: not in mode II, whose memory is its own");
  EXPECT_EQ(refused([](GroupConfig& c) { c.server.reset(); }), "server: a group in mode V needs one");
  EXPECT_EQ(refused([](GroupConfig& c) {
              c.server.reset();
              c.mode = kDefaultMode;
              c.priority_limit = 1;
            }),
            "priority_limit: only calls in a pool have priorities");
  EXPECT_EQ(refused([](GroupConfig& c) {
              c.parent = c.server;
              c.parent->local_qpn = Qpn{0x10e};
            }).substr(0, 6),
            "server");
  EXPECT_EQ(refused([](GroupConfig& c) { c.children[1].is_host = false; }).substr(0, 6), "server");
  EXPECT_EQ(refused([](GroupConfig&) {}), "installed");
  GroupConfig second = PoolGroup(2, 2);
  second.server->local_qpn = Qpn{0x10f};
  EXPECT_EQ(engine.Install(second).status().code(), StatusCode::kAlreadyExists);
}

TEST_F(EnginePoolEndTest, AGroupTakesLittleOfItsOwn) {
  MakePool(4, 4);
  GroupConfig config = PoolGroup(1, 2);
  config.path_mtu = 256;
  config.message_packets = 8;
  config.window_messages = 8;
  config.slots = 128;
  const auto bytes = engine.Install(config);
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, 2u * 128 * 24 + 256) << "6 KiB, and one MTU";
}

}  // namespace
}  // namespace epic::engine
