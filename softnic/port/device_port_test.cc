#include "softnic/port/device_port.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "roce/frame.h"

namespace epic::softnic {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr Ipv4 kOwn{0x0a0a0001}, kPeer{0x0a0a0002}, kFar{0x0b000001}, kGateway{0x0a0aff01},
    kGroup{0xefc00001};
constexpr roce::MacAddress kOwnMac = {2, 0, 0, 0, 0, 1}, kPeerMac = {2, 0, 0, 0, 0, 2};

// What the device of a test is: the other end of its wire, and its clock.
struct Wire {
  std::deque<Bytes> to_port;
  std::vector<Bytes> from_port;
  bool up = true, there = true, gone = false;
  bool published = false;
  int opened = 0;
  Nanos now = 0;
};

class Sender final : public io::PortSender {
 public:
  explicit Sender(Wire* wire) : wire_(wire) {}
  void Send(std::span<const uint8_t> frame) override {
    wire_->from_port.emplace_back(frame.begin(), frame.end());
  }
  void Send(const roce::FramePieces& packet, Terms) override {
    wire_->from_port.push_back(roce::Join(packet));
  }
  void Send(const roce::SuperFrameView&, bool) override { ADD_FAILURE(); }
  void Flush() override {}
  void Resume() override {}
  bool waiting() const override { return false; }
  void Discard() override {}
  const io::PortCounters& counters() const override { return counters_; }

 private:
  Wire* wire_;
  io::PortCounters counters_;
};

class FakePort final : public io::FramePort {
 public:
  explicit FakePort(Wire* wire) : wire_(wire) { sender_ = std::make_unique<Sender>(wire); }
  std::vector<int> fds() const override { return {}; }
  bool polled() const override { return true; }
  StatusOr<int> Receive(int max_packets, FrameHandler handler, void* user) override {
    if (wire_->gone) return MakeStatus(StatusCode::kUnavailable, "gone");
    int count = 0;
    for (; count < max_packets && !wire_->to_port.empty(); ++count) {
      const Bytes frame = std::move(wire_->to_port.front());
      wire_->to_port.pop_front();
      handler(user, {.bytes = frame});
    }
    return count;
  }
  bool keeps_received() const override { return false; }
  void Release() override {}
  uint32_t mtu() const override { return 4200; }
  bool super_frames() const override { return false; }

 private:
  uint64_t CountDropped() override { return 0; }
  Wire* wire_;
};

class FakeDevice final : public DevicePort::Device {
 public:
  explicit FakeDevice(Wire* wire) : wire_(wire) {}
  StatusOr<std::unique_ptr<io::FramePort>> Open() override {
    if (!wire_->there) return MakeStatus(StatusCode::kUnavailable, "nobody listens");
    ++wire_->opened;
    wire_->gone = false;
    return StatusOr<std::unique_ptr<io::FramePort>>(std::make_unique<FakePort>(wire_));
  }
  bool LinkIsUp() override { return wire_->up; }
  void Publish(bool up) override { wire_->published = up; }
  Nanos Now() const override { return wire_->now; }

 private:
  Wire* wire_;
};

class DevicePortTest : public ::testing::Test {
 protected:
  void Open(std::optional<Ipv4> gateway = std::nullopt) {
    auto port = DevicePort::Open(std::make_unique<FakeDevice>(&wire_),
                                 {.ip = kOwn, .prefix_bits = 16, .gateway = gateway, .mac = kOwnMac}, 0);
    ASSERT_TRUE(port.ok()) << port.status();
    port_ = *std::move(port);
    wire_.from_port.clear();
  }
  static roce::Packet PacketTo(Ipv4 to, Ipv4 from = kOwn) {
    roce::Packet packet;
    packet.src_ip = from;
    packet.dst_ip = to;
    packet.bth.opcode = roce::Opcode::kUdSendOnly;
    packet.bth.dest_qp = Qpn{17};
    packet.payload = kPayload;
    return packet;
  }
  // As it comes by the wire.
  static Bytes FrameOf(const roce::Packet& packet) {
    roce::FramePieces pieces;
    roce::WritePieces({.dst = kOwnMac, .src = kPeerMac, .ip_id = 0, .vlan = {}}, packet, nullptr, &pieces);
    return roce::Join(pieces);
  }
  void Comes(const roce::Arp& arp) {
    Bytes frame(roce::kMaxArpFrameBytes);
    frame.resize(roce::WriteArp(arp, frame));
    wire_.to_port.push_back(frame);
    Receive();
  }
  std::vector<Ip> Receive() {
    std::vector<Ip> to;
    port_->Receive(
        64,
        [](void* user, const roce::Packet& packet) {
          EXPECT_TRUE(std::ranges::equal(packet.payload, kPayload));
          static_cast<std::vector<Ip>*>(user)->push_back(packet.dst_ip);
        },
        &to);
    return to;
  }
  roce::Arp LastArp() {
    return wire_.from_port.empty() ? roce::Arp{}
                                   : roce::ParseArp(wire_.from_port.back()).value_or(roce::Arp{});
  }
  void Answer(Ipv4 ip) {
    Comes({.dst = kOwnMac,
           .src = kPeerMac,
           .op = roce::ArpOp::kReply,
           .sender_mac = kPeerMac,
           .sender_ip = ip,
           .target_mac = kOwnMac,
           .target_ip = kOwn});
  }
  std::vector<PortNews> News() {
    wire_.now += kSecond;
    std::vector<PortNews> all;
    for (; const auto news = port_->FirstNews(); port_->TakeNews()) all.push_back(*news);
    return all;
  }

