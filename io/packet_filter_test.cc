// The filters of packet sockets, run by a small interpreter here and by the kernel, which must agree.
#include "io/packet_filter.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "roce/arp.h"
#include "roce/frame.h"
#include "roce/frame_testing.h"

namespace epic::io {
namespace {

using Bytes = std::vector<uint8_t>;
using Program = std::vector<sock_filter>;

constexpr uint16_t kPort = roce::kUdpPort;

// What a frame's classic BPF program returns: the bytes to keep, 0 for a frame that is dropped. Nothing for a
// program that the kernel would refuse. A load from behind the end drops the frame. vlan_tag is what the
// kernel keeps beside it.
std::optional<uint32_t> Interpret(const Program& program, const Bytes& frame, uint16_t vlan_tag = 0) {
  constexpr uint32_t kVlanTag = static_cast<uint32_t>(SKF_AD_OFF) + SKF_AD_VLAN_TAG;
  if (program.size() > BPF_MAXINSNS) return std::nullopt;
  uint32_t accumulator = 0, index = 0;
  const auto load = [&](uint64_t at, size_t bytes, uint32_t* to) {
    if (at + bytes > frame.size()) return false;
    *to = 0;
    for (size_t i = 0; i < bytes; ++i) *to = *to << 8 | frame[at + i];
    return true;
  };
  for (size_t at = 0; at < program.size(); ++at) {
    const sock_filter& i = program[at];
    bool loaded = true;
    switch (i.code) {
      case BPF_LD | BPF_W | BPF_LEN:
        accumulator = static_cast<uint32_t>(frame.size());
        break;
      case BPF_LD | BPF_W | BPF_ABS:
        if (i.k == kVlanTag) {
          accumulator = vlan_tag;
        } else {
          loaded = load(i.k, 4, &accumulator);
        }
        break;
      case BPF_LD | BPF_B | BPF_ABS:
        loaded = load(i.k, 1, &accumulator);
        break;
      case BPF_LD | BPF_H | BPF_ABS:
        loaded = load(i.k, 2, &accumulator);
        break;
      case BPF_LD | BPF_H | BPF_IND:
        loaded = load(uint64_t{i.k} + index, 2, &accumulator);
        break;
      case BPF_LD | BPF_W | BPF_IND:
        loaded = load(uint64_t{i.k} + index, 4, &accumulator);
        break;
      case BPF_LDX | BPF_W | BPF_IMM:
        index = i.k;
        break;
      case BPF_LDX | BPF_B | BPF_MSH:
        loaded = load(i.k, 1, &index);
        index = (index & 0xf) * 4;
        break;
      case BPF_ALU | BPF_AND | BPF_K:
        accumulator &= i.k;
        break;
      case BPF_ALU | BPF_RSH | BPF_K:
        accumulator >>= i.k;
        break;
      case BPF_ALU | BPF_ADD | BPF_K:
        accumulator += i.k;
        break;
      case BPF_ALU | BPF_MOD | BPF_K:
        if (i.k == 0) return std::nullopt;
        accumulator %= i.k;
        break;
      case BPF_MISC | BPF_TAX:
        index = accumulator;
        break;
      case BPF_MISC | BPF_TXA:
        accumulator = index;
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        at += accumulator == i.k ? i.jt : i.jf;
        break;
      case BPF_JMP | BPF_JGE | BPF_K:
        at += accumulator >= i.k ? i.jt : i.jf;
        break;
      case BPF_JMP | BPF_JGE | BPF_X:
        at += accumulator >= index ? i.jt : i.jf;
        break;
      case BPF_JMP | BPF_JGT | BPF_K:
        at += accumulator > i.k ? i.jt : i.jf;
        break;
      case BPF_RET | BPF_K:
        return i.k;
      default:
        return std::nullopt;
    }
    if (!loaded) return 0;
  }
  return std::nullopt;  // it ran past its end
}

// A socket with the program, at which frames arrive as datagrams.
class Kernel {
 public:
  explicit Kernel(Program program) {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fds_.data()), 0);
    const sock_fprog filter{static_cast<uint16_t>(program.size()), program.data()};
    error_ = setsockopt(fds_[0], SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) == 0 ? 0 : errno;
  }
  ~Kernel() {
    for (const int fd : fds_) close(fd);
  }
  int error() const { return error_; }
  bool Passes(const Bytes& frame) {
    EXPECT_EQ(send(fds_[1], frame.data(), frame.size(), 0), static_cast<ssize_t>(frame.size()));
    Bytes got(frame.size() + 1);
    const ssize_t bytes = recv(fds_[0], got.data(), got.size(), MSG_DONTWAIT);
    EXPECT_TRUE(bytes == static_cast<ssize_t>(frame.size()) || bytes == -1);
    return bytes > 0;
  }

