// Two memifs of one process, one at each end of a socket.
#include "io/dpdk/ports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include "base/check.h"
#include "io/dpdk/eal.h"
#include "io/dpdk/guard.h"

namespace epic::io::dpdk {
namespace {

using testing::HasSubstr;

constexpr uint32_t kMtu = 4200;
using Frame = std::vector<uint8_t>;

// For what another thread, or the driver's, does; longer than a busy machine needs.
void Await(const char* what, const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << what;
    std::this_thread::yield();
  }
}

// Ports that are there beside the others.
constexpr int kMore = 8;
std::string MoreName(int number) { return "more" + std::to_string(number); }

// DPDK starts once in a process.
class Sources : public testing::Environment {
 public:
  void SetUp() override {
    std::string folder = testing::TempDir() + "epic-dpdk-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    const std::string socket = ",socket=" + folder + "/a";
    std::vector<PortDevice> devices = {{"server", "net_memif0" + socket},
                                       {"client", "net_memif1,role=client" + socket},
                                       {"lonely", "net_memif2,role=client,socket=" + folder + "/nobody"},
                                       {"unknown", "net_xyzzy0"},
                                       {"nowhere", "net_memif4,socket=" + folder + "/no/such/folder/c"}};
    for (int i = 0; i < kMore; ++i)
      devices.push_back({MoreName(i), "net_memif1" + std::to_string(i) + ",socket=" + folder + "/more" +
                                          std::to_string(i)});
    auto made = DpdkPorts::Make(
        {.devices = devices, .mtu = kMtu, .say = [](DpdkOptions::Level, const std::string&) {}});
    ASSERT_TRUE(made.ok()) << made.status();
    source_ = *std::move(made);
  }
  void TearDown() override {
    source_.reset();
    EXPECT_FALSE(std::filesystem::exists(folder_ / "a"));  // nothing is left behind
    std::filesystem::remove_all(folder_);
  }
  static PortSource& Get() { return *source_; }
  static const std::filesystem::path& Folder() { return folder_; }

 private:
  static inline std::unique_ptr<PortSource> source_;
  static inline std::filesystem::path folder_;
};

const auto* const kSources = testing::AddGlobalTestEnvironment(new Sources);

std::unique_ptr<FramePort> Open(const std::string& name) {
  auto opened = Sources::Get().Open({.name = name});
  EXPECT_TRUE(opened.ok()) << opened.status();
  return opened.ok() ? *std::move(opened) : nullptr;
}

// With its link. Where the server has not noticed yet that the last one has gone it is tried again.
std::unique_ptr<FramePort> OpenClient() {
  std::unique_ptr<FramePort> port;
  Await("the server takes its client", [&port] {
    if (port == nullptr) {
      auto opened = Sources::Get().Open({.name = "client"});
      if (opened.ok()) port = *std::move(opened);
    }
    if (port == nullptr || Sources::Get().State("client").up) return port != nullptr;
    if (!port->Receive(
                 64, [](void*, const ReceivedFrame&) {}, nullptr)
             .ok())
      port.reset();
    return false;
  });
  return port;
}

std::string WhyNot(const std::string& name, StatusCode code) {
  const auto opened = Sources::Get().Open({.name = name});
  EXPECT_EQ(opened.status().code(), code) << opened.status();
  return std::string(opened.status().message());
}

// All that has come.
std::vector<Frame> Receive(FramePort& port) {
  std::vector<Frame> frames;
  const auto take = [](void* to, const ReceivedFrame& frame) {
    static_cast<std::vector<Frame>*>(to)->emplace_back(frame.bytes.begin(), frame.bytes.end());
  };
  while (true) {
    const auto count = port.Receive(64, take, &frames);
    port.Release();
    if (!count.ok() || *count == 0) return frames;
  }
}

Frame MakeFrame(size_t bytes, size_t number) {
  Frame frame(bytes);
  for (size_t i = 0; i < bytes; ++i) frame[i] = static_cast<uint8_t>(number * 131 + i * 7 + (i >> 8));
  return frame;
}

bool IsUp(const std::string& name) { return Sources::Get().State(name).up; }

class DpdkPortsTest : public testing::Test {
 protected:
  void SetUp() override {
    server_ = Open("server");
    client_ = OpenClient();
    ASSERT_TRUE(server_ != nullptr && client_ != nullptr);
    Await("the link is up", [] { return IsUp("server") && IsUp("client"); });
  }
  // A server's frames leave when its client has looked once.
  static void Exchange(FramePort& from, FramePort& to, size_t count) {
    std::vector<Frame> sent, received;
    const auto take = [&] {
      from.sender().Resume();
      for (Frame& frame : Receive(to)) received.push_back(std::move(frame));
    };
    for (size_t i = 0; i < count; ++i) {
      sent.push_back(MakeFrame(i % 7 == 0 ? MaxFrameBytes(kMtu) : 60 + i * 37 % 4000, i));
      from.sender().Send(sent.back());
      if (i % 50 == 0) take();
    }
    Await("all have come", [&] {
      take();
      return received.size() >= sent.size();
    });
    EXPECT_TRUE(received == sent);
  }

