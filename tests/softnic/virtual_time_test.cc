// The host library as it is, on softnic's verbs as they are, through a switch's engine, all in one process:
// only the network and its clock are simulated, and the manager is a few lines that hand out one group.
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "epic/epic.h"
#include "proto/manager.grpc.pb.h"
#include "softnic/verbs/use_network.h"
#include "tests/softnic/fork_testing.h"
#include "tests/softnic/virtual_switch_testing.h"

namespace epic {
namespace {

using softnic::JoinedAt;
using softnic::kHostIp;
using softnic::VirtualSwitch;

constexpr uint32_t kRanks = 4;
constexpr uint64_t kGroup = 1;

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
    EXPECT_EQ(said.join().max_outstanding(), 128u) << "as softnic says";
    {
      std::unique_lock lock(mutex_);
      qpn_of_rank_[rank] = said.join().qpn();
      if (qpn_of_rank_.size() == kRanks) switch_->Install(kGroup, mode_, qpn_of_rank_);
      changed_.notify_all();
      changed_.wait(lock, [this] { return qpn_of_rank_.size() == kRanks; });
    }
    proto::ServerMessage message;
    auto& joined = *message.mutable_joined();
    joined.set_group_id(kGroup);
    const internal::JoinedInfo info = JoinedAt(kGroup, mode_, rank);
    joined.set_remote_ip(Raw(info.connect.remote_ip));
    joined.set_remote_qpn(info.connect.remote_qpn);
    joined.set_send_psn(info.connect.send_psn);
    joined.set_recv_psn(info.connect.recv_psn);
    joined.set_path_mtu(info.connect.path_mtu);
    joined.set_message_packets(info.message_packets);
    joined.set_window_messages(info.window_messages);
    joined.set_inline_bytes(info.inline_bytes);
    joined.set_qp_timeout(info.connect.timeout);
    joined.set_retry_cnt(info.connect.retry_cnt);
    joined.set_rnr_retry(info.connect.rnr_retry);
    joined.set_min_rnr_timer(info.connect.min_rnr_timer);
    joined.set_super_frames(info.connect.super_frames);
    stream->Write(message);
    stream->Read(&said);
    EXPECT_TRUE(said.has_leave()) << said.ShortDebugString();
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
  bool super_frames = false;
};

std::vector<Case> Cases() {
  std::vector<Case> cases = {{kDefaultMode, 0, 30, true}};
  for (const Mode mode : ModesOfOwnMemory())
    cases.insert(cases.end(), {{mode, 0, 30}, {mode, 50, 10}, {mode, 50, 10, true}});
  return cases;
}

class VirtualTimeTest : public testing::TestWithParam<Case> {};

TEST_P(VirtualTimeTest, HostLibrarySumsThroughTheEngine) {
  auto made = std::make_unique<softnic::VirtualNetwork>(
      softnic::VirtualNetwork::Config{.super_frames = GetParam().super_frames});
  VirtualSwitch a_switch(made.get());
  const auto network = std::move(made);  // ends before the switch, whose timers it has
  network->AddInterface("virt0", kHostIp);
  epic_softnic_use_network(network.get());
  OneGroupManager manager(&a_switch, GetParam().mode);
  const uint32_t seed = testing::UnitTest::GetInstance()->random_seed() + 1u;
  // Which packet is lost depends also on the threads, so that the seed alone does not repeat a run.
  SCOPED_TRACE(fmt::format("--gtest_random_seed={}", seed - 1));
  if (GetParam().lose_one_in != 0) {
    network->SetLossRule([random = std::mt19937(seed)](const roce::Packet&) mutable {
      return random() % GetParam().lose_one_in == 0;
    });
  }
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < static_cast<int>(kRanks); ++rank)
    ranks.emplace_back(RunRank, rank, manager.address(), GetParam().calls);
  for (std::thread& rank : ranks) rank.join();
  epic_softnic_use_network(nullptr);
  EXPECT_EQ(network->packets_lost() > 0, GetParam().lose_one_in != 0);
  EXPECT_GT(network->Now(), 0);
}

