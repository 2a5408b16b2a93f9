// The host library as it is, on softnic's verbs as they are, through a switch's engine, all in one process:
// only the network and its clock are simulated, and the manager is a few lines that hand out one group.
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "epic/epic.h"
#include "incengine/core/engine.h"
#include "proto/manager.grpc.pb.h"
#include "softnic/port/virtual_network.h"
#include "softnic/verbs/use_network.h"

namespace epic {
namespace {

constexpr Ipv4 kHostIp{0x0a000001}, kSwitchIp{0x0a00ff01};
constexpr uint32_t kRanks = 4, kPathMtu = 1024, kMessagePackets = 4, kWindowMessages = 4;
constexpr uint32_t kUpPsn = 0xfffff0, kDownPsn = 77;  // the first wraps
constexpr uint64_t kGroup = 1;

// A switch on the network.
class VirtualSwitch final : public engine::Effects {
 public:
  explicit VirtualSwitch(softnic::VirtualNetwork* network) : network_(network) {
    network_->AddNode(kSwitchIp, [this](Nanos now, const roce::Packet& packet) {
      engine_.OnPacket(now, /*port=*/0, packet, *this);
    });
  }
  // Once the queue pair numbers of the ranks are known.
  void Install(engine::Mode mode, const std::map<uint32_t, uint32_t>& qpn_of_rank) {
    engine::GroupConfig config{.group_id = kGroup,
                               .mode = mode,
                               .world_size = kRanks,
                               .path_mtu = kPathMtu,
                               .message_packets = kMessagePackets,
                               .window_messages = kWindowMessages,
                               .slots = 2 * kMessagePackets * kWindowMessages,
                               .prompt_ns = kMillisecond};
    for (const auto& [rank, qpn] : qpn_of_rank) {
      config.children.push_back({.local_qpn = Qpn{0x100 + rank},
                                 .remote_ip = kHostIp,
                                 .remote_qpn = Qpn{qpn},
                                 .port = 0,
                                 .in_psn = Psn(kUpPsn),
                                 .out_psn = Psn(kDownPsn),
                                 .is_host = true,
                                 .ranks = {rank}});
    }
    network_->Do([&] { ASSERT_TRUE(engine_.Install(config).ok()); });
  }

  void Send(PortId, const engine::OutPacket& packet) override {
    network_->SendFrom(kSwitchIp, packet.packet);
  }
  void SetTimer(engine::TimerId id, Nanos deadline) override {
    deadlines_[id] = deadline;
    network_->At(deadline, [this, id, deadline](Nanos now) {
      if (deadlines_[id] != deadline) return;
      deadlines_[id] = kNever;
      engine_.OnTimer(now, id, *this);
    });
  }
  void Drop(PortId, engine::DropReason) override {}

 private:
  softnic::VirtualNetwork* network_;
  engine::Engine engine_{kSwitchIp, 1, 1 << 20};
  std::map<engine::TimerId, Nanos> deadlines_;
};

// Waits for all ranks, has the group installed, and waits again until all have left.
class OneGroupManager final : public proto::Manager::Service {
 public:
  OneGroupManager(VirtualSwitch* a_switch, engine::Mode mode) : switch_(a_switch), mode_(mode) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~OneGroupManager() override {
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  }

  grpc::Status Session(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<proto::ServerMessage, proto::ClientMessage>* stream) override {
    proto::ClientMessage said;
    stream->Read(&said);
    const uint32_t rank = said.join().rank();
    {
      std::unique_lock lock(mutex_);
      qpn_of_rank_[rank] = said.join().qpn();
      if (qpn_of_rank_.size() == kRanks) switch_->Install(mode_, qpn_of_rank_);
      changed_.notify_all();
      changed_.wait(lock, [this] { return qpn_of_rank_.size() == kRanks; });
    }
    proto::ServerMessage message;
    auto& joined = *message.mutable_joined();
    joined.set_group_id(kGroup);
    joined.set_remote_ip(Raw(kSwitchIp));
    joined.set_remote_qpn(0x100 + rank);
    joined.set_send_psn(kUpPsn);
    joined.set_recv_psn(kDownPsn);
    joined.set_path_mtu(kPathMtu);
    joined.set_message_packets(kMessagePackets);
    joined.set_window_messages(kWindowMessages);
    joined.set_qp_timeout(18);
    joined.set_retry_cnt(7);
    joined.set_rnr_retry(7);
    joined.set_min_rnr_timer(1);
    stream->Write(message);
    stream->Read(&said);
    {
      std::unique_lock lock(mutex_);
      ++left_;
      changed_.notify_all();
      changed_.wait_for(lock, std::chrono::seconds(20), [this] { return left_ == kRanks; });
    }
    message.mutable_left();
    stream->Write(message);
    return grpc::Status::OK;
  }
  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }

 private:
  VirtualSwitch* switch_;
  const engine::Mode mode_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint32_t, uint32_t> qpn_of_rank_;
  uint32_t left_ = 0;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

void RunRank(int rank, const std::string& manager, int calls) {
  Communicator comm;
  Error error = comm.Init({.group = "g", .rank = rank, .size = kRanks, .manager = manager});
  ASSERT_TRUE(error.ok()) << error.message();
  for (int call = 0; call < calls; ++call) {
    const size_t count = static_cast<size_t>(1 + call * 977 % 9001);
    std::vector<int32_t> in(count), out(count);
    for (size_t i = 0; i < count; ++i) in[i] = rank * 1000003 + call * 17 + static_cast<int>(i);
    error = AllReduce(in.data(), out.data(), count, Datatype::kInt32, RedOp::kSum, comm);
    ASSERT_TRUE(error.ok()) << "rank " << rank << ", call " << call << ": " << error.message();
    for (size_t i = 0; i < count; ++i) {
      const int expected = 6 * 1000003 + 4 * (call * 17 + static_cast<int>(i));
      ASSERT_EQ(out[i], expected) << "rank " << rank << ", call " << call << ", element " << i;
    }
  }
  error = comm.Destroy();
  EXPECT_TRUE(error.ok()) << error.message();
}

struct Case {
  engine::Mode mode;
  uint32_t lose_one_in;  // 0: none
  int calls;
};

class VirtualTimeTest : public testing::TestWithParam<Case> {};

TEST_P(VirtualTimeTest, HostLibrarySumsThroughTheEngine) {
  softnic::VirtualNetwork network({});
  network.AddInterface("virt0", kHostIp);
  epic_softnic_use_network(&network);
  VirtualSwitch a_switch(&network);
  OneGroupManager manager(&a_switch, GetParam().mode);
  const uint32_t seed = testing::UnitTest::GetInstance()->random_seed() + 1u;
  // Which packet is lost depends also on the threads, so that the seed alone does not repeat a run.
  SCOPED_TRACE(fmt::format("--gtest_random_seed={}", seed - 1));
  if (GetParam().lose_one_in != 0) {
    network.SetLossRule([random = std::mt19937(seed)](const roce::Packet&) mutable {
      return random() % GetParam().lose_one_in == 0;
    });
  }
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < static_cast<int>(kRanks); ++rank)
    ranks.emplace_back(RunRank, rank, manager.address(), GetParam().calls);
  for (std::thread& rank : ranks) rank.join();
  epic_softnic_use_network(nullptr);
  EXPECT_EQ(network.packets_lost() > 0, GetParam().lose_one_in != 0);
  EXPECT_GT(network.Now(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Modes, VirtualTimeTest,
    testing::Values(Case{engine::Mode::kTranslated, 0, 30}, Case{engine::Mode::kTranslated, 50, 10},
                    Case{engine::Mode::kAugmented, 0, 30}, Case{engine::Mode::kAugmented, 50, 10},
                    Case{engine::Mode::kTerminated, 0, 30}, Case{engine::Mode::kTerminated, 50, 10}),
    [](const auto& test) {
      const Case& c = test.param;
      return fmt::format("{}{}",
                         c.mode == engine::Mode::kTerminated   ? "I"
                         : c.mode == engine::Mode::kTranslated ? "II"
                                                               : "III",
                         c.lose_one_in == 0 ? "" : "WithLoss");
    });

}  // namespace
}  // namespace epic
