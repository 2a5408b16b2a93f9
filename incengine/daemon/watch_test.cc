// What the control service says of ports and their neighbours: described, streamed, asked for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "incengine/daemon/daemon_testing.h"

namespace epic::daemon {
namespace {

using ::testing::HasSubstr;

// A hello of a neighbour, as it comes in by p0 of the first shard's switch.
class WatchTest : public DaemonTest {
 protected:
  struct Sink final : engine::FrameSink {
    void Send(PortId, std::span<const uint8_t>) override {}
    void SetTimer(engine::TimerId, Nanos) override {}
  };

  void HearNeighbour() {
    OneShard& shard = *shards_[0];
    std::promise<void> done;
    shard.loop.Post([&] {
      Sink sink;
      engine::Switch other({.address = Ipv4{0x0a00ff02},
                            .mac = {2, 0, 0, 0, 0, 8},
                            .port_count = 1,
                            .arena_bytes = 4096,
                            .hello = {"s2", "1.2.4", {"q0"}}});
      std::vector<uint8_t> hello(roce::kMaxLldpFrameBytes);
      hello.resize(other.neighbours().WriteHello(0, roce::kHelloMac, hello));
      shard.sw.OnPort(0, 0, true, sink);
      shard.sw.OnFrame(0, 0, hello, sink);
      done.set_value();
    });
    done.get_future().wait();
    changes_.Note();
  }
};

TEST_F(WatchTest, APortHasItsNeighbours) {
  EXPECT_EQ(Describe().ports(0).neighbours_size(), 0);
  HearNeighbour();
  const proto::EngineInfo info = Describe();
  ASSERT_EQ(info.ports(0).neighbours_size(), 1);
  const proto::Neighbour& neighbour = info.ports(0).neighbours(0);
  EXPECT_EQ(neighbour.kind(), proto::NEIGHBOUR_SWITCH);
  EXPECT_EQ(neighbour.name(), "s2");
  EXPECT_EQ(neighbour.port(), "q0");
  EXPECT_EQ(neighbour.ip(), 0x0a00ff02u);
  EXPECT_EQ(neighbour.mac(), std::string("\x02\0\0\0\0\x08", 6));
  EXPECT_EQ(neighbour.version(), "1.2.4");
  EXPECT_EQ(neighbour.heard_by(), proto::HEARD_BY_SECOND_ADDRESS);
  EXPECT_EQ(info.ports(0).rate_mbps(), 25000u);
  EXPECT_EQ(info.ports(1).neighbours_size(), 0);
}

TEST_F(WatchTest, WhoWatchesIsToldAtOnceAndOfEachChange) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const auto reader = stub_->Watch(&context, proto::WatchRequest());
  proto::EngineInfo info;
  ASSERT_TRUE(reader->Read(&info));
  EXPECT_EQ(info.name(), "s1");
  EXPECT_EQ(info.ports(0).neighbours_size(), 0);
  HearNeighbour();
  ASSERT_TRUE(reader->Read(&info));
  EXPECT_EQ(info.ports(0).neighbours_size(), 1);
  server_.reset();  // ends the stream
  while (reader->Read(&info)) {
  }
  EXPECT_NE(reader->Finish().error_code(), grpc::DEADLINE_EXCEEDED);
}

TEST_F(WatchTest, OnlySoManyWatch) {
  struct Watcher {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<proto::EngineInfo>> reader;
  };
  std::vector<std::unique_ptr<Watcher>> watchers;
  proto::EngineInfo info;
  for (int i = 0; i < 9; ++i) {
    Watcher& watcher = *watchers.emplace_back(std::make_unique<Watcher>());
    watcher.context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    watcher.reader = stub_->Watch(&watcher.context, proto::WatchRequest());
    EXPECT_EQ(watcher.reader->Read(&info), i < 8) << i;
  }
  EXPECT_EQ(watchers.back()->reader->Finish().error_code(), grpc::RESOURCE_EXHAUSTED);
  for (size_t i = 0; i < 8; ++i) watchers[i]->context.TryCancel();
  for (size_t i = 0; i < 8; ++i) {
    while (watchers[i]->reader->Read(&info)) {
    }
    EXPECT_EQ(watchers[i]->reader->Finish().error_code(), grpc::CANCELLED);
  }
}

TEST_F(WatchTest, LocateSaysWhetherItHasAsked) {
  proto::LocateRequest request;
  proto::LocateReply reply;
  const grpc::Status refused = Call(&Stub::Locate, request, &reply);
  EXPECT_EQ(refused.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("ip:"));
  request.set_ip(kHost0);
  ASSERT_TRUE(Call(&Stub::Locate, request, &reply).ok());
  EXPECT_TRUE(reply.asked());
  request.set_ip(kHost0 + 1);
  ASSERT_TRUE(Call(&Stub::Locate, request, &reply).ok());
  EXPECT_FALSE(reply.asked());
}

}  // namespace
}  // namespace epic::daemon