  static constexpr std::array<uint8_t, 4> kPayload = {1, 2, 3, 4};
  Wire wire_;
  std::unique_ptr<DevicePort> port_;
};

TEST_F(DevicePortTest, AnswersForItsAddressAlone) {
  Open();
  roce::Arp asked{.dst = roce::kBroadcastMac,
                  .src = kPeerMac,
                  .op = roce::ArpOp::kRequest,
                  .sender_mac = kPeerMac,
                  .sender_ip = kPeer,
                  .target_ip = kOwn};
  Comes(asked);
  EXPECT_EQ(LastArp().op, roce::ArpOp::kReply);
  EXPECT_EQ(LastArp().sender_mac, kOwnMac);
  EXPECT_EQ(LastArp().dst, kPeerMac);
  wire_.from_port.clear();
  asked.target_ip = kPeer;
  Comes(asked);
  EXPECT_TRUE(wire_.from_port.empty());
}

TEST_F(DevicePortTest, AsksForOthersAndSendsThen) {
  Open();
  port_->Send(PacketTo(kPeer));
  EXPECT_EQ(LastArp().target_ip, kPeer);
  EXPECT_EQ(port_->counters().unresolved, 1u);
  EXPECT_EQ(port_->Prepare(kPeer), Port::Reach::kResolving);
  Answer(kPeer);
  EXPECT_EQ(port_->Prepare(kPeer), Port::Reach::kReady);
  port_->Send(PacketTo(kPeer));
  roce::FrameAddress address;
  roce::Packet sent;
  ASSERT_EQ(roce::ParseFrame(wire_.from_port.back(), &address, &sent), roce::ParseResult::kOk);
  EXPECT_EQ(address.dst, kPeerMac);
  EXPECT_EQ(address.src, kOwnMac);
}

TEST_F(DevicePortTest, AnAnswerThatNobodyAskedForIsNotBelieved) {
  Open();
  Answer(kPeer);
  EXPECT_EQ(port_->Prepare(kPeer), Port::Reach::kResolving);
  wire_.now += 2 * kSecond;
  Answer(kPeer);
  EXPECT_EQ(port_->Prepare(kPeer), Port::Reach::kResolving);
}

TEST_F(DevicePortTest, OthersAreBehindTheGateway) {
  Open();
  EXPECT_EQ(port_->Prepare(kFar), Port::Reach::kNoRoute);
  EXPECT_TRUE(wire_.from_port.empty());
  Open(kGateway);
  EXPECT_EQ(port_->Prepare(kFar), Port::Reach::kResolving);
  EXPECT_EQ(LastArp().target_ip, kGateway);
  Answer(kGateway);
  EXPECT_EQ(port_->Prepare(kFar), Port::Reach::kReady);
}

TEST_F(DevicePortTest, WhatSwitchesFloodIsNotTaken) {
  Open();
  wire_.to_port = {FrameOf(PacketTo(kOwn, kPeer)), FrameOf(PacketTo(kPeer, kFar)),
                   FrameOf(PacketTo(kGroup, kPeer)), FrameOf(PacketTo(kGroup, kOwn))};
  EXPECT_EQ(Receive(), (std::vector<Ip>{kOwn, kGroup}));
  EXPECT_EQ(port_->counters().others, 2u);
}

TEST_F(DevicePortTest, GroupsReachMembersHere) {
  Open();
  port_->Send(PacketTo(kGroup));
  EXPECT_EQ(wire_.from_port.size(), 1u);
  EXPECT_EQ(Receive(), std::vector<Ip>{kGroup});
  port_->SendByWireAlone(kGroup, true);
  port_->Send(PacketTo(kGroup));
  EXPECT_EQ(wire_.from_port.size(), 2u);
  EXPECT_TRUE(Receive().empty());
}

TEST_F(DevicePortTest, ALinkThatGoesAndComesIsTold) {
  Open();
  EXPECT_TRUE(wire_.published);
  EXPECT_TRUE(News().empty());
  wire_.up = false;
  EXPECT_EQ(News(), std::vector<PortNews>{PortNews::kError});
  EXPECT_FALSE(wire_.published);
  wire_.up = true;
  EXPECT_EQ(News(), std::vector<PortNews>{PortNews::kActive});
  EXPECT_EQ(LastArp().target_ip, kOwn);  // says where it is
}

TEST_F(DevicePortTest, ADeviceOfNoMoreUseIsOpenedAnew) {
  Open();
  wire_.gone = true;
  wire_.there = false;
  EXPECT_TRUE(Receive().empty());
  EXPECT_EQ(News(), std::vector<PortNews>{PortNews::kError});
  port_->Send(PacketTo(kPeer));
  EXPECT_EQ(wire_.opened, 1);
  wire_.there = true;
  EXPECT_EQ(News(), std::vector<PortNews>{PortNews::kActive});
  EXPECT_EQ(wire_.opened, 2);
}

TEST_F(DevicePortTest, OneWithoutAPeerIsThereAndDown) {
  wire_.there = false;
  Open();
  EXPECT_FALSE(wire_.published);
  EXPECT_TRUE(Receive().empty());
}

TEST_F(DevicePortTest, WhoSleepsByItsDescriptorWakesAgain) {
  Open();
  pollfd woken{port_->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&woken, 1, -1), 1);
  port_->TakeErrors();
  EXPECT_EQ(poll(&woken, 1, 0), 0);
}

}  // namespace
}  // namespace epic::softnic
