// Servers as they are, on softnic's verbs as they are, and the ends of legs at a switch, in one process: only
// the network and its clock are simulated.
#include "inchost/servers/servers.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

#include "incengine/state/connect.h"
#include "inchost/servers/servers_testing.h"
#include "protocol/fallback.h"
#include "roce/transport/queue_pair.h"
#include "softnic/port/virtual_network.h"
#include "softnic/verbs/use_network.h"

namespace epic::host {
namespace {

using proto::ServerEnded;
using proto::ServerMade;
using testing::HasSubstr;

constexpr Ipv4 kHostIp{0x0a000001};
constexpr uint32_t kWords = kTestMtu / 4;
constexpr uint64_t kNeeded = LentBytes(kTestMtu, 2, kTestSlots);
constexpr auto kPatience = std::chrono::seconds(20);

// While it holds a QPN, no queue pair is connected to it.
class HeldConnections {
 public:
  void Hold(uint32_t qpn) {
    const std::lock_guard lock(mutex_);
    held_ = qpn;
  }
  void Release() {
    Hold(0);
    changed_.notify_all();
  }
  void Wait(uint32_t qpn) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return held_ != qpn; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint32_t held_ = 0;
};
HeldConnections held_connections;

// The switch's end of a leg. All but Take on the network's thread.
class SwitchEnd final : public roce::Memory, public roce::PacketSink {
 public:
  SwitchEnd(softnic::VirtualNetwork* network, const proto::MakeServer& asked, const ServerMade& made)
      : network_(network), qp_(Connected(asked, made)) {}

  // Messages are sent in order, with data of this length that hold that value.
  void Send(uint32_t immediate, size_t words, int32_t value) {
    std::vector<uint8_t> bytes(words * 4);
    for (size_t i = 0; i < words; ++i) std::memcpy(&bytes[4 * i], &value, 4);
    Send(immediate, bytes);
  }
  void Send(uint32_t immediate, std::span<const uint8_t> bytes) {
    network_->Do([&] {
      const size_t at = sent_++ % kPlaces * kPlace;
      std::ranges::copy(bytes, memory_.begin() + static_cast<ptrdiff_t>(at));
      roce::SendWr wr{.opcode = roce::WrOpcode::kSendImm, .sges = {}, .inline_bytes = {}};
      wr.imm = immediate;
      wr.sges.count = bytes.empty() ? 0 : 1;
      wr.sges.sge[0] = {at, static_cast<uint32_t>(bytes.size()), 1};
      ASSERT_EQ(qp_.PostSend(wr), roce::PostResult::kOk);
      Poll();
    });
  }
  // As a switch: the receive first.
  void Fetch(Index index) {
    network_->Do([&] {
      roce::RecvWr wr;
      wr.wr_id = fetched_++ % kPlaces;
      wr.sges.count = 1;
      wr.sges.sge[0] = {(kPlaces + wr.wr_id) * kPlace, kTestMtu, 1};
      ASSERT_EQ(qp_.PostRecv(wr), roce::PostResult::kOk);
    });
    Send(LegImmediate(LegMessage::kFetch, index), {});
  }
  void OnPacket(Nanos now, const roce::Packet& packet) {
    qp_.OnPacket(now, packet, *this);
    Poll();
  }

