// Queue pairs between hosts: turns at the NIC, drivers, and what becomes of them when hosts and switches
// stand still or go.
#include "sim/peers.h"

#include <gtest/gtest.h>

#include <bit>
#include <deque>
#include <map>
#include <numeric>
#include <vector>

#include "sim/jobs_testing.h"
#include "sim/peers_testing.h"

namespace epic::sim {
namespace {

constexpr int64_t kGbit = 1'000'000'000;
constexpr size_t kMtu = 1024;

// Posts what a test tells it to, and keeps what completes.
class Scripted final : public PeerDriver {
 public:
  struct Done {
    int peer;
    roce::Completion completion;
    Nanos at;
  };
  void OnCompletion(Nanos now, int peer, const roce::Completion& c) override {
    done.push_back({peer, c, now});
  }
  void Poll(Nanos now, Peers&) override {
    polled.push_back(now);
    if (now >= wakes_at) wakes_at = kNever;
  }
  Nanos next_deadline() const override { return wakes_at; }
  size_t Received() const {
    size_t count = 0;
    for (const Done& d : done) count += d.completion.ok() && d.completion.is_recv();
    return count;
  }

  std::vector<Done> done;
  std::vector<Nanos> polled;
  Nanos wakes_at = kNever;
};

// A world with a scripted driver at every rank, all of them connected to rank 0.
struct Net {
  explicit Net(const WorldConfig& config, const PeerConfig& peer = {})
      : world(config, 1), drivers(world.ranks()) {
    for (int r = 0; r < world.ranks(); ++r) world.AddPeers(r, drivers[static_cast<size_t>(r)], peer);
    for (int r = 1; r < world.ranks(); ++r) world.ConnectPeers(0, r);
  }
  // Of buffers of their own.
  void Send(int from, int to, size_t bytes) {
    const uint8_t* const into = buffers_.emplace_back(bytes).data();
    const uint8_t* const out = buffers_.emplace_back(bytes).data();
    EXPECT_EQ(world.peers(to).PostRecv(from, {.sges = SgesOf(into, bytes)}), roce::PostResult::kOk);
    EXPECT_EQ(world.peers(from).PostSend(to, {.sges = SgesOf(out, bytes)}), roce::PostResult::kOk);
    world.peers(from).WantPoll();
  }
  bool RunUntilReceived(const std::vector<size_t>& counts, Nanos limit = kSecond) {
    return world.RunUntil(
        [&] {
          for (size_t r = 0; r < counts.size(); ++r) {
            if (drivers[r].Received() < counts[r]) return false;
          }
          return true;
        },
        limit);
  }

  World world;
  std::vector<Scripted> drivers;

