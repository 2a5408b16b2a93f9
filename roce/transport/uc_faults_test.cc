// Unreliable connections over a network that loses, repeats and reorders packets, by seed: what arrives is
// exactly those messages whose packets came one behind the other, whole and with nothing of another in them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "roce/transport/transport_testing.h"
#include "roce/transport/uc.h"

namespace epic::roce::testing {
namespace {

constexpr uint32_t kLossyMtu = 256, kMost = 5 * kLossyMtu;
constexpr uint32_t kLossyLkey = 1, kLossyRkey = 7;
constexpr uint64_t kOut = 0, kIn = 0x4000, kLossyRemote = 0x8000;
constexpr uint32_t kMessages = 400;

UcQueuePair ReadyForLosses(bool mirrored) {
  UcQueuePair qp({.local_ip = mirrored ? kRemoteIp : kLocalIp,
                  .local_qpn = mirrored ? kRemoteQpn : kLocalQpn,
                  .send_depth = 4,
                  .recv_depth = 4});
  const auto change = [&](const QpChange& c) { EXPECT_EQ(qp.Modify(c), ModifyResult::kOk); };
  change({.state = QpState::kInit, .remote_write = true});
  change({.state = QpState::kRtr,
          .remote_ip = mirrored ? kLocalIp : kRemoteIp,
          .remote_qpn = mirrored ? kLocalQpn : kRemoteQpn,
          .path_mtu = kLossyMtu,
          .rq_psn = Psn(0xffff80)});
  change({.state = QpState::kRts, .sq_psn = Psn(0xffff80)});
  return qp;
}

uint8_t Pattern(uint32_t message, uint32_t at) { return static_cast<uint8_t>(message * 37 + at * 11 + 1); }

struct Faults {
  double loss = 0, repeat = 0, reorder = 0;
};

// Packets of all messages, in the order in which they arrive.
struct OnTheWay {
  OwnedPacket packet;
  uint32_t message = 0;
  size_t part = 0, parts = 0;
};

class UcFaults {
 public:
  UcFaults(uint32_t seed, const Faults& faults) : random_(seed), faults_(faults) {
    memory_.Add(kLossyLkey, 0, 0x8000);
    memory_.Add(kLossyRkey, kLossyRemote, kMost, /*remote=*/true);
    for (uint64_t i = 0; i < 4; ++i) Receive();
  }

  // Sends all messages and lets them arrive; how many came whole.
  size_t Run() {
    std::deque<OnTheWay> way;
    for (uint32_t message = 0; message < kMessages; ++message) {
      for (OnTheWay& one : PacketsOf(message)) {
        if (Happens(faults_.loss)) continue;
        const int copies = Happens(faults_.repeat) ? 2 : 1;
        for (int i = 0; i < copies; ++i) {
          const size_t overtakes = Happens(faults_.reorder) ? random_() % 8 : 0;
          way.insert(way.end() - static_cast<ptrdiff_t>(std::min(overtakes, way.size())), one);
        }
      }
    }
    for (const OnTheWay& one : way) Arrive(one);
    return whole_;
  }

 private:
  bool Happens(double chance) { return std::uniform_real_distribution(0.0, 1.0)(random_) < chance; }
  void Receive() { ASSERT_EQ(to_.PostRecv({.sges = OneSge(kIn, kMost, kLossyLkey)}), PostResult::kOk); }

  std::vector<OnTheWay> PacketsOf(uint32_t message) {
    static constexpr WrOpcode kOpcodes[] = {WrOpcode::kSendImm, WrOpcode::kWriteImm};
    const auto bytes = static_cast<uint32_t>(random_() % (kMost + 1));
    for (uint32_t i = 0; i < bytes; ++i) memory_.region(kLossyLkey).bytes[kOut + i] = Pattern(message, i);
    SendWr wr{.opcode = kOpcodes[random_() % 2], .sges = OneSge(kOut, bytes, kLossyLkey), .imm = message};
    wr.remote_address = kLossyRemote;
    wr.rkey = kLossyRkey;
    EXPECT_EQ(from_.PostSend(wr), PostResult::kOk);
    KeepingSink sink;
    from_.Poll(memory_, sink);
    Completion c;
    EXPECT_TRUE(from_.NextCompletion(&c) && c.ok());
    std::vector<OnTheWay> out;
    for (const OwnedPacket& packet : sink.sent)
      out.push_back({packet, message, out.size(), sink.sent.size()});
    return out;
  }

  void Arrive(const OnTheWay& one) {
    // What is due next: any beginning, or the next part of what has begun.
    const bool fits = one.part == 0 || (begun_ && message_ == one.message && next_ == one.part);
    begun_ = fits && one.part + 1 < one.parts;
    message_ = one.message;
    next_ = one.part + 1;
    to_.OnPacket(one.packet.packet(), memory_);
    Completion c;
    const bool came = to_.NextCompletion(&c);
    ASSERT_EQ(came, fits && !begun_) << "message " << one.message << " part " << one.part;
    if (!came) return;
    ++whole_;
    ASSERT_TRUE(c.ok() && c.has_imm);
    ASSERT_EQ(c.imm, one.message);
    const auto& region = memory_.region(c.opcode == WcOpcode::kRecv ? kLossyLkey : kLossyRkey).bytes;
    const size_t from = c.opcode == WcOpcode::kRecv ? kIn : 0;
    for (uint32_t i = 0; i < c.bytes; ++i) ASSERT_EQ(region[from + i], Pattern(one.message, i));
    Receive();
  }

  std::mt19937 random_;
  Faults faults_;
  FlatMemory memory_;
  UcQueuePair from_ = ReadyForLosses(false), to_ = ReadyForLosses(true);
  bool begun_ = false;
  uint32_t message_ = 0;
  size_t next_ = 0, whole_ = 0;
};

TEST(UcFaultsTest, WhatComesInOrderIsThereAndNothingElse) {
  const std::vector<Faults> kinds = {{.loss = 0.02},
                                     {.repeat = 0.02},
                                     {.reorder = 0.02},
                                     {.loss = 0.02, .repeat = 0.05, .reorder = 0.05},
                                     {.loss = 0.3, .repeat = 0.3, .reorder = 0.3}};
  const uint32_t first = std::random_device{}();
  for (uint32_t run = 0; run < 20; ++run) {
    for (const Faults& faults : kinds) {
      const uint32_t seed = first + run;
      SCOPED_TRACE(::testing::Message()
                   << "seed " << seed << ", of a hundred " << faults.loss * 100 << " lost, "
                   << faults.repeat * 100 << " repeated, " << faults.reorder * 100 << " out of order");
      UcFaults faulty(seed, faults);
      EXPECT_GT(faulty.Run(), kMessages / 20);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(UcFaultsTest, WithoutFaultsAllArrive) { EXPECT_EQ(UcFaults(1, {}).Run(), kMessages); }

}  // namespace
}  // namespace epic::roce::testing