  // The next sum: its immediate, and its first word if all are the same.
  std::pair<uint32_t, int32_t> Take() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kPatience, [this] { return !sums_.empty(); })) {
      ADD_FAILURE() << "no sum has come";
      return {};
    }
    const auto sum = sums_.front();
    sums_.pop_front();
    return sum;
  }

 private:
  static constexpr size_t kPlaces = 128, kPlace = size_t{4} * kTestMtu;

  static roce::QueuePair Connected(const proto::MakeServer& asked, const ServerMade& made) {
    engine::GroupConfig group;
    group.path_mtu = asked.path_mtu();
    group.message_packets = asked.message_packets();
    group.window_messages = 4;
    group.prompt_ns = kMillisecond;
    const engine::EndpointConfig end{.local_qpn = Qpn{asked.remote_qpn()},
                                     .remote_ip = Ipv4{made.ip()},
                                     .remote_qpn = Qpn{made.qpn()},
                                     .in_psn = Psn(asked.send_psn()),
                                     .out_psn = Psn(asked.recv_psn())};
    return engine::Connect(group, end, Ipv4{asked.remote_ip()}, {.sends = kPlaces, .receives = kPlaces}, {});
  }

  void Poll() {
    const Nanos now = network_->Now();
    qp_.Poll(now, *this, *this);
    for (roce::Completion done; qp_.NextCompletion(&done);) {
      if (!done.is_recv() || !done.ok()) continue;
      const auto bytes = Map(roce::Access::kLocalRead, 1, (kPlaces + done.wr_id) * kPlace, done.bytes);
      std::array<int32_t, 2> ends{};
      std::memcpy(&ends[0], bytes->data(), 4);
      std::memcpy(&ends[1], &bytes->back() - 3, 4);
      EXPECT_EQ(ends[0], ends[1]);
      const std::lock_guard lock(mutex_);
      sums_.emplace_back(done.imm, ends[0]);
      changed_.notify_all();
    }
    const Nanos deadline = qp_.next_deadline();
    if (deadline == kNever || deadline >= timer_) return;
    timer_ = deadline;
    const auto fire = [this, deadline](Nanos) {
      if (timer_ == deadline) timer_ = kNever;
      Poll();
    };
    network_->At(std::max(deadline, now + 1), fire,
                 [there = std::weak_ptr(there_)] { return !there.expired(); });
  }
  std::optional<std::span<uint8_t>> Map(roce::Access, uint32_t, uint64_t address, uint32_t length) override {
    return std::span(memory_).subspan(address, length);
  }
  void Send(const roce::Packet& packet) override { network_->SendFrom(Ipv4{kTestSwitchIp}, packet); }

  softnic::VirtualNetwork* const network_;
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(2 * kPlaces * kPlace);
  roce::QueuePair qp_;
  size_t sent_ = 0, fetched_ = 0;
  Nanos timer_ = kNever;
  std::shared_ptr<int> there_ = std::make_shared<int>();  // until this is gone: timers are then for nobody
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<uint32_t, int32_t>> sums_;
};

class ServersTest : public testing::Test {
 protected:
  ServersTest() {
    network_.AddInterface("virt0", kHostIp);
    epic_softnic_use_network(&network_);
    network_.AddNode(Ipv4{kTestSwitchIp}, [this](Nanos now, const roce::Packet& packet) {
      const auto found = ends_.find(Raw(packet.bth.dest_qp));
      if (found != ends_.end()) found->second->OnPacket(now, packet);
    });
    auto opened = Servers::Open({.bytes = 3 * kNeeded, .ifname = ""},
                                {.made = [this](const ServerMade& made) { Put(&made_, made); },
                                 .ended = [this](const ServerEnded& ended) { Put(&ended_, ended); }});
    EXPECT_TRUE(opened.ok()) << opened.status();
    servers_ = *std::move(opened);
  }
  ~ServersTest() override {
    servers_.reset();
    network_.Do([this] { ends_.clear(); });
    epic_softnic_use_network(nullptr);
  }

  ServerMade Make(const proto::MakeServer& request) {
    servers_->Make(request);
    return Next(&made_);
  }
  // A server of the group, and its leg.
  SwitchEnd& Serve(uint64_t id) {
    const proto::MakeServer asked = ServerOf(id);
    const ServerMade made = Make(asked);
    EXPECT_EQ(made.outcome(), ServerMade::OUTCOME_SERVES) << made.message();
    EXPECT_EQ(made.ip(), Raw(kHostIp));
    SwitchEnd* end = nullptr;
    network_.Do([&] {
      auto& place = ends_[asked.remote_qpn()];
      place = std::make_unique<SwitchEnd>(&network_, asked, made);
      end = place.get();
    });
    return *end;
  }
  static void Open(SwitchEnd& end, uint64_t indices) {
    const ControlHeader header{.collective = Collective::kAllReduce,
                               .op = ReduceOp::kSum,
                               .type = DataType::kInt32,
                               .count = indices * kWords};
    const auto bytes = EncodeOpen({.header = header});
    end.Send(LegImmediate(LegMessage::kOpen, 0), bytes);
  }
  ServerMade NextMade() { return Next(&made_); }
  ServerEnded NextEnd() { return Next(&ended_); }
  // Once what was asked for before has been done.
  proto::FallbackOffer OfferAfterAll() {
    proto::MakeServer bad = ServerOf(99);
    bad.set_slots(0);
    EXPECT_EQ(Make(bad).outcome(), ServerMade::OUTCOME_BAD_CONFIG);
    return servers_->Offer();
  }

