// Calls of a rank whose switch reads and writes its memory (docs/PROTOCOL-MODE-VI.md): what it posts, and
// what its descriptors say.
#include <array>
#include <numeric>
#include <vector>

#include "commlib/core/group_calls.h"
#include "gtest/gtest.h"

namespace epic {
namespace {

constexpr RemoteMemory kOwn{.address = 0x7000'0000, .rkey = 0x70};
constexpr PulledBuffers kBuffers{.send = {.address = 0x1000'0000, .rkey = 0x10},
                                 .recv = {.address = 0x2000'0000, .rkey = 0x20}};

CoreConfig PulledConfig(uint32_t rank = 1, uint64_t inline_bytes = 0) {
  return {.path_mtu = 256,
          .message_packets = 2,
          .window_messages = 2,
          .rank = rank,
          .world_size = 4,
          .inline_bytes = inline_bytes,
          .turns = true,
          .pulled = true};
}

ControlHeader PulledCall(Collective collective, uint64_t count) {
  ControlHeader header{.collective = collective,
                       .op = Reduces(collective) ? ReduceOp::kSum : ReduceOp::kNone,
                       .type = DataType::kInt32,
                       .count = count};
  if (HasPartPerRank(collective)) header.parts = 4;
  return header;
}

// A rank, and what it has posted.
class PulledRank {
 public:
  explicit PulledRank(const CoreConfig& config, uint64_t bounce_bytes = 0, uint64_t slice_bytes = kMaxBytes)
      : calls_(bounce_bytes, 4096) {
    calls_.SetConfig({.network = config, .invocation_bytes = slice_bytes});
    calls_.SetPulledMemory(kOwn);
  }
  void Make(const ControlHeader& header, Way way) {
    calls_.Make(header, send_.data(), recv_.data(), way, 0, nullptr, kBuffers);
  }
  std::vector<GroupCalls::Request> Posted() {
    std::vector<GroupCalls::Request> posted;
    for (GroupCalls::Request request; calls_.NextRequest(&request);) posted.push_back(request);
    return posted;
  }
  static Descriptor DescriptorIn(const GroupCalls::Request& request) {
    EXPECT_EQ(request.length, kControlBytes + kDescriptorBytes);
    const std::span bytes(request.address, request.length);
    EXPECT_TRUE(HeaderOf(bytes).has_value());
    const auto descriptor = DecodeDescriptor(bytes.subspan(kControlBytes));
    EXPECT_TRUE(descriptor.has_value());
    return descriptor.value_or(Descriptor{});
  }
  // The switch replies to what a rank has posted, as the header of its own message says.
  void Reply(const GroupCalls::Request& recv, const GroupCalls::Request& sent) {
    std::copy_n(sent.address, kControlBytes, recv.address);
    calls_.OnComplete(GroupCalls::kSwitch, recv.wr_id, kControlBytes, sent.imm);
  }
  // Where its NIC has what lies in its own memory.
  uint64_t OwnAddressOf(size_t offset) { return kOwn.address + offset; }
  GroupCalls& calls() { return calls_; }

 private:
  GroupCalls calls_;
  std::vector<uint8_t> send_ = std::vector<uint8_t>(1 << 20), recv_ = std::vector<uint8_t>(1 << 20);
};

TEST(PulledCallsTest, ACallIsTwoWorkRequestsWhateverItsSize) {
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast,
                                      Collective::kReduceScatter, Collective::kAllGather}) {
    for (const uint64_t count : {uint64_t{1}, uint64_t{1000}, uint64_t{50'000}}) {
      PulledRank rank(PulledConfig());
      rank.Make(PulledCall(collective, count), Way::kDirect);
      const auto posted = rank.Posted();
      ASSERT_EQ(posted.size(), 2u);
      EXPECT_TRUE(posted[0].is_recv);
      EXPECT_EQ(posted[0].length, kControlBytes);
      EXPECT_TRUE(posted[1].has_imm && !posted[1].is_recv);
      EXPECT_EQ(posted[1].length, kControlBytes + kDescriptorBytes);
      EXPECT_FALSE(rank.calls().NextEnded());
      // It ends with the reply, acknowledged or not.
      rank.Reply(posted[0], posted[1]);
      const auto ended = rank.calls().NextEnded();
      ASSERT_TRUE(ended);
      EXPECT_EQ(ended->outcome, Outcome::kOk);
      rank.calls().OnComplete(GroupCalls::kSwitch, posted[1].wr_id, 0, {});
      EXPECT_TRUE(rank.calls().idle());
    }
  }
}

TEST(PulledCallsTest, WhatHasNoDataOfItsOwnHasNoDescriptor) {
  PulledRank rank(PulledConfig(1, 512));
  rank.Make({}, Way::kDirect);
  rank.Make(PulledCall(Collective::kAllReduce, 4), Way::kBounce);
  rank.Make(PulledCall(Collective::kAllReduce, 0), Way::kDirect);
  const auto posted = rank.Posted();
  ASSERT_EQ(posted.size(), 6u);
  std::vector<uint32_t> sent;
  for (const auto& request : posted) {
    if (!request.is_recv) sent.push_back(request.length);
  }
  EXPECT_EQ(sent, (std::vector<uint32_t>{kControlBytes, kControlBytes + 16, kControlBytes}));
}

TEST(PulledCallsTest, ADescriptorSaysWhereTheCallersBuffersLie) {
  const auto of = [](Collective collective, uint32_t rank_number, uint32_t root = 0) {
    PulledRank rank(PulledConfig(rank_number));
    ControlHeader header = PulledCall(collective, 1000);
    header.root = root;
    rank.Make(header, Way::kDirect);
    const Descriptor descriptor = PulledRank::DescriptorIn(rank.Posted()[1]);
    EXPECT_TRUE(IsSound(descriptor, header, rank_number));
    return descriptor;
  };
  const RemoteParts source{.address = kBuffers.send.address, .rkey = 0x10};
  const RemoteParts destination{.address = kBuffers.recv.address, .rkey = 0x20};
  EXPECT_EQ(of(Collective::kAllReduce, 1), (Descriptor{source, destination}));
  EXPECT_EQ(of(Collective::kReduceScatter, 1), (Descriptor{source, destination}));
  EXPECT_EQ(of(Collective::kAllGather, 1), (Descriptor{source, destination}));
  EXPECT_EQ(of(Collective::kReduce, 1), (Descriptor{source, {}}));
  EXPECT_EQ(of(Collective::kReduce, 1, 1), (Descriptor{source, destination}));
  EXPECT_EQ(of(Collective::kBroadcast, 1), (Descriptor{{}, destination}));
  EXPECT_EQ(of(Collective::kBroadcast, 1, 1), (Descriptor{source, {}}));
}

// An AllReduce comes back into the bytes that it is read from.
TEST(PulledCallsTest, InTheRanksOwnMemoryItSaysWhereInThat) {
  for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather}) {
    PulledRank rank(PulledConfig(), 1 << 12);
    const ControlHeader header = PulledCall(collective, 100);
    rank.Make(header, Way::kBounce);
    const auto posted = rank.Posted();
    const Descriptor descriptor = PulledRank::DescriptorIn(posted[1]);
    EXPECT_TRUE(IsSound(descriptor, header, 1));
    const uint64_t bounce = rank.OwnAddressOf(2 * kMaxOpenInvocations * kControlBytes);
    EXPECT_EQ(descriptor.source, (RemoteParts{.address = bounce, .rkey = kOwn.rkey}));
    const uint64_t behind = collective == Collective::kAllReduce ? 0 : 400;
    EXPECT_EQ(descriptor.destination, (RemoteParts{.address = bounce + behind, .rkey = kOwn.rkey}));
  }
}

TEST(PulledCallsTest, OfSlicesPartsLieAStrideApart) {
  PulledRank rank(PulledConfig(), 0, /*slice_bytes=*/4 * 1000);
  rank.Make(PulledCall(Collective::kReduceScatter, 500), Way::kDirect);
  std::vector<Descriptor> descriptors;
  std::vector<GroupCalls::Request> recvs, sends;
  for (int left = 8; left > 0; --left) {
    for (const auto& request : rank.Posted()) (request.is_recv ? recvs : sends).push_back(request);
    if (descriptors.size() == sends.size()) break;
    descriptors.push_back(PulledRank::DescriptorIn(sends[descriptors.size()]));
    rank.Reply(recvs[descriptors.size() - 1], sends[descriptors.size() - 1]);
    rank.calls().OnComplete(GroupCalls::kSwitch, sends[descriptors.size() - 1].wr_id, 0, {});
  }
  ASSERT_EQ(descriptors.size(), 2u);
  EXPECT_EQ(descriptors[0].source, (RemoteParts{.address = 0x1000'0000, .stride = 2000, .rkey = 0x10}));
  EXPECT_EQ(descriptors[1].source,
            (RemoteParts{.address = 0x1000'0000 + 1000, .stride = 2000, .rkey = 0x10}));
  EXPECT_EQ(descriptors[1].destination, (RemoteParts{.address = 0x2000'0000 + 1000, .rkey = 0x20}));
  EXPECT_TRUE(rank.calls().NextEnded());
}

// The next doorbell may go before the reply while both calls lie in the window.
TEST(PulledCallsTest, TheWindowIsThatOfIndices) {
  PulledRank rank(PulledConfig());
  rank.Make(PulledCall(Collective::kAllReduce, 64), Way::kDirect);   // a packet and its doorbell
  rank.Make(PulledCall(Collective::kAllReduce, 640), Way::kDirect);  // ten packets
  rank.Make(PulledCall(Collective::kAllReduce, 64), Way::kDirect);
  const auto sends = [&] {
    const auto posted = rank.Posted();
    return std::ranges::count(posted, false, &GroupCalls::Request::is_recv);
  };
  EXPECT_EQ(sends(), 2) << "of four packets";
}

TEST(PulledCallsTest, ARefusalEndsItAsInAllModes) {
  PulledRank rank(PulledConfig());
  rank.Make(PulledCall(Collective::kAllReduce, 1000), Way::kDirect);
  const auto posted = rank.Posted();
  ControlHeader refusal = *HeaderOf({posted[1].address, posted[1].length});
  refusal.status = ControlStatus::kAborted;
  refusal.culprit = 3;
  Encode(refusal, std::span<uint8_t, kControlBytes>(posted[0].address, kControlBytes));
  rank.calls().OnComplete(GroupCalls::kSwitch, posted[0].wr_id, kControlBytes, 0);
  EXPECT_TRUE(rank.calls().failed());
  EXPECT_EQ(rank.calls().failure().reply.culprit, 3u);
}

}  // namespace
}  // namespace epic
