// Groups whose payloads lie in one pool, with hosts' and servers' queue pairs, over links that lose and
// repeat: whatever is evicted, lost or late, every element is right, every call ends, and the pool is whole
// again (docs/PROTOCOL-MODE-V.md, section 7).
#include <algorithm>
#include <random>

#include "base/seeds_testing.h"
#include "fallback/sums.h"
#include "incengine/core/engine_pool_testing.h"

namespace epic::engine {
namespace {

// The element w of what a rank gives to packet p of a call.
int32_t Element(uint64_t group, uint32_t rank, size_t call, size_t p, size_t w) {
  return static_cast<int32_t>((group * 7 + rank * 31 + call * 101 + p * 13 + w) % 1009);
}

struct Program {
  size_t calls = 1;
  size_t packets = 4;     // of each call
  uint64_t priority = 0;  // of rank 0 in the first
};

// A rank: a NIC, and the messages of its AllReduces, which it posts as its window allows.
class HostEnd final : public roce::Memory, public roce::PacketSink {
 public:
  HostEnd(const GroupConfig& group, uint32_t rank, const Program& program)
      : window_(static_cast<Index>(group.message_packets) * group.window_messages),
        qp_({.local_ip = group.children[rank].remote_ip,
             .local_qpn = group.children[rank].remote_qpn,
             .policy = {.retry_7_is_forever = true}}) {
    for (size_t call = 0; call < program.calls; ++call)
      AddCall(group, rank, call, program.packets, program.priority);
    received_.resize(given_.size());
    const EndpointConfig& end = group.children[rank];
    EXPECT_EQ(qp_.Modify({.state = roce::QpState::kInit}), roce::ModifyResult::kOk);
    EXPECT_EQ(qp_.Modify({.state = roce::QpState::kRtr,
                          .remote_ip = kSwitchIp,
                          .remote_qpn = end.local_qpn,
                          .path_mtu = group.path_mtu,
                          .rq_psn = end.out_psn,
                          .max_dest_rd_atomic = 0,
                          .min_rnr_timer = 1}),
              roce::ModifyResult::kOk);
    EXPECT_EQ(qp_.Modify({.state = roce::QpState::kRts,
                          .sq_psn = end.in_psn,
                          .timeout = 10,
                          .retry_cnt = 7,
                          .rnr_retry = 7,
                          .max_rd_atomic = 0}),
              roce::ModifyResult::kOk);
  }

  void OnPacket(Nanos now, const roce::Packet& packet) {
    qp_.OnPacket(now, packet, *this);
    Advance(now);
  }
  void Advance(Nanos now) {
    do {
      while (posted_ < messages_.size() &&
             messages_[posted_].end - window_ <= std::min(sent_end_, received_end_))
        Post(messages_[posted_++]);
      qp_.Poll(now, *this, *this);
    } while (TakeCompletions());
  }
  bool done() const { return sent_end_ == messages_.back().end && received_end_ == sent_end_; }
  bool broken() const { return qp_.state() == roce::QpState::kErr; }
  Nanos deadline() const { return qp_.next_deadline(); }
  std::span<const uint8_t> received() const { return received_; }
  Index received_end() const { return received_end_; }
  Index sent_end() const { return sent_end_; }

  std::optional<std::span<uint8_t>> Map(roce::Access access, uint32_t, uint64_t address,
                                        uint32_t length) override {
    auto& memory = access == roce::Access::kLocalWrite ? received_ : given_;
    return std::span(memory).subspan(address, length);
  }
  void Send(const roce::Packet& packet) override {
    out.push_back({PortId{}, packet, {packet.payload.begin(), packet.payload.end()}});
  }
  std::deque<OwnPacket> out;

 private:
  struct Message {
    uint64_t at = 0;
    uint32_t bytes = 0;
    Index end = 0;  // behind its last index
    bool control = false;
    uint32_t call = 0;
  };