  softnic::VirtualNetwork network_{{}};
  std::unique_ptr<Servers> servers_;

 private:
  template <typename Message>
  void Put(std::deque<Message>* queue, const Message& message) {
    const std::lock_guard lock(mutex_);
    queue->push_back(message);
    changed_.notify_all();
  }
  template <typename Message>
  Message Next(std::deque<Message>* queue) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kPatience, [&] { return !queue->empty(); })) {
      ADD_FAILURE() << "nothing has been said";
      return {};
    }
    Message message = queue->front();
    queue->pop_front();
    return message;
  }

  std::map<uint32_t, std::unique_ptr<SwitchEnd>> ends_;  // by QPN; of the network's thread
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<ServerMade> made_;
  std::deque<ServerEnded> ended_;
};

TEST_F(ServersTest, PartsThatASwitchSendsComeBackAsSums) {
  SwitchEnd& end = Serve(1);
  Open(end, 2);
  for (const int32_t part : {3, 4}) end.Send(LegImmediate(LegMessage::kPart, 1), kWords, part);
  end.Send(LegImmediate(LegMessage::kLast, 1), kWords, 5);
  end.Fetch(1);
  EXPECT_EQ(end.Take(), std::pair(LegImmediate(LegMessage::kSum, 1), 12));
}

TEST_F(ServersTest, EverySumIsRightThoughPacketsAreLost) {
  const uint32_t seed = testing::UnitTest::GetInstance()->random_seed() + 1u;
  SCOPED_TRACE(fmt::format("--gtest_filter=ServersTest.*Lost --gtest_random_seed={}", seed - 1));
  network_.SetLossRule(
      [random = std::mt19937(seed)](const roce::Packet&) mutable { return random() % 20 == 0; });
  std::vector<SwitchEnd*> ends;
  for (const uint64_t id : {1, 2, 3}) ends.push_back(&Serve(id));
  for (SwitchEnd* const end : ends) Open(*end, 40);
  std::mt19937 random(seed);
  for (int32_t index = 1; index <= 40; ++index) {
    for (SwitchEnd* const end : ends) {
      int32_t sum = 0;
      for (uint32_t parts = 1 + random() % 4; parts > 0; --parts) {
        const auto part = static_cast<int32_t>(random() % 1000);
        sum += part;
        end->Send(LegImmediate(parts == 1 ? LegMessage::kLast : LegMessage::kPart, index), kWords, part);
      }
      end->Fetch(index);
      ASSERT_EQ(end->Take(), std::pair(LegImmediate(LegMessage::kSum, index), sum));
    }
  }
  EXPECT_GT(network_.packets_lost(), 0u);
}

TEST_F(ServersTest, WhatIsMalformedEndsThatLegAlone) {
  SwitchEnd& bad = Serve(1);
  SwitchEnd& good = Serve(2);
  Open(good, 2);
  good.Send(LegImmediate(LegMessage::kPart, 1), kWords, 7);
  bad.Send(LegImmediate(LegMessage::kPart, 1), kWords, 7);
  const ServerEnded ended = NextEnd();
  EXPECT_EQ(ended.group().group_id(), 1u);
  EXPECT_EQ(ended.field(), "index") << "of a call that was not opened";
  EXPECT_THAT(ended.message(), HasSubstr("switch leaf1"));
  good.Send(LegImmediate(LegMessage::kLast, 1), kWords, 1);
  good.Fetch(1);
  EXPECT_EQ(good.Take().second, 8);
  const proto::FallbackOffer offer = OfferAfterAll();
  ASSERT_EQ(offer.served_size(), 1);
  EXPECT_EQ(offer.served(0).group_id(), 2u);
}

TEST_F(ServersTest, AMessageLongerThanASumEndsTheLeg) {
  SwitchEnd& end = Serve(1);
  end.Send(LegImmediate(LegMessage::kPart, 1), 3 * kWords, 7);
  EXPECT_EQ(NextEnd().field(), "length");
}

