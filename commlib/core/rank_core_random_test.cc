// Random collectives in a group of RankCores, against the protocol's rules stated once more and by other
// means: every rank's messages are listed packet by packet in advance.
#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "base/seeds_testing.h"
#include "commlib/core/rank_core.h"
#include "gtest/gtest.h"

namespace epic {
namespace {

constexpr uint32_t kMtu = 256;

struct Message {
  OpId op = 0;
  bool is_control = false;
  int64_t op_begin = 0;        // index of the control packet
  int64_t begin = 0, end = 0;  // indices
  uint64_t offset = 0;
  uint32_t length = 0;
};

bool SendsPart(const ControlHeader& h, uint32_t part, uint32_t rank) {
  switch (h.collective) {
    case Collective::kBroadcast:
      return rank == h.root;
    case Collective::kAllGather:
      return rank == part;
    default:
      return true;
  }
}

bool ReceivesPart(const ControlHeader& h, uint32_t part, uint32_t rank) {
  switch (h.collective) {
    case Collective::kReduce:
      return rank == h.root;
    case Collective::kReduceScatter:
      return rank == part;
    case Collective::kBroadcast:
      return rank != h.root;
    case Collective::kAllGather:
      return rank != part;
    default:
      return true;
  }
}

bool IsMutual(const ControlHeader& h) {
  return h.collective == Collective::kAllReduce || h.collective == Collective::kBarrier;
}

// One direction of one rank: all its messages, how many have been posted and how many have completed.
struct Stream {
  std::vector<Message> messages;
  size_t posted = 0, done = 0;

  // Every index below it is complete, or not this direction's; `total` indices exist.
  int64_t Complete(int64_t total) const { return done < messages.size() ? messages[done].begin : total; }
  // Has the message that starts at this index been posted (completed)?
  bool Reached(int64_t begin, size_t count) const {
    const auto at = std::lower_bound(messages.begin(), messages.end(), begin,
                                     [](const Message& m, int64_t b) { return m.begin < b; });
    return at == messages.end() || at->begin != begin || static_cast<size_t>(at - messages.begin()) < count;
  }
};

struct Rank {
  RankCore core;
  uint32_t send_window = 0;  // messages
  Stream send, recv;
  size_t calls = 0, finished = 0;
  int64_t total = 0;  // indices
};

class Group {
 public:
  explicit Group(uint32_t seed) : random_(seed) {
    const uint32_t size = 1 + Below(5);
    message_packets_ = 1 + Below(8);
    window_messages_ = 1 + Below(8);
    inline_bytes_ = Below(2) * Below(3000);
    turns_ = Below(2) == 0;
    for (uint32_t r = 0; r < size; ++r) {
      ranks_.push_back({.core = RankCore({.path_mtu = kMtu,
                                          .message_packets = message_packets_,
                                          .window_messages = window_messages_,
                                          .rank = r,
                                          .world_size = size,
                                          .inline_bytes = inline_bytes_,
                                          .turns = turns_}),
                        .send_window = window_messages_,
                        .send = {},
                        .recv = {}});
    }
    for (int i = 0; i < 30; ++i) headers_.push_back(RandomHeader());
  }

  void Run() {
    int64_t idle_rounds = 0;
    while (!AllFinished()) {
      const bool moved = Round();
      if (testing::Test::HasFatalFailure()) return;
      idle_rounds = moved ? 0 : idle_rounds + 1;
      ASSERT_LT(idle_rounds, 1000) << "the group has come to rest";
    }
    for (const Rank& rank : ranks_) {
      EXPECT_TRUE(rank.core.idle());
      EXPECT_EQ(rank.send.done, rank.send.messages.size());
      EXPECT_EQ(rank.recv.done, rank.recv.messages.size());
    }
  }

 private:
  uint32_t Below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  uint32_t size() const { return static_cast<uint32_t>(ranks_.size()); }
  int64_t window() const { return static_cast<int64_t>(message_packets_) * window_messages_; }

  ControlHeader RandomHeader() {
    ControlHeader h;
    h.collective = static_cast<Collective>(1 + Below(6));
    if (h.collective == Collective::kBarrier) return h;
    const bool parts = h.collective == Collective::kReduceScatter || h.collective == Collective::kAllGather;
    const bool copy = h.collective == Collective::kBroadcast || h.collective == Collective::kAllGather;
    h.type = copy ? DataType::kByte : Below(2) == 0 ? DataType::kFloat16 : DataType::kFloat64;
    h.op = copy ? ReduceOp::kNone : ReduceOp::kMin;
    h.count = Below(3) == 0 ? Below(20) : Below(10000);
    h.parts = parts ? size() : 1;
    if (h.collective == Collective::kReduce || h.collective == Collective::kBroadcast) h.root = Below(size());
    return h;
  }

