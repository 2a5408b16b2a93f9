// Requests of many pieces: what goes out of up to 32 and into up to 32 others is the same bytes in order.
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "roce/transport/transport_testing.h"
#include "roce/transport/uc.h"
#include "roce/transport/ud.h"

namespace epic::roce::testing {
namespace {

constexpr uint32_t kFromKey = 1, kToKey = 2;

// Pieces that make up so many bytes, each anywhere in memory and some empty; with gaps, and in any order.
SgeList Pieces(std::mt19937_64& random, size_t count, uint32_t bytes, uint32_t key) {
  std::vector<uint32_t> cuts(count - 1);
  for (uint32_t& cut : cuts) cut = static_cast<uint32_t>(random() % (bytes + 1));
  std::ranges::sort(cuts);
  cuts.push_back(bytes);
  std::vector<size_t> places(count);
  std::iota(places.begin(), places.end(), size_t{0});
  std::ranges::shuffle(places, random);
  std::vector<Sge> pieces(count);
  uint32_t from = 0;
  for (size_t i = 0; i < count; ++i) {
    pieces[i] = {places[i] * (bytes + 1), cuts[i] - from, key};
    from = cuts[i];
  }
  return SgeList::Of(pieces);
}

std::vector<uint8_t> BytesOf(const SgeList& list, FlatMemory& memory) {
  std::vector<uint8_t> out;
  for (size_t i = 0; i < list.count; ++i) {
    const Sge& sge = list[i];
    if (sge.length == 0) continue;
    const auto bytes = *memory.Map(Access::kLocalRead, sge.lkey, sge.address, sge.length);
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  return out;
}

TEST(SgesTest, ManyPiecesArriveInMany) {
  std::random_device device;
  const uint64_t seed =
      std::getenv("EPIC_SEED") != nullptr ? std::stoull(std::getenv("EPIC_SEED")) : device();
  SCOPED_TRACE("EPIC_SEED=" + std::to_string(seed) +
               " build/release/roce/roce_transport_test --gtest_filter='SgesTest.*'");
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    const size_t count = 1 + random() % kMaxSge, into = 1 + random() % kMaxSge;
    const auto bytes = static_cast<uint32_t>(random() % 2000);
    FlatMemory memory;
    for (uint8_t& byte : memory.Add(kFromKey, 0, kMaxSge * 2001).bytes) byte = static_cast<uint8_t>(random());
    memory.Add(kToKey, 0, kMaxSge * 2001);
    const SgeList from = Pieces(random, count, bytes, kFromKey), to = Pieces(random, into, bytes, kToKey);
    ASSERT_EQ(from.bytes(), bytes);
    QueuePair a = Connected({}), b = Connected({.mirrored = true});
    ASSERT_EQ(b.PostRecv({.sges = to}), PostResult::kOk);
    ASSERT_EQ(a.PostSend({.sges = from}), PostResult::kOk);
    KeepingSink sink;
    a.Poll(0, memory, sink);
    EXPECT_EQ(sink.sent.size(), std::max(1u, (bytes + 255) / 256));
    for (const OwnedPacket& packet : sink.sent) b.OnPacket(0, packet.packet(), memory);
    Completion c;
    ASSERT_TRUE(b.NextCompletion(&c) && c.ok() && c.bytes == bytes);
    EXPECT_EQ(BytesOf(from, memory), BytesOf(to, memory));
  }
}

TEST(SgesTest, FewLieInPlaceAndCopiesShareTheOthers) {
  std::vector<Sge> pieces(kMaxSge);
  for (size_t i = 0; i < kMaxSge; ++i) pieces[i] = {i, static_cast<uint32_t>(i), 1};
  const SgeList few = SgeList::Of(std::span(pieces).first(kSgesInPlace));
  EXPECT_EQ(few.more, nullptr);
  const SgeList many = SgeList::Of(pieces), copy = many;
  EXPECT_EQ(copy.more, many.more);
  EXPECT_EQ(copy.bytes(), 31u * 32 / 2);
  for (size_t i = 0; i < kMaxSge; ++i) EXPECT_EQ(many[i].address, i);
}

// A queue holds the pieces of what is in it, and of nothing that has left.
TEST(SgesTest, AreGivenBackWithTheirRequest) {
  FlatMemory memory;
  memory.Add(kFromKey, 0, 1000);
  const SgeList list = SgeList::Of(std::vector<Sge>(kMaxSge, {0, 8, kFromKey}));
  const auto holders = [&list] { return list.more.use_count() - 1; };
  QueuePair rc = Connected({});
  ASSERT_EQ(rc.PostRecv({.sges = list}), PostResult::kOk);
  ASSERT_EQ(rc.PostSend({.sges = list}), PostResult::kOk);
  EXPECT_EQ(holders(), 2);
  ASSERT_EQ(rc.Modify({.state = QpState::kErr}), ModifyResult::kOk);
  EXPECT_EQ(holders(), 0);

  UdQueuePair ud({.local_ip = kLocalIp, .local_qpn = kLocalQpn});
  ASSERT_EQ(ud.Modify(QpState::kInit, 1), ModifyResult::kOk);
  ASSERT_EQ(ud.Modify(QpState::kRtr), ModifyResult::kOk);
  ASSERT_EQ(ud.Modify(QpState::kRts, {}, Psn(0)), ModifyResult::kOk);
  ASSERT_EQ(ud.PostSend({.sges = list, .ud = UdAddress{kRemoteIp, kRemoteQpn, 1}}), PostResult::kOk);
  EXPECT_EQ(holders(), 1);
  KeepingSink sink;
  ud.Poll(memory, sink);
  EXPECT_EQ(sink.sent.size(), 1u);
  EXPECT_EQ(holders(), 0);
}

TEST(SgesTest, MoreThanThereAreOrMayBeAreRefused) {
  SgeList torn = OneSge(0, 8, kFromKey);
  torn.count = kSgesInPlace + 1;  // without the others
  SgeList many = SgeList::Of(std::vector<Sge>(kMaxSge));
  EXPECT_TRUE(many.whole());
  many.count = kMaxSge + 1;
  QueuePair rc = Connected({});
  UcQueuePair uc({.local_ip = kLocalIp, .local_qpn = kLocalQpn});
  UdQueuePair ud({.local_ip = kLocalIp, .local_qpn = kLocalQpn});
  ASSERT_EQ(uc.Modify({.state = QpState::kInit}), ModifyResult::kOk);
  ASSERT_EQ(ud.Modify(QpState::kInit, 1), ModifyResult::kOk);
  ASSERT_EQ(ud.Modify(QpState::kRtr), ModifyResult::kOk);
  ASSERT_EQ(ud.Modify(QpState::kRts, {}, Psn(0)), ModifyResult::kOk);
  for (const SgeList& list : {torn, many}) {
    EXPECT_EQ(rc.PostSend({.sges = list}), PostResult::kInvalid);
    EXPECT_EQ(rc.PostRecv({.sges = list}), PostResult::kInvalid);
    EXPECT_EQ(uc.PostRecv({.sges = list}), PostResult::kInvalid);
    EXPECT_EQ(ud.PostSend({.sges = list, .ud = UdAddress{kRemoteIp, kRemoteQpn, 1}}), PostResult::kInvalid);
    EXPECT_EQ(ud.PostRecv({.sges = list}), PostResult::kInvalid);
  }
}

}  // namespace
}  // namespace epic::roce::testing