TEST_F(ServersTest, WhatARemovedServerHadIsThereForOthers) {
  for (const uint64_t id : {1, 2, 3}) Serve(id);
  ServerMade refused = Make(ServerOf(4));
  EXPECT_EQ(refused.outcome(), ServerMade::OUTCOME_NO_MEMORY);
  EXPECT_EQ(refused.needed_bytes(), kNeeded);
  EXPECT_EQ(refused.left_bytes(), 0u);
  proto::ServedGroup other_life = ServerOf(2).group();
  other_life.set_generation(7);
  servers_->Remove(other_life);
  EXPECT_EQ(Make(ServerOf(4)).outcome(), ServerMade::OUTCOME_NO_MEMORY);
  servers_->Remove(ServerOf(2).group());
  SwitchEnd& end = Serve(4);
  Open(end, 1);
  end.Send(LegImmediate(LegMessage::kLast, 1), kWords, 9);
  end.Fetch(1);
  EXPECT_EQ(end.Take().second, 9);
  servers_->RemoveAll();
  EXPECT_EQ(OfferAfterAll().served_size(), 0);
}

TEST_F(ServersTest, WhatComesToAServerThatHasGoneIsNobodys) {
  SwitchEnd& end = Serve(1);
  Open(end, 2);
  end.Send(LegImmediate(LegMessage::kPart, 1), kWords, 7);
  servers_->Remove(ServerOf(1).group());
  EXPECT_EQ(OfferAfterAll().served_size(), 0);
  end.Send(LegImmediate(LegMessage::kPart, 1), kWords, 7);
  proto::MakeServer next = ServerOf(1);
  next.mutable_group()->set_generation(2);
  EXPECT_EQ(Make(next).outcome(), ServerMade::OUTCOME_SERVES);
}

// A switch that does not answer takes seconds, and the manager waits for five.
TEST_F(ServersTest, GroupsDoNotWaitForTheConnectionsOfOthers) {
  held_connections.Hold(ServerOf(1).remote_qpn());
  servers_->Make(ServerOf(1));
  Serve(2);
  EXPECT_EQ(servers_->Offer().served_size(), 1) << "of one that is being connected nobody has been told";
  servers_->Remove(ServerOf(1).group());  // behind its connection
  proto::MakeServer again = ServerOf(1);
  again.mutable_group()->set_generation(2);
  servers_->Make(again);
  proto::MakeServer large = ServerOf(3);
  large.set_slots(3 * kTestSlots / 2);
  servers_->Make(large);  // has room when the first is removed
  Serve(4);
  held_connections.Release();
  const ServerMade first = NextMade();
  EXPECT_EQ(first.group().generation(), 1u);
  EXPECT_EQ(first.outcome(), ServerMade::OUTCOME_SERVES);
  std::map<uint64_t, ServerMade> later;
  for (int i = 0; i < 2; ++i) {
    const ServerMade made = NextMade();
    later[made.group().group_id()] = made;
  }
  EXPECT_EQ(later[1].group().generation(), 2u);
  EXPECT_EQ(later[3].outcome(), ServerMade::OUTCOME_NO_MEMORY) << "the other has it now";
}

TEST_F(ServersTest, WhatIsRemovedWithAllIsBehindWhatIsBeingConnected) {
  held_connections.Hold(ServerOf(1).remote_qpn());
  servers_->Make(ServerOf(1));
  Serve(2);
  servers_->RemoveAll();
  servers_->Make(ServerOf(3));
  held_connections.Release();
  EXPECT_EQ(NextMade().group().group_id(), 1u);
  EXPECT_EQ(NextMade().group().group_id(), 3u);
  const proto::FallbackOffer offer = servers_->Offer();
  ASSERT_EQ(offer.served_size(), 1);
  EXPECT_EQ(offer.served(0).group_id(), 3u);
}

}  // namespace

extern "C" {
int __real_ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask);
int __wrap_ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask);
int __wrap_ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  if ((mask & IBV_QP_DEST_QPN) != 0) held_connections.Wait(attr->dest_qp_num);
  return __real_ibv_modify_qp(qp, attr, mask);
}
}

}  // namespace epic::host