  bool AllFinished() const {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [&](const Rank& r) { return r.finished == headers_.size(); });
  }

  bool IsInlined(const ControlHeader& h) const {
    const uint64_t bytes = h.count * ElementBytes(h.type) * h.parts;
    return bytes > 0 && bytes <= inline_bytes_ && bytes + 64 <= uint64_t{message_packets_} * kMtu;
  }

  // Messages of a part at a time, where the parts of an AllGather take turns; else 0.
  uint32_t TurnOf(const ControlHeader& h) const {
    if (!turns_ || h.collective != Collective::kAllGather || h.parts == 1 || IsInlined(h)) return 0;
    const uint64_t packets = (h.count * ElementBytes(h.type) + kMtu - 1) / kMtu;
    if (static_cast<int64_t>(packets * h.parts) <= window()) return 0;
    uint32_t turn = 3 * window_messages_ / 4 / h.parts;
    if (turn < 2) turn = (2 * window_messages_ + h.parts - 1) / h.parts;
    if (h.parts < 3) turn = 1;
    return uint64_t{turn} * message_packets_ < packets ? turn : 0;
  }

  // Lists the messages of a call in both directions.
  void Expect(Rank& rank, uint32_t self, OpId op, const ControlHeader& h) {
    Message control{
        .op = op, .is_control = true, .begin = rank.total, .end = rank.total + 1, .length = kControlBytes};
    if (IsInlined(h)) {
      control.length += static_cast<uint32_t>(h.count * ElementBytes(h.type) * h.parts);
      control.end = control.begin + (control.length + kMtu - 1) / kMtu;
    }
    rank.send.messages.push_back(control);
    rank.recv.messages.push_back(control);
    rank.total = control.end;
    if (IsInlined(h)) return;
    const uint64_t part_bytes = h.count * ElementBytes(h.type);
    const uint64_t turn = uint64_t{TurnOf(h)} * message_packets_ * kMtu;
    const uint64_t at_a_time = turn > 0 ? turn : part_bytes;
    for (uint64_t first = 0; first < part_bytes; first += at_a_time) {
      for (uint32_t part = 0; part < h.parts; ++part)
        ExpectStretch(rank, self, {.op = op, .op_begin = control.begin}, h, part, first,
                      std::min(first + at_a_time, part_bytes));
    }
  }

  // The messages of a part from byte `first` to `end`.
  void ExpectStretch(Rank& rank, uint32_t self, Message m, const ControlHeader& h, uint32_t part,
                     uint64_t first, uint64_t end) {
    const uint64_t step = uint64_t{message_packets_} * kMtu, part_bytes = h.count * ElementBytes(h.type);
    for (uint64_t at = first; at < end; at += step) {
      m.length = static_cast<uint32_t>(std::min(step, end - at));
      m.begin = rank.total;
      m.end = rank.total += (m.length + kMtu - 1) / kMtu;
      m.offset = at + (h.collective == Collective::kReduceScatter ? part * part_bytes : 0);
      if (SendsPart(h, part, self)) rank.send.messages.push_back(m);
      m.offset = at + (h.collective == Collective::kAllGather ? part * part_bytes : 0);
      if (ReceivesPart(h, part, self)) rank.recv.messages.push_back(m);
    }
  }

  bool Round() {
    const uint32_t self = Below(size());
    Rank& rank = ranks_[self];
    if (rank.calls < headers_.size() && Below(3) == 0) {
      Expect(rank, self, static_cast<OpId>(rank.calls), headers_[rank.calls]);
      EXPECT_EQ(rank.core.Post(headers_[rank.calls]), static_cast<OpId>(rank.calls));
      ++rank.calls;
    }
    if (Below(4) == 0) {
      rank.send_window = 1 + Below(window_messages_);
      rank.core.SetSendWindow(rank.send_window);
    }
    bool moved = Take(rank);
    if (testing::Test::HasFatalFailure()) return false;
    if (Below(2) == 0) moved |= CompleteOneRecv(rank);
    if (Below(2) == 0) moved |= CompleteOneSend(rank);
    EXPECT_FALSE(rank.core.failed());
    while (const auto done = rank.core.NextFinished()) {
      EXPECT_EQ(done->op, static_cast<OpId>(rank.finished)) << "program order";
      EXPECT_EQ(done->outcome, Outcome::kOk);
      ++rank.finished;
      moved = true;
    }
    return moved;
  }