  // Ranks say different priorities, or none.
  void AddCall(const GroupConfig& group, uint32_t rank, size_t call, size_t packets, uint64_t priority) {
    Index end = messages_.empty() ? 0 : messages_.back().end;
    const size_t words = group.path_mtu / 4;
    const ControlHeader header{.collective = Collective::kAllReduce,
                               .op = ReduceOp::kSum,
                               .type = DataType::kInt32,
                               .invocation = call,
                               .count = packets * words,
                               .priority = static_cast<uint32_t>((priority + rank + call) % 5) << 16};
    messages_.push_back({given_.size(), kControlBytes, ++end, true, static_cast<uint32_t>(call)});
    given_.resize(given_.size() + kControlBytes);
    Encode(header, std::span(given_).last<kControlBytes>());
    for (size_t p = 0; p < packets; ++p) {
      if (p % group.message_packets == 0) messages_.push_back({given_.size(), 0, end, false, 0});
      messages_.back().bytes += group.path_mtu;
      messages_.back().end = ++end;
      for (size_t w = 0; w < words; ++w) {
        const int32_t element = Element(group.group_id, rank, call, p, w);
        const auto* bytes = reinterpret_cast<const uint8_t*>(&element);
        given_.insert(given_.end(), bytes, bytes + 4);
      }
    }
  }
  void Post(const Message& message) {
    roce::RecvWr receive;
    receive.wr_id = static_cast<uint64_t>(message.end);
    receive.sges.count = 1;
    receive.sges.sge[0] = {message.at, message.bytes, 1};
    EXPECT_EQ(qp_.PostRecv(receive), roce::PostResult::kOk);
    roce::SendWr wr{.wr_id = static_cast<uint64_t>(message.end),
                    .opcode = message.control ? roce::WrOpcode::kSendImm : roce::WrOpcode::kSend,
                    .sges = {},
                    .inline_bytes = {}};
    wr.imm = message.call;
    wr.sges = receive.sges;
    EXPECT_EQ(qp_.PostSend(wr), roce::PostResult::kOk);
  }
  bool TakeCompletions() {
    bool any = false;
    for (roce::Completion done; qp_.NextCompletion(&done); any = true) {
      if (!done.ok()) continue;
      (done.is_recv() ? received_end_ : sent_end_) = static_cast<Index>(done.wr_id);
    }
    return any;
  }

  Index window_;
  roce::QueuePair qp_;
  std::vector<Message> messages_;
  std::vector<uint8_t> given_, received_;
  size_t posted_ = 0;
  Index sent_end_ = 0, received_end_ = 0;
};

// A fallback server.
class Server {
 public:
  explicit Server(const GroupConfig& group)
      : end(group),
        sums_({.world_size = group.world_size,
               .path_mtu = group.path_mtu,
               .message_packets = group.message_packets,
               .slots = group.slots}) {}
  void OnPacket(Nanos now, const roce::Packet& packet) {
    end.OnPacket(now, packet);
    for (const LegEnd::Got& got : end.got) {
      const std::string_view wrong = sums_.Take(LegImmediate(got.kind, got.index), got.bytes);
      EXPECT_EQ(wrong, "") << "message " << static_cast<int>(got.kind) << " of index " << got.index;
    }
    end.got.clear();
    for (fallback::Sums::Fetched sum; sums_.NextFetched(&sum);)
      end.Post(LegMessage::kSum, sum.immediate & kLegIndexMask, sum.bytes);
    end.Poll(now);
  }
  bool empty() const { return sums_.size() == 0; }
  LegEnd end;