 private:
  std::array<int, 2> fds_{};
  int error_ = 0;
};

Bytes FrameTo(Qpn qpn) {
  const std::array<uint8_t, 8> payload{};
  roce::Packet packet;
  packet.src_ip = Ipv4{0x0a000001};
  packet.dst_ip = Ipv4{0x0a000002};
  packet.bth.opcode = roce::Opcode::kRcSendOnly;
  packet.bth.dest_qp = qpn;
  packet.payload = payload;
  Bytes frame(roce::FrameBytes(packet));
  roce::WriteFrame({}, packet, frame);
  return frame;
}

Bytes Ipv6FrameTo(Qpn qpn) {
  constexpr std::array<uint8_t, 16> kAddress = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  const std::array<uint8_t, 8> payload{};
  roce::Packet packet;
  packet.src_ip = packet.dst_ip = Ip::Of(kAddress.data());
  packet.bth.dest_qp = qpn;
  packet.payload = payload;
  Bytes frame(roce::FrameBytes(packet));
  roce::WriteFrame({}, packet, frame);
  return frame;
}

Bytes ArpFrame(roce::ArpOp op) {
  Bytes frame(roce::kMaxArpFrameBytes);
  frame.resize(roce::WriteArp({.op = op}, frame));
  return frame;
}

Bytes With(Bytes frame, size_t at, uint8_t byte) {
  frame[at] = byte;
  return frame;
}

// Eight bytes of options behind the IPv4 header.
Bytes WithIpOptions(Bytes frame) {
  frame[14] = 0x47;
  frame.insert(frame.begin() + 34, 8, 1);
  return frame;
}

// First of 65,536 numbers, less the first and the last: 0 and 0xffff have the special ones.
std::vector<uint16_t> Blocks(size_t count) {
  std::vector<uint16_t> blocks(count);
  for (size_t i = 0; i < count; ++i) blocks[i] = static_cast<uint16_t>(3 + 7 * i);
  return blocks;
}
constexpr Qpn First(uint16_t block) { return Qpn{uint32_t{block} << 8}; }
constexpr Qpn Last(uint16_t block) { return Qpn{uint32_t{block} << 8 | 0xff}; }

struct Case {
  std::string what;
  Bytes frame;
  bool passes;
};

// With a block that the filter has, or without any.
std::vector<Case> CasesOf(std::optional<uint16_t> block, bool arp_replies) {
  const bool any = block.has_value();
  const Bytes ours = FrameTo(First(block.value_or(1)));
  const Bytes ours6 = Ipv6FrameTo(First(block.value_or(1)));
  return {
      {"ARP reply", ArpFrame(roce::ArpOp::kReply), arp_replies},
      {"ARP request", ArpFrame(roce::ArpOp::kRequest), false},
      {"first QPN of a block", ours, any},
      {"last QPN of a block", FrameTo(Last(block.value_or(1))), any},
      {"QPN before the block", FrameTo(Qpn{Raw(First(block.value_or(1))) - 1}), false},
      {"QPN behind the block", FrameTo(Qpn{Raw(Last(block.value_or(1))) + 1}), false},
      {"special QPN", FrameTo(Qpn{1}), false},
      {"multicast", FrameTo(Qpn{0xffffff}), true},
      {"QPN beside the multicast one", FrameTo(Qpn{0xfffffe}), false},
      {"reserved bits beside the QPN", With(ours, 46, 0xff), any},
      {"IPv4 options", WithIpOptions(ours), any},
      {"first fragment", With(ours, 20, 0x20), false},
      {"later fragment", With(ours, 21, 1), false},
      {"do not fragment", With(ours, 20, 0x40), any},
      {"TCP", With(ours, 23, 6), false},
      {"another UDP port", With(ours, 37, 0), false},
      {"IPv4 said to be IPv6", With(With(ours, 12, 0x86), 13, 0xdd), false},
      {"IPv6, first QPN of a block", ours6, any},
      {"IPv6, last QPN of a block", Ipv6FrameTo(Last(block.value_or(1))), any},
      {"IPv6, QPN before the block", Ipv6FrameTo(Qpn{Raw(First(block.value_or(1))) - 1}), false},
      {"IPv6, QPN behind the block", Ipv6FrameTo(Qpn{Raw(Last(block.value_or(1))) + 1}), false},
      {"IPv6, multicast", Ipv6FrameTo(Qpn{0xffffff}), true},
      {"IPv6, a fragment", With(ours6, 20, 44), false},
      {"IPv6, another UDP port", With(ours6, 57, 0), false},
      {"IPv6, a frame that ends in the BTH", Bytes(ours6.begin(), ours6.begin() + 68), false},
      {"IPv6 said to be IPv4", With(With(ours6, 12, 0x08), 13, 0), false},
      {"neither", With(ours, 12, 0x88), false},
      {"a frame that ends in the BTH", Bytes(ours.begin(), ours.begin() + 48), false},
      {"a frame that ends in Ethernet's header", Bytes(ours.begin(), ours.begin() + 10), false},
  };
}