  bool Take(Rank& rank) {
    bool any = false;
    for (WorkRequest r; rank.core.NextWorkRequest(&r); any = true) {
      Check(rank, r);
      if (testing::Test::HasFatalFailure()) return false;
    }
    return any;
  }

  void Check(Rank& rank, const WorkRequest& r) {
    Stream& stream = r.is_recv ? rank.recv : rank.send;
    ASSERT_EQ(r.wr_id, stream.posted) << "stream order";
    ASSERT_LT(stream.posted, stream.messages.size()) << "a message too many";
    const Message& m = stream.messages[stream.posted++];
    ASSERT_EQ(r.op, m.op);
    ASSERT_EQ(r.is_control, m.is_control);
    ASSERT_EQ(r.length, m.length);
    if (!m.is_control) {
      ASSERT_EQ(r.offset, m.offset);
      const ControlHeader& h = headers_[static_cast<size_t>(m.op)];
      const auto self = static_cast<uint32_t>(&rank - ranks_.data());
      ASSERT_LE(r.offset + r.length, r.is_recv ? RecvBytes(h, self) : SendBytes(h, self));
    }
    ASSERT_LT(r.op, static_cast<OpId>(rank.finished) + kMaxOpenInvocations);
    const auto mw = static_cast<uint32_t>(window());
    ASSERT_LE(rank.send.posted - rank.send.done, MaxSendRequests(mw));
    ASSERT_LE(rank.recv.posted - rank.recv.done, MaxRecvRequests(mw));
    if (r.is_recv) return;
    for (size_t i = rank.recv.posted; i < rank.recv.messages.size(); ++i) {
      ASSERT_GE(rank.recv.messages[i].begin, m.end) << "receives come first";
    }
    const int64_t complete = std::min(rank.send.Complete(rank.total), rank.recv.Complete(rank.total));
    ASSERT_LE(m.end, complete + static_cast<int64_t>(message_packets_) * rank.send_window) << "the window";
    if (m.is_control || IsMutual(headers_[static_cast<size_t>(m.op)])) return;
    ASSERT_GT(rank.recv.Complete(rank.total), m.op_begin) << "data before the control reply";
  }

  // A result comes when every rank has sent its part.
  bool CompleteOneRecv(Rank& rank) {
    Stream& recv = rank.recv;
    if (recv.done == recv.posted) return false;
    const Message& m = recv.messages[recv.done];
    const bool here = std::all_of(ranks_.begin(), ranks_.end(), [&](const Rank& other) {
      return other.total > m.begin && other.send.Reached(m.begin, other.send.posted);
    });
    if (!here) return false;
    std::array<uint8_t, kControlBytes> bytes{};
    const auto control = rank.core.ControlOf(recv.done);
    EXPECT_EQ(control.has_value(), m.is_control);
    if (m.is_control) {
      ControlHeader reply = headers_[static_cast<size_t>(m.op)];
      reply.invocation = static_cast<uint64_t>(m.op);
      if (IsInlined(reply)) reply.flags |= kInlinedFlag;
      reply.turn = TurnOf(reply);
      Encode(reply, bytes);
    }
    const auto imm = m.is_control ? std::optional<uint32_t>(m.op) : std::nullopt;
    rank.core.OnRecvComplete(recv.done++, m.length, imm, bytes);
    return true;
  }

  // A send is acknowledged when every rank that receives it has it; where the sender does, that is enough.
  bool CompleteOneSend(Rank& rank) {
    Stream& send = rank.send;
    if (send.done == send.posted) return false;
    const Message& m = send.messages[send.done];
    const bool mutual = m.is_control || IsMutual(headers_[static_cast<size_t>(m.op)]);
    const auto has = [&](const Rank& other) {
      return other.total > m.begin && other.recv.Reached(m.begin, other.recv.done);
    };
    if (mutual ? !has(rank) : !std::all_of(ranks_.begin(), ranks_.end(), has)) return false;
    rank.core.OnSendComplete(send.done++);
    return true;
  }

  std::mt19937 random_;
  uint32_t message_packets_ = 1, window_messages_ = 1;
  uint64_t inline_bytes_ = 0;
  bool turns_ = false;
  std::vector<Rank> ranks_;
  std::vector<ControlHeader> headers_;
};

TEST(RankCoreRandomTest, EveryMixOfCollectivesKeepsTheRulesAndEnds) {
  const auto [first, count] = SeedsToRun(300);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(testing::Message() << "replay: EPIC_SEED=" << seed);
    ASSERT_NO_FATAL_FAILURE(Group(static_cast<uint32_t>(seed)).Run());
    ASSERT_FALSE(HasFailure());
  }
}

}  // namespace
}  // namespace epic