 private:
  fallback::Sums sums_;
};

class PoolWorld final : public Effects {
 public:
  explicit PoolWorld(uint64_t seed) : random_(seed) {
    const auto places = static_cast<uint32_t>(Draw(1, 4));
    const auto spares = static_cast<uint32_t>(Draw(8 - places, 24));
    const PoolConfig config{.bytes = size_t{512} * (places + spares),
                            .buffer_bytes = 512,
                            .addressing = Draw(0, 1) == 0 ? PoolAddressing::kAny : PoolAddressing::kHash,
                            .policy = static_cast<PoolPolicy>(Draw(0, 3)),
                            .most_places = places,
                            .age = Draw(0, 2) == 0 ? Nanos{20 * kMicrosecond} : 0};
    EXPECT_TRUE(engine.MakePool(config).ok());
    losses_ = Draw(0, 1) == 0 ? 0 : Draw(1, 30);
    const uint64_t groups = Draw(1, 3);
    for (uint64_t id = 1; id <= groups; ++id) {
      const auto ranks = static_cast<uint32_t>(Draw(1, 4));
      const GroupConfig group = PoolGroup(id, ranks);
      const auto installed = engine.Install(group);
      EXPECT_TRUE(installed.ok()) << installed.status();
      programs_.push_back({.calls = Draw(1, 4), .packets = Draw(1, 9), .priority = Draw(0, 4)});
      servers_.emplace_back(group);
      for (uint32_t rank = 0; rank < ranks; ++rank)
        hosts_.push_back({id, rank, HostEnd(group, rank, programs_.back())});
    }
    links_.resize(2 * (hosts_.size() + servers_.size()));
    for (size_t h = 0; h < hosts_.size(); ++h) Step([&] { hosts_[h].end.Advance(now_); });
  }

  // Empty, or what is wrong.
  std::string Run() {
    constexpr int kMost = 200000;
    for (int step = 0; step < kMost; ++step) {
      if (std::ranges::any_of(hosts_, [](const Host& host) { return host.end.broken(); }))
        return "a host's queue pair has failed";
      const bool done = std::ranges::all_of(hosts_, [](const Host& host) { return host.end.done(); });
      const bool empty = std::ranges::all_of(servers_, &Server::empty);
      if (done && empty && engine.pool()->spare() == engine.pool()->buffers()) return WrongElement();
      if (!DeliverOne() && !FireTimer()) return "nothing can happen" + Where();
    }
    return "hung" + Where();
  }
  uint64_t evictions() const {
    uint64_t all = 0;
    for (uint64_t id = 1; id <= programs_.size(); ++id) all += engine.pool()->counters(id).evictions;
    return all;
  }
  uint64_t passes() const {
    uint64_t all = 0;
    for (uint64_t id = 1; id <= programs_.size(); ++id) all += engine.pool()->counters(id).passes;
    return all;
  }

  void Send(PortId port, const OutPacket& out) override {
    const OwnPacket own{port, out.packet, {out.packet.payload.begin(), out.packet.payload.end()}};
    if (port == kServerPort) return Put(LinkOfServer(Raw(out.packet.bth.dest_qp) - 0x201) + 1, own);
    for (size_t h = 0; h < hosts_.size(); ++h) {
      if (PortOf(hosts_[h]) == port) return Put(2 * h + 1, own);
    }
  }
  void SetTimer(TimerId id, Nanos deadline) override { timers_[static_cast<uint64_t>(id)] = deadline; }
  void Drop(PortId, DropReason) override {}

  Engine engine{kSwitchIp, kServerPort + 1, 1 << 20};

 private:
  struct Host {
    uint64_t group;
    uint32_t rank;
    HostEnd end;
  };

  uint64_t Draw(uint64_t least, uint64_t most) { return least + random_() % (most - least + 1); }
  static PortId PortOf(const Host& host) { return static_cast<PortId>(4 * (host.group - 1) + host.rank); }
  size_t LinkOfServer(size_t server) const { return 2 * (hosts_.size() + server); }