  std::unique_ptr<FramePort> server_, client_;
};

TEST_F(DpdkPortsTest, FramesOfAllLengthsCrossBothWaysInTheirOrder) {
  Exchange(*server_, *client_, 1500);
  Exchange(*client_, *server_, 1500);
  for (FramePort* port : {server_.get(), client_.get()}) {
    EXPECT_EQ(port->counters().tx_failed + port->counters().tx_no_buffer + port->counters().rx_too_long, 0u);
    EXPECT_EQ(port->mtu(), kMtu);
  }
}

TEST_F(DpdkPortsTest, APacketInPiecesLeavesWhole) {
  const Frame payload = MakeFrame(4096, 1);
  roce::FramePieces packet{};
  packet.head_size = 54;
  for (size_t i = 0; i < packet.head_size; ++i) packet.head_bytes[i] = static_cast<uint8_t>(i);
  packet.payload = payload;
  packet.tail_bytes = {1, 2, 3, 4};
  packet.tail_size = 4;
  server_->sender().Send(packet, {.joins = true, .stays = true});
  std::vector<Frame> received;
  Await("it has come", [&] {
    server_->sender().Resume();
    return !(received = Receive(*client_)).empty();
  });
  EXPECT_TRUE(received.size() == 1 && received[0] == roce::Join(packet));
}

TEST_F(DpdkPortsTest, WhatIsLongerThanTheMtuIsCountedAndDoesNotLeave) {
  client_->sender().Send(MakeFrame(MaxFrameBytes(kMtu) + 1, 0));
  EXPECT_EQ(client_->counters().tx_too_long, 1u);
  Exchange(*client_, *server_, 1);
}

// Of what a peer does not take, a ring and a queue hold much; the rest is counted, and what is held comes in
// the end.
TEST_F(DpdkPortsTest, WhatThereIsNoRoomForIsCountedAndTheRestComes) {
  constexpr size_t kFrames = 5000;
  for (size_t i = 0; i < kFrames; ++i) server_->sender().Send(MakeFrame(60, i));
  server_->sender().Flush();
  EXPECT_TRUE(server_->sender().waiting());
  const uint64_t lost = server_->counters().tx_no_buffer;
  EXPECT_GT(lost, 0u);
  std::vector<Frame> received;
  Await("what was held has come", [&] {
    server_->sender().Resume();
    for (Frame& frame : Receive(*client_)) received.push_back(std::move(frame));
    return received.size() + lost >= kFrames;
  });
  EXPECT_EQ(received.size() + lost, kFrames);
  EXPECT_FALSE(server_->sender().waiting());
  for (size_t i = 0; i < received.size(); ++i) ASSERT_TRUE(received[i] == MakeFrame(60, i)) << i;
}

// Frames that are kept take all buffers there are; the others stay in the peer's ring, and come later.
TEST_F(DpdkPortsTest, WithoutABufferNothingIsLost) {
  constexpr size_t kFrames = 1900;
  const auto count = [](void* to, const ReceivedFrame&) { ++*static_cast<size_t*>(to); };
  Exchange(*server_, *client_, 1);  // from now on its ring takes frames, too
  size_t received = 0;
  for (size_t i = 0; i < kFrames; ++i) server_->sender().Send(MakeFrame(60, i));
  server_->sender().Flush();
  // Never released.
  Await("no buffer is left", [&] {
    server_->sender().Resume();
    const auto got = client_->Receive(64, count, &received);
    return received > 500 && got.ok() && *got == 0;
  });
  EXPECT_GT(received, 500u);
  EXPECT_LT(received, kFrames);
  client_->Release();
  Await("the others come", [&] {
    server_->sender().Resume();
    EXPECT_TRUE(client_->Receive(64, count, &received).ok());
    client_->Release();
    return received >= kFrames;
  });
  EXPECT_EQ(received, kFrames);
}

TEST_F(DpdkPortsTest, AServerSeesItsClientGoAndComeAgain) {
  const uint32_t before = *Sources::Get().TimesDown("server");
  client_.reset();
  Await("the link is down", [] { return !IsUp("server"); });
  EXPECT_EQ(*Sources::Get().TimesDown("server"), before + 1);
  server_->sender().Send(MakeFrame(60, 0));
  server_->sender().Flush();
  EXPECT_EQ(server_->counters().tx_failed, 1u);
  EXPECT_FALSE(server_->sender().waiting());
  client_ = OpenClient();
  Await("the link is up again", [] { return IsUp("server"); });
  Exchange(*server_, *client_, 100);
  Exchange(*client_, *server_, 100);
}

TEST_F(DpdkPortsTest, AClientSaysThatItsServerHasGoneAndFindsItAgain) {
  server_.reset();
  const auto ignore = [](void*, const ReceivedFrame&) {};
  Status gone;
  Await("it says so", [&] {
    gone = client_->Receive(64, ignore, nullptr).status();
    return !gone.ok();
  });
  EXPECT_EQ(gone.code(), StatusCode::kUnavailable);
  client_.reset();
  server_ = Open("server");
  client_ = OpenClient();
  Await("the link is up again", [] { return IsUp("server"); });
  Exchange(*client_, *server_, 100);
}

TEST_F(DpdkPortsTest, WhatCannotBeOpenedSaysWhy) {
  EXPECT_THAT(WhyNot("lonely", StatusCode::kUnavailable), HasSubstr("nobody listens at /"));
  EXPECT_THAT(WhyNot("unknown", StatusCode::kNotFound), HasSubstr("port unknown: net_xyzzy0: "));
  EXPECT_THAT(WhyNot("nowhere", StatusCode::kNotFound), HasSubstr("there is no directory"));
}

TEST_F(DpdkPortsTest, MemoryThatIsGoneEndsACallAndNotTheProcess) {
  const long page = sysconf(_SC_PAGESIZE);
  void* const memory = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  volatile auto* const byte = static_cast<volatile uint8_t*>(memory);
  EXPECT_TRUE(WithoutFault([&] { *byte = 1; }));
  ASSERT_EQ(munmap(memory, page), 0);
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(WithoutFault([&] { *byte = 1; }));
  EXPECT_DEATH(*byte = 1, "");
}

// Driver's threads greet whom they have taken; who has gone by then must not matter to anybody.
TEST(PortsTest, WhoGoesAtOnceDisturbsNobody) {
  const std::unique_ptr<FramePort> server = Open("server");
  for (int i = 0; i < 300; ++i) {
    const Descriptor peer(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    const std::string path = Sources::Folder() / "a";
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    // Its queue is short, and refuses those that come too fast.
    while (connect(peer.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      ASSERT_EQ(errno, EAGAIN);
  }
  const std::unique_ptr<FramePort> client = OpenClient();
  Await("the server has a client", [] { return Sources::Get().State("server").up; });
}

TEST(PortsTest, ThereIsMemoryForAllThatWereAskedFor) {
  std::vector<std::unique_ptr<FramePort>> open;
  for (const char* name : {"server", "client"}) open.push_back(Open(name));
  for (int i = 0; i < kMore; ++i) open.push_back(Open(MoreName(i)));
}

TEST(EalArgumentsTest, WhatTheOperatorSaysTakesThePlaceOfWhatWeWould) {
  const std::vector<Device> nic = {{.name = "0000:3b:00.0", .arguments = ",mprq_en=1", .pci = true}};
  using testing::AllOf;
  using testing::Contains;
  using testing::Not;
  const auto plain = EalArguments({}, {}, 64 << 20, false);
  for (const char* word : {"--no-shconf", "--no-huge", "--no-pci", "-l", "64"})
    EXPECT_THAT(plain, Contains(word));
  EXPECT_THAT(EalArguments({}, nic, 64 << 20, true), Contains("0000:3b:00.0,mprq_en=1"));
  EXPECT_THAT(EalArguments({}, nic, 64 << 20, true),
              AllOf(Contains("--in-memory"), Not(Contains("--no-huge"))));
  const auto given =
      EalArguments({.eal_arguments = "-l3 --file-prefix=x -m 512 --no-pci"}, nic, 64 << 20, false);
  EXPECT_THAT(given, testing::IsSupersetOf({"--no-huge", "-l3", "--file-prefix=x", "512"}));
  for (const char* word : {"--in-memory", "--no-shconf", "-a", "-l", "64"})
    EXPECT_THAT(given, Not(Contains(word)));
}

}  // namespace
}  // namespace epic::io::dpdk