 private:
  std::deque<std::vector<uint8_t>> buffers_;
};

struct Leaving {
  Qpn to{};
  Picos at = 0;
};

// Keeps when which packets with data are put on a node's link.
void KeepLeaving(World& world, int node, std::vector<Leaving>* out) {
  world.SetSendWatch([&world, node, out](const LinkPacket& p, Fate) {
    if (p.from == node && !p.packet->payload.empty()) out->push_back({p.packet->bth.dest_qp, world.clock()});
  });
}

// Three messages at once: packet by packet in turn, and none is put on the link before the one before it has
// left.
TEST(PeersTest, QueuePairsSendInTurn) {
  Net net({.tree = Star(4), .path_mtu = kMtu, .bits_per_second = 200 * kGbit}, kLateAcks);
  std::vector<Leaving> left;
  KeepLeaving(net.world, net.world.node_of_host(0), &left);
  for (int to = 1; to <= 3; ++to) net.Send(0, to, kMtu * 20);
  ASSERT_TRUE(net.RunUntilReceived({0, 1, 1, 1}));
  ASSERT_EQ(left.size(), 60u);
  for (size_t i = 0; i < left.size(); ++i) {
    EXPECT_EQ(left[i].at, static_cast<Picos>(i) * (kMtu + 80) * 40);
    if (i >= 3) {
      EXPECT_EQ(left[i].to, left[i - 3].to);
    } else {
      EXPECT_NE(left[i].to, left[(i + 1) % 3].to);
    }
  }
}

// One that has more to send than the others goes on alone when they have finished.
TEST(PeersTest, WhoHasNothingToSendIsPassedOver) {
  Net net({.tree = Star(3), .path_mtu = kMtu}, kLateAcks);
  std::vector<Leaving> left;
  KeepLeaving(net.world, net.world.node_of_host(0), &left);
  net.Send(0, 1, kMtu * 2);
  net.Send(0, 2, kMtu * 6);
  ASSERT_TRUE(net.RunUntilReceived({0, 1, 1}));
  ASSERT_EQ(left.size(), 8u);
  std::map<Qpn, int> first_four;
  for (size_t i = 0; i < 4; ++i) ++first_four[left[i].to];
  EXPECT_EQ(first_four[left[7].to], 2);
  for (size_t i = 4; i < 8; ++i) EXPECT_EQ(left[i].to, left[7].to);
}

// A process that stood still finds what has come meanwhile as it came, whichever queue pair it came to.
TEST(PeersTest, CompletionsComeInTheOrderInWhichTheNicHadThem) {
  Net net({.tree = Star(4)}, kLateAcks);
  net.world.host(0).SetStopped(true);
  const std::vector<int> order = {2, 3, 1, 3, 2};
  for (size_t k = 0; k < order.size(); ++k)
    net.world.At(static_cast<Nanos>(k) * kMillisecond, [&net, from = order[k]] { net.Send(from, 0, 10); });
  net.world.At(kSecond / 2, [&net] { net.world.host(0).SetStopped(false); });
  ASSERT_TRUE(net.RunUntilReceived({order.size()}));
  std::vector<int> from;
  for (const Scripted::Done& done : net.drivers[0].done) from.push_back(done.peer);
  EXPECT_EQ(from, order);
}

// One that takes long for each looks at the next one when it has done with the one before.
TEST(PeersTest, AProcessMayTakeItsTimeForEachCompletion) {
  PeerConfig slow = kLateAcks;
  slow.completion_ns = 20 * kMicrosecond;
  Net net({.tree = Star(2)}, slow);
  for (int k = 0; k < 4; ++k) net.Send(0, 1, 10);
  ASSERT_TRUE(net.RunUntilReceived({0, 4}));
  const std::vector<Scripted::Done>& done = net.drivers[1].done;
  for (size_t k = 1; k < done.size(); ++k) EXPECT_EQ(done[k].at - done[k - 1].at, 20 * kMicrosecond);
}

// To all members, with the sender if its NIC does so, and to nobody else.
TEST(PeersTest, DatagramsReachTheMembersOfTheirGroup) {
  constexpr auto kNumber = static_cast<int>(kDatagrams);
  const Ip group = Ipv4{0xefc00001}, other = Ipv4{0xefc00002};
  for (const bool returns : {false, true}) {
    Net net({.tree = FullTree(2, 2), .returns_multicast = returns});
    std::vector<std::vector<uint8_t>> memory(4, std::vector<uint8_t>(140));
    std::vector<Qpn> qpns;
    for (int r = 0; r < 4; ++r) {
      qpns.push_back(net.world.AddDatagrams(r, {.addresses = {r == 3 ? other : group}, .qkey = 7}));
      const auto sges = SgesOf(memory[static_cast<size_t>(r)].data(), 140);
      if (r == 1) continue;
      EXPECT_EQ(net.world.peers(r).PostRecv(kNumber, {.wr_id = 5, .sges = sges}), roce::PostResult::kOk);
    }
    std::vector<uint8_t> data(100, 0x5a);
    roce::SendWr send{.sges = SgesOf(data.data(), data.size())};
    send.ud = roce::UdAddress{.ip = group, .qpn = roce::kMulticastQpn, .qkey = 7};
    EXPECT_EQ(net.world.peers(0).PostSend(kNumber, send), roce::PostResult::kOk);
    net.world.peers(0).WantPoll();
    ASSERT_FALSE(net.world.RunUntil([] { return false; }, kSecond));
    EXPECT_EQ(net.drivers[0].done.size(), returns ? 2u : 1u) << "one is its sending";
    EXPECT_EQ(net.world.peers(1).datagrams().no_recv, 1u);
    ASSERT_EQ(net.drivers[2].done.size(), 1u);
    EXPECT_EQ(net.drivers[2].done[0].peer, kNumber);
    EXPECT_EQ(net.drivers[2].done[0].completion.src_qpn, qpns[0]);
    EXPECT_EQ(std::vector(memory[2].begin() + 40, memory[2].end()), data);
    EXPECT_TRUE(net.drivers[3].done.empty());
    EXPECT_EQ(net.world.peers(3).datagrams().not_ours, 0u) << "its NIC knows who is a member";
    EXPECT_EQ(net.world.unclaimed(), 0);
  }
}

// Two ranks may have several connections, each with a number of its own.
TEST(PeersTest, TwoRanksMayHaveSeveralConnections) {
  Net net({.tree = Star(2)});
  constexpr auto kSecondOne = static_cast<int>(kFetchRing);
  net.world.ConnectPeers(0, kSecondOne + 1);
  ASSERT_TRUE(net.world.peers(1).IsConnected(kSecondOne + 0));
  EXPECT_FALSE(net.world.peers(1).IsConnected(kSecondOne + 1));
  std::vector<uint8_t> in(10), out(10, 9);
  EXPECT_EQ(net.world.peers(1).PostRecv(kSecondOne, {.sges = SgesOf(in.data(), 10)}), roce::PostResult::kOk);
  EXPECT_EQ(net.world.peers(0).PostSend(kSecondOne + 1, {.sges = SgesOf(out.data(), 10)}),
            roce::PostResult::kOk);
  net.world.peers(0).WantPoll();
  ASSERT_TRUE(net.RunUntilReceived({0, 1}));
  EXPECT_EQ(net.drivers[1].done[0].peer, kSecondOne);
  EXPECT_EQ(in, out);
}

// With ranks_take_turns the queue pairs to the switch stand in the same line.
TEST(PeersTest, RanksTakeTurnsWithThem) {
  Net net({.tree = Star(3), .path_mtu = kMtu, .ranks_take_turns = true}, kLateAcks);
  std::vector<Leaving> left;
  KeepLeaving(net.world, net.world.node_of_host(0), &left);
  Job job(3, kMtu * 20 / 4, 0);
  for (int r = 0; r < 3; ++r) job.Start(net.world, r);
  net.Send(0, 1, kMtu * 20);
  ASSERT_TRUE(
      net.world.RunUntil([&] { return net.world.AllDone() && net.drivers[1].Received() == 1; }, kSecond));
  for (int r = 0; r < 3; ++r) EXPECT_EQ(job.WrongElements(r), 0u);
  // Until there are results, and the rank's turn is one of an acknowledgement.
  for (size_t i = 2; i < 20; ++i) {
    EXPECT_EQ(IsPeerQpn(left[i].to), IsPeerQpn(left[i - 2].to)) << i;
    EXPECT_NE(IsPeerQpn(left[i].to), IsPeerQpn(left[i - 1].to)) << i;
  }
}

// Collectives are right on all shapes when ranks take turns.
TEST(PeersTest, CollectivesWithTurns) {
  for (const Mode mode : ModesOfOwnMemory()) {
    for (const Shape& shape : kShapes) {
      SCOPED_TRACE(testing::Message() << shape.name << ", mode " << NumeralOf(mode));
      World world({.mode = mode,
                   .tree = shape.tree,
                   .host_ack_delay_ns = 50 * kMicrosecond,
                   .arena_bytes = 16 << 20,
                   .ranks_take_turns = true},
                  1);
      world.SetFaultRule(
          [&](const LinkPacket&) { return world.choices().Chance(1000) ? Fate::kDrop : Fate::kDeliver; });
      RunJobs(world, {1, 0, 255, 2049, world.ranks() > 8 ? size_t{4099} : size_t{20003}}, 100 * kSecond);
    }
  }
}

TEST(PeersTest, WritesAndReads) {
  Net net({.tree = FullTree(2, 2)}, {.max_rd_atomic = 4});
  std::vector<uint8_t> here(10'000), there(10'000), back(10'000);
  std::iota(here.begin(), here.end(), uint8_t{3});
  const auto remote = std::bit_cast<uint64_t>(there.data());
  Peers& peers = net.world.peers(0);
  EXPECT_EQ(peers.PostSend(3, {.wr_id = 1,
                               .opcode = roce::WrOpcode::kWrite,
                               .sges = SgesOf(here.data(), here.size()),
                               .remote_address = remote,
                               .rkey = kOwnRkey}),
            roce::PostResult::kOk);
  EXPECT_EQ(peers.PostSend(3, {.wr_id = 2,
                               .opcode = roce::WrOpcode::kRead,
                               .sges = SgesOf(back.data(), back.size()),
                               .remote_address = remote,
                               .rkey = kOwnRkey}),
            roce::PostResult::kOk);
  ASSERT_TRUE(net.world.RunUntil([&] { return net.drivers[0].done.size() == 2; }, kSecond));
  EXPECT_TRUE(net.drivers[0].done[0].completion.ok() && net.drivers[0].done[1].completion.ok());
  EXPECT_EQ(there, here);
  EXPECT_EQ(back, here);
  // By a key that is for the host alone: refused, and only this queue pair ends.
  EXPECT_EQ(peers.PostSend(3, {.opcode = roce::WrOpcode::kWrite,
                               .sges = SgesOf(here.data(), here.size()),
                               .remote_address = remote,
                               .rkey = kOwnLkey}),
            roce::PostResult::kOk);
  peers.WantPoll();
  ASSERT_TRUE(net.world.RunUntil([&] { return net.drivers[0].done.size() == 3; }, kSecond));
  EXPECT_EQ(net.drivers[0].done[2].completion.status, roce::WcStatus::kRemAccessErr);
  net.Send(0, 1, 5000);
  EXPECT_TRUE(net.RunUntilReceived({0, 1}));
}

TEST(PeersTest, WhoIsNoPeerIsRefused) {
  World world({.tree = Star(3)}, 1);
  Scripted driver;
  Peers& peers = world.AddPeers(0, driver);
  EXPECT_FALSE(peers.IsConnected(1));
  EXPECT_EQ(peers.PostSend(1, {}), roce::PostResult::kBadState);
  EXPECT_EQ(peers.PostRecv(1, {}), roce::PostResult::kBadState);
}

// Connections may be made at any time, as when they are first needed.
TEST(PeersTest, ConnectionsMadeLater) {
  World world({.tree = FullTree(2, 2)}, 1);
  std::vector<Scripted> drivers(4);
  for (int r = 0; r < 4; ++r) world.AddPeers(r, drivers[static_cast<size_t>(r)]);
  std::vector<uint8_t> from(3000, 7), into(3000);
  world.At(kMillisecond, [&] {
    world.ConnectPeers(1, 3);
    EXPECT_EQ(world.peers(3).PostRecv(1, {.sges = SgesOf(into.data(), into.size())}), roce::PostResult::kOk);
    EXPECT_EQ(world.peers(1).PostSend(3, {.sges = SgesOf(from.data(), from.size())}), roce::PostResult::kOk);
  });
  ASSERT_TRUE(world.RunUntil([&] { return drivers[3].Received() == 1; }, kSecond));
  EXPECT_EQ(into, from);
}

TEST(PeersTest, DriversAreCalledAtTheirDeadline) {
  Net net({.tree = Star(2)});
  net.drivers[1].wakes_at = 3 * kMicrosecond;
  EXPECT_FALSE(net.world.RunUntil([] { return false; }, kSecond));
  ASSERT_EQ(net.drivers[1].polled.size(), 2u) << "when the world begins, and then";
  EXPECT_EQ(net.drivers[1].polled[1], 3 * kMicrosecond);
}

// The NIC of a process that stands still goes on: it takes what comes and acknowledges it. The process hears
// of it when it goes on.
TEST(PeersTest, AStoppedProcessHearsLater) {
  Net net({.tree = Star(2)});
  net.Send(0, 1, 5000);
  net.world.host(1).SetStopped(true);
  net.world.At(kMillisecond, [&] { net.world.host(1).SetStopped(false); });
  ASSERT_TRUE(net.RunUntilReceived({0, 1}));
  EXPECT_EQ(net.drivers[1].done[0].at, kMillisecond);
  ASSERT_EQ(net.drivers[0].done.size(), 1u);
  EXPECT_LT(net.drivers[0].done[0].at, 10 * kMicrosecond);
}

// A host that stands still for a while, a switch that does: what was lost is sent again.
TEST(PeersTest, HostsAndSwitchesStandStill) {
  for (const int what : {0, 1, 2}) {
    SCOPED_TRACE(what);
    World world({.tree = LeafSpine(2, 2, 2), .host_timeout = 8}, 1);
    Ring ring(world, 40'000);
    world.At(20 * kMicrosecond, [&] {
      if (what == 0) world.Freeze(1, 3 * kMillisecond);
      if (what == 1) world.CrashEngine(1, 3 * kMillisecond);
      if (what == 2) world.CrashEngine(0, 3 * kMillisecond), world.CrashEngine(3, 3 * kMillisecond);
    });
    ASSERT_TRUE(world.RunUntil([&] { return ring.done(); }, 10 * kSecond));
    ring.ExpectRight();
    EXPECT_GT(world.now(), 3 * kMillisecond);
  }
}

// Who sends to a host that has gone is told so when the retries have run out; other queue pairs go on.
TEST(PeersTest, AHostThatIsGone) {
  Net net({.tree = Star(3), .host_timeout = 8, .host_retries_end = true});
  net.Send(0, 1, 50'000);
  net.Send(0, 2, 50'000);
  net.world.At(2 * kMicrosecond, [&] { net.world.KillHost(1, 3 * kMicrosecond); });
  ASSERT_TRUE(net.world.RunUntil([&] { return net.drivers[0].done.size() == 2; }, kSecond));
  EXPECT_EQ(net.drivers[2].Received(), 1u);
  EXPECT_EQ(net.drivers[1].done.size(), 0u);
  for (const Scripted::Done& d : net.drivers[0].done)
    EXPECT_EQ(d.completion.status, d.peer == 1 ? roce::WcStatus::kRetryExcErr : roce::WcStatus::kSuccess);
  EXPECT_GT(net.world.unclaimed(), 0);
}

// Closed: all that is posted comes back, and who is posted to afterwards does so at once.
TEST(PeersTest, ClosedQueuePairsGiveEverythingBack) {
  Net net({.tree = Star(2), .host_timeout = 8, .host_retries_end = true});
  net.Send(0, 1, 500'000);
  net.world.At(10 * kMicrosecond, [&] { net.world.peers(1).Close(); });
  ASSERT_TRUE(net.world.RunUntil([&] { return !net.drivers[0].done.empty() && !net.drivers[1].done.empty(); },
                                 kSecond));
  EXPECT_EQ(net.drivers[1].done[0].completion.status, roce::WcStatus::kWrFlushErr);
  EXPECT_EQ(net.drivers[0].done[0].completion.status, roce::WcStatus::kRetryExcErr);
  uint8_t byte = 0;
  EXPECT_EQ(net.world.peers(1).PostRecv(0, {.wr_id = 9, .sges = SgesOf(&byte, 1)}), roce::PostResult::kOk);
  net.world.peers(1).WantPoll();
  ASSERT_TRUE(net.world.RunUntil([&] { return net.drivers[1].done.size() == 2; }, kSecond));
  EXPECT_EQ(net.drivers[1].done[1].completion.wr_id, 9u);
}

}  // namespace
}  // namespace epic::sim