class RoceFilterTest : public ::testing::TestWithParam<size_t> {};

TEST_P(RoceFilterTest, PassesWhatItShould) {
  const std::vector<uint16_t> blocks = Blocks(GetParam());
  for (const bool arp_replies : {true, false}) {
    const Program program = RoceFilter({.udp_port = kPort, .arp_replies = arp_replies}, blocks);
    Kernel kernel(program);
    ASSERT_EQ(kernel.error(), 0) << program.size() << " instructions";
    std::vector<std::optional<uint16_t>> looked_at(blocks.begin(), blocks.end());
    if (blocks.empty()) looked_at.emplace_back();
    for (const auto block : looked_at) {
      for (const Case& one : CasesOf(block, arp_replies)) {
        SCOPED_TRACE(one.what + ", block " + std::to_string(block.value_or(0)));
        EXPECT_EQ(Interpret(program, one.frame), one.passes ? UINT32_MAX : 0);
        EXPECT_EQ(kernel.Passes(one.frame), one.passes);
      }
    }
  }
}

// The distance over all blocks does not fit into 8 bits from 241 of them on.
INSTANTIATE_TEST_SUITE_P(Blocks, RoceFilterTest,
                         ::testing::Values(0, 1, 2, 239, 240, 241, 244, 255, kMaxFilterBlocks),
                         ::testing::PrintToStringParamName());

TEST(LengthFilterTest, PassesFramesOfTheseLengths) {
  const FrameLengths lengths{.min_bytes = 60, .max_bytes = 100};
  const Program all = LengthFilter(lengths);
  const Program ours = RoceFilter({.udp_port = kPort, .lengths = lengths}, Blocks(2));
  Kernel kernel_all(all), kernel_ours(ours);
  for (const size_t bytes : {58, 59, 60, 100, 101}) {
    const bool passes = bytes >= 60 && bytes <= 100;
    Bytes frame = FrameTo(First(Blocks(2)[1]));
    frame.resize(bytes);
    EXPECT_EQ(Interpret(all, frame), passes ? UINT32_MAX : 0) << bytes;
    EXPECT_EQ(Interpret(ours, frame), passes ? UINT32_MAX : 0) << bytes;
    EXPECT_EQ(kernel_all.Passes(frame), passes) << bytes;
    EXPECT_EQ(kernel_ours.Passes(frame), passes) << bytes;
  }
}

// The programs of a switch's shards, as the kernel has them and as they are.
class Shards {
 public:
  explicit Shards(uint32_t count, const FrameLengths& lengths = {}) {
    for (uint32_t number = 0; number < count; ++number) {
      programs_.push_back(ShardFilter(
          {.number = number, .count = count, .mac = kSwitchMac, .address = Ipv4{0x0a000002}}, lengths));
      kernels_.push_back(std::make_unique<Kernel>(programs_.back()));
      EXPECT_EQ(kernels_.back()->error(), 0);
    }
  }
  // The one shard that takes the frame; -1 if none does, or more than one.
  int Of(const Bytes& frame, uint16_t vlan_tag = 0) {
    int taken_by = -1;
    for (size_t number = 0; number < programs_.size(); ++number) {
      const auto kept = Interpret(programs_[number], frame, vlan_tag);
      EXPECT_TRUE(kept == UINT32_MAX || kept == 0u);
      // What arrives at the kernel here has no tag beside it.
      if (vlan_tag == 0) {
        EXPECT_EQ(kernels_[number]->Passes(frame), kept == UINT32_MAX);
      }
      if (kept != UINT32_MAX) continue;
      if (taken_by >= 0) return -1;
      taken_by = static_cast<int>(number);
    }
    return taken_by;
  }

  static constexpr roce::MacAddress kSwitchMac = {2, 0, 0, 0, 0xff, 1};

 private:
  std::vector<Program> programs_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
};

Bytes FrameToSwitch(Qpn qpn) {
  Bytes frame = FrameTo(qpn);
  std::ranges::copy(Shards::kSwitchMac, frame.begin());
  return frame;
}

class ShardFilterTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(ShardFilterTest, APacketToTheSwitchIsTakenByTheShardOfItsQueuePair) {
  const uint32_t count = GetParam();
  Shards shards(count);
  for (uint32_t low = 0; low < 256; ++low) {
    const int due = static_cast<int>(low % count);
    EXPECT_EQ(ShardOf(Qpn{0x123400 | low}, count), low % count);
    for (const uint32_t high : {0u, 0x100000u, 0xffff00u}) {
      const Bytes frame = FrameToSwitch(Qpn{high | low});
      EXPECT_EQ(shards.Of(frame), due) << high + low;
    }
    const Bytes frame = FrameToSwitch(Qpn{0x100000 | low});
    EXPECT_EQ(shards.Of(WithIpOptions(frame)), due) << low;
    EXPECT_EQ(shards.Of(frame, 0xe000), due) << low << " with a priority tag";
    EXPECT_EQ(shards.Of(Bytes(frame.begin(), frame.begin() + 50)), due) << low << ", ends behind the QPN";
  }
}

TEST_P(ShardFilterTest, EverythingElseIsTakenByShard0) {
  Shards shards(GetParam());
  const Bytes ours = FrameToSwitch(Qpn{0x100001});
  const std::pair<const char*, Bytes> rest[] = {
      {"ARP reply", ArpFrame(roce::ArpOp::kReply)},
      {"ARP request", ArpFrame(roce::ArpOp::kRequest)},
      {"first fragment", With(ours, 20, 0x20)},
      {"later fragment", With(ours, 21, 1)},
      {"TCP", With(ours, 23, 6)},
      {"another UDP port", With(ours, 37, 0)},
      {"another IP address", With(ours, 33, 3)},
      {"another MAC address", With(ours, 0, 4)},
      {"another MAC address at its end", With(ours, 5, 2)},
      {"IPv6", With(With(ours, 12, 0x86), 13, 0xdd)},
      {"a tag within the frame", With(With(ours, 12, 0x81), 13, 0)},
      {"options up to the end", With(Bytes(ours.begin(), ours.begin() + 60), 14, 0x4f)},
  };
  for (const auto& [what, frame] : rest) EXPECT_EQ(shards.Of(frame), 0) << what;
  EXPECT_EQ(shards.Of(ours, 5), 0) << "in a VLAN";
  for (size_t bytes = 1; bytes < 50; ++bytes)
    EXPECT_EQ(shards.Of(Bytes(ours.begin(), ours.begin() + static_cast<ptrdiff_t>(bytes))), 0) << bytes;
}

// Whatever it is: frames that differ from a packet to the switch in some bytes, cut somewhere.
TEST_P(ShardFilterTest, EveryFrameIsTakenByExactlyOneShard) {
  Shards shards(GetParam());
  std::mt19937 random(GetParam());
  for (int trial = 0; trial < 2000; ++trial) {
    Bytes frame = FrameToSwitch(Qpn{static_cast<uint32_t>(random()) & 0xffffff});
    for (int edits = static_cast<int>(random() % 4); edits > 0; --edits)
      frame[random() % 50] = static_cast<uint8_t>(random());
    if (random() % 4 == 0) frame.resize(1 + random() % frame.size());
    const auto vlan_tag = static_cast<uint16_t>(random() % 4 == 0 ? random() % 3 << 12 | random() % 2 : 0);
    EXPECT_GE(shards.Of(frame, vlan_tag), 0) << "trial " << trial;
  }
}

TEST_P(ShardFilterTest, TakesOnlyFramesOfItsLengths) {
  Shards shards(GetParam(), {.min_bytes = 60, .max_bytes = 100});
  Bytes frame = FrameToSwitch(Qpn{0x100001});
  for (const size_t bytes : {59, 60, 100, 101}) {
    frame.resize(bytes);
    const int due = bytes >= 60 && bytes <= 100 ? static_cast<int>(1 % GetParam()) : -1;
    EXPECT_EQ(shards.Of(frame), due) << bytes;
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, ShardFilterTest, ::testing::Values(1, 2, 3, 7, 16),
                         ::testing::PrintToStringParamName());

TEST(EmptyFilterTest, PassesNothing) {
  Kernel kernel(EmptyFilter());
  ASSERT_EQ(kernel.error(), 0);
  for (const Case& one : CasesOf(7, true)) {
    EXPECT_EQ(Interpret(EmptyFilter(), one.frame), 0u) << one.what;
    EXPECT_FALSE(kernel.Passes(one.frame)) << one.what;
  }
}

}  // namespace
}  // namespace epic::io