// What a child does with its copies of the communicators, and exits with all destructors; its status.
template <typename Action>
int Child(const Action& action) {
  return softnic::testing::InChild([&]() -> bool {
    action();
    std::exit(0);
  });
}

TEST(ForkTest, ChildrenDoNothingToTheGroupOfTheirParent) {
  auto made = std::make_unique<softnic::VirtualNetwork>(softnic::VirtualNetwork::Config{});
  VirtualSwitch a_switch(made.get());
  const auto network = std::move(made);  // as above
  network->AddInterface("virt0", kHostIp);
  epic_softnic_use_network(network.get());
  OneGroupManager manager(&a_switch, engine::Mode::kTranslated);
  std::vector<Communicator> comms(kRanks);
  const auto on_all = [&](const auto& action) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < static_cast<int>(kRanks); ++rank)
      threads.emplace_back([&, rank] { action(rank); });
    for (std::thread& thread : threads) thread.join();
  };
  on_all([&](int rank) {
    const Error error = comms[static_cast<size_t>(rank)].Init(
        {.group = "g", .rank = rank, .size = kRanks, .manager = manager.address()});
    ASSERT_TRUE(error.ok()) << error.message();
  });
  // One call is outstanding while children come and go.
  std::vector<int32_t> data(100, 1);
  Registration registration;
  ASSERT_TRUE(Register(comms[0], data.data(), data.size() * sizeof(int32_t), &registration).ok());
  Request request;
  const auto start = [&] {
    return AllReduceAsync(data.data(), data.data(), data.size(), Datatype::kInt32, RedOp::kSum, comms[0],
                          &request);
  };
  ASSERT_TRUE(start().ok());
  EXPECT_EQ(Child([&] { comms.clear(); }), 0) << "dropped";
  EXPECT_EQ(Child([&] {
              for (Communicator& comm : comms) {
                comm.Abort("a child");
                if (comm.Destroy().code() != ErrorCode::kInvalidArgument) std::_Exit(2);
              }
            }),
            0);
  EXPECT_EQ(Child([&] {
              if (start().code() != ErrorCode::kInvalidArgument || !request.Test() ||
                  request.Wait().code() != ErrorCode::kInvalidArgument ||
                  comms[0].AsyncError().code() != ErrorCode::kInvalidArgument)
                std::_Exit(2);
              registration.Reset();
              request = Request();
            }),
            0);
  EXPECT_EQ(Child([&] {
              static std::vector<Communicator> until_exit;
              until_exit = std::move(comms);
            }),
            0)
      << "exited";
  EXPECT_EQ(Child([&] {
              Communicator own;
              const Error error =
                  own.Init({.group = "of a child", .rank = 0, .size = 1, .manager = manager.address()});
              if (error.code() != ErrorCode::kInvalidArgument ||
                  error.message().find("fork before the first Init") == std::string::npos)
                std::_Exit(2);
            }),
            0)
      << "a group of its own";
  on_all([&](int rank) {
    Error error;
    if (rank == 0) {
      error = request.Wait();
    } else {
      std::vector<int32_t> one(data.size(), 1);
      error = AllReduce(one.data(), one.data(), one.size(), Datatype::kInt32, RedOp::kSum,
                        comms[static_cast<size_t>(rank)]);
    }
    EXPECT_TRUE(error.ok()) << error.message();
  });
  EXPECT_EQ(data, std::vector<int32_t>(data.size(), kRanks));
  registration.Reset();
  on_all([&](int rank) {
    const Error error = comms[static_cast<size_t>(rank)].Destroy();
    EXPECT_TRUE(error.ok()) << error.message();
  });
  epic_softnic_use_network(nullptr);
}

INSTANTIATE_TEST_SUITE_P(Modes, VirtualTimeTest, testing::ValuesIn(Cases()), [](const auto& test) {
  const Case& c = test.param;
  return fmt::format("{}{}{}", NumeralOf(c.mode), c.lose_one_in == 0 ? "" : "WithLoss",
                     c.super_frames ? "AndSuperFrames" : "");
});

}  // namespace
}  // namespace epic