  // Even links lead to the switch, odd ones from it. Some packets are lost, some come twice.
  void Put(size_t link, const OwnPacket& packet) {
    if (losses_ > 0 && Draw(0, 19) == 0) {
      --losses_;
      if (Draw(0, 2) > 0) return;
      links_[link].push_back(packet);
    }
    links_[link].push_back(packet);
  }
  // After whatever hosts and servers do: what they send is on its way.
  template <typename Action>
  void Step(const Action& action) {
    action();
    for (size_t h = 0; h < hosts_.size(); ++h) {
      for (auto& out = hosts_[h].end.out; !out.empty(); out.pop_front()) Put(2 * h, out.front());
    }
    for (size_t s = 0; s < servers_.size(); ++s) {
      for (auto& out = servers_[s].end.out; !out.empty(); out.pop_front()) Put(LinkOfServer(s), out.front());
    }
  }
  bool DeliverOne() {
    std::vector<size_t> busy;
    for (size_t link = 0; link < links_.size(); ++link) {
      if (!links_[link].empty()) busy.push_back(link);
    }
    if (busy.empty()) return false;
    const size_t link = busy[Draw(0, busy.size() - 1)];
    const OwnPacket packet = links_[link].front();
    links_[link].pop_front();
    now_ += kMicrosecond;
    const size_t end = link / 2;
    Step([&] {
      if (link % 2 == 0) {
        const PortId port = end < hosts_.size() ? PortOf(hosts_[end]) : kServerPort;
        engine.OnPacket(now_, port, packet.packet(), *this);
        engine.CheckInvariants();
      } else if (end < hosts_.size()) {
        hosts_[end].end.OnPacket(now_, packet.packet());
      } else {
        servers_[end - hosts_.size()].OnPacket(now_, packet.packet());
      }
    });
    return true;
  }
  bool FireTimer() {
    Nanos next = kNever;
    for (const auto& [id, at] : timers_) next = std::min(next, at);
    for (const Host& host : hosts_) next = std::min(next, host.end.deadline());
    for (const Server& server : servers_) next = std::min(next, server.end.deadline());
    if (next == kNever) return false;
    now_ = std::max(now_ + 1, next);
    Step([&] {
      for (auto& [id, at] : timers_) {
        if (at > now_) continue;
        at = kNever;
        engine.OnTimer(now_, TimerId{id}, *this);
      }
      for (Host& host : hosts_) {
        if (host.end.deadline() <= now_) host.end.Advance(now_);
      }
      for (Server& server : servers_) {
        if (server.end.deadline() <= now_) server.end.Poll(now_);
      }
    });
    return true;
  }
  std::string WrongElement() const {
    for (const Host& host : hosts_) {
      const GroupConfig& config = engine.groups().at(host.group).config;
      const Program& program = programs_[host.group - 1];
      size_t at = 0;
      for (size_t call = 0; call < program.calls; ++call) {
        at += kControlBytes;
        for (size_t p = 0; p < program.packets; ++p) {
          for (size_t w = 0; w < config.path_mtu / 4; ++w, at += 4) {
            int32_t expected = 0, is = 0;
            for (uint32_t r = 0; r < config.world_size; ++r) expected += Element(host.group, r, call, p, w);
            std::memcpy(&is, &host.end.received()[at], 4);
            if (is == expected) continue;
            return "group " + std::to_string(host.group) + " rank " + std::to_string(host.rank) + " call " +
                   std::to_string(call) + " packet " + std::to_string(p) + " word " + std::to_string(w) +
                   ": " + std::to_string(is) + " and not " + std::to_string(expected);
          }
        }
      }
    }
    return "";
  }
  std::string Where() const {
    std::string where;
    for (const Host& host : hosts_) {
      where += "; group " + std::to_string(host.group) + " rank " + std::to_string(host.rank) + ": sent " +
               std::to_string(host.end.sent_end()) + ", received " + std::to_string(host.end.received_end());
    }
    return where + "; spare " + std::to_string(engine.pool()->spare()) + " of " +
           std::to_string(engine.pool()->buffers());
  }

  std::mt19937_64 random_;
  Nanos now_ = 0;
  uint64_t losses_ = 0;
  std::vector<Program> programs_;
  std::deque<Host> hosts_;
  std::deque<Server> servers_;
  std::vector<std::deque<OwnPacket>> links_;
  std::map<uint64_t, Nanos> timers_;
};

TEST(EnginePoolRandomTest, EveryElementIsRightAndThePoolIsWholeAgain) {
  const TestSeeds seeds = SeedsToRun(400);
  uint64_t evictions = 0, passes = 0;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    PoolWorld world(seed);
    const std::string wrong = world.Run();
    ASSERT_EQ(wrong, "") << "again with: EPIC_SEED=" << seed
                         << " pool_test --gtest_filter=EnginePoolRandomTest.*";
    evictions += world.evictions();
    passes += world.passes();
  }
  if (seeds.count < 8) return;
  EXPECT_GT(evictions, seeds.count);
  EXPECT_GT(passes, seeds.count);
}

}  // namespace
}  // namespace epic::engine
