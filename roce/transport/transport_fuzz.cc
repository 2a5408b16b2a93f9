// Bytes as packets, posts and time against a live queue pair, RC or UC: it changes no byte but those of the
// region that the peer may write, of receives, reads and atomics before their completion; completions come
// once and in order; what it sends is bounded. AddressSanitizer watches the rest.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/fuzz_input.h"
#include "roce/transport/transport_testing.h"
#include "roce/transport/uc.h"

namespace epic::roce::testing {
namespace {

constexpr uint32_t kLocalKey = 1;
constexpr uint32_t kReadableKey = 6;  // the peer may read
constexpr uint32_t kWritableKey = 7;  // and write, also by atomics
constexpr uint32_t kWindowKey = 8;
constexpr uint64_t kReadable = 0x40000;
constexpr uint64_t kWritable = 0x50000;
constexpr size_t kRemoteBytes = 2000;
constexpr uint32_t kSlotBytes = 600;  // of a receive or a read: three packets
constexpr size_t kSlots = 16;         // for each
constexpr uint32_t kSendBytes = 4096;
constexpr uint8_t kGuard = 0x5a;

uint32_t Next32(FuzzInput& in) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | in.Next();
  return value;
}

Wiring MakeWiring(uint8_t byte) {
  Wiring w{.policy = (byte & 1) != 0 ? RxeLike() : Policy{}};
  w.policy.ack_after = (byte & 2) != 0 ? 3 : 1;
  w.policy.max_outstanding = (byte & 4) != 0 ? 2 : 128;
  if ((byte & 8) != 0) w.sq_psn = w.rq_psn = 0xfffffc;
  return w;
}

// What the trial needs of a queue pair of either kind.
struct Reliable {
  explicit Reliable(uint8_t byte) : qp(Connected(MakeWiring(byte))) {}
  void OnPacket(Nanos now, const Packet& packet, Memory& memory) { qp.OnPacket(now, packet, memory); }
  void Poll(Nanos now, Memory& memory, PacketSink& sink, int budget) { qp.Poll(now, memory, sink, budget); }
  // Packets that were not due.
  uint64_t untimely() const { return qp.counters().duplicates + qp.counters().out_of_sequence; }
  static constexpr std::array kOpcodes = {0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
                                          0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x11,
                                          0x11, 0x11, 0x12, 0x13, 0x14, 0x16, 0x17, 0x81, 0x24};
  QueuePair qp;
};

struct Unreliable {
  explicit Unreliable(uint8_t byte) : qp({.local_ip = kLocalIp, .local_qpn = kLocalQpn}) {
    const Wiring w = MakeWiring(byte);
    qp.Modify({.state = QpState::kInit, .remote_write = (byte & 16) == 0});
    qp.Modify({.state = QpState::kRtr,
               .remote_ip = kRemoteIp,
               .remote_qpn = kRemoteQpn,
               .path_mtu = w.path_mtu,
               .rq_psn = Psn(w.rq_psn)});
    qp.Modify({.state = QpState::kRts, .sq_psn = Psn(w.sq_psn)});
    EPIC_CHECK(qp.state() == QpState::kRts);
  }
  void OnPacket(Nanos, const Packet& packet, Memory& memory) { qp.OnPacket(packet, memory); }
  void Poll(Nanos, Memory& memory, PacketSink& sink, int budget) { qp.Poll(memory, sink, budget); }
  uint64_t untimely() const { return qp.counters().out_of_sequence; }
  static constexpr std::array kOpcodes = {0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27,
                                          0x28, 0x29, 0x2a, 0x2b, 0x04, 0x11, 0x81};
  UcQueuePair qp;
};

template <typename Kind>
class Trial {
 public:
  Trial(const uint8_t* data, size_t size) : in_(data, size), kind_(in_.Next()) {
    // Local: the source of sends, then a slot per receive, then one per read, then bytes nobody may touch.
    auto& local = memory_.Add(kLocalKey, 0, kSendBytes + 2 * kSlots * kSlotBytes + 512);
    std::ranges::fill(local.bytes, kGuard);
    auto& readable = memory_.Add(kReadableKey, kReadable, kRemoteBytes, /*remote=*/true);
    readable.remote_write = readable.remote_atomic = false;
    std::ranges::fill(readable.bytes, kGuard);
    memory_.Add(kWritableKey, kWritable, kRemoteBytes, /*remote=*/true);
    snapshot_ = local.bytes;
    memory_.AddWindow(kWindowKey);
  }

  void Run() {
    while (!in_.empty()) {
      switch (in_.Next() % 8) {
        case 0:
          PostSend();
          break;
        case 1:
          PostRecv();
          break;
        case 2:
          now_ += in_.Next() * kMillisecond;
          break;
        default:
          Arrive();
      }
      KeepingSink sink;
      kind_.Poll(now_, memory_, sink, 64);
      EPIC_CHECK(sink.sent.size() <= 65);
      for (const OwnedPacket& packet : sink.sent) EPIC_CHECK(packet.payload.size() <= 256);
      TakeCompletions();
      CheckMemory();
    }
  }

 private:
  // Mostly near what is due, sometimes anything.
  uint32_t SomePsn(uint32_t due) {
    const uint8_t how = in_.Next();
    return how < 0xf0 ? due + (how & 0xf) - 2 : Next32(in_);
  }

  void Arrive() {
    Packet p;
    p.src_ip = kRemoteIp;
    p.dst_ip = kLocalIp;
    p.bth.opcode = Opcode{static_cast<uint8_t>(Kind::kOpcodes[in_.Next() % Kind::kOpcodes.size()])};
    p.bth.dest_qp = kLocalQpn;
    const uint8_t flags = in_.Next();
    p.bth.ack_req = (flags & 1) != 0;
    p.tos = (flags & 2) != 0 ? 3 : 0;
    const bool response = Info(p.bth.opcode).aeth || p.bth.opcode == Opcode::kRcReadResponseMiddle;
    p.bth.psn = Psn(response ? SomePsn(kind_.qp.attributes().sq_psn.raw() + in_.Next()) : SomePsn(in_psn_));
    p.aeth.syndrome = (flags & 4) != 0 ? kSyndromeAck : in_.Next();
    const OpcodeInfo& info = Info(p.bth.opcode);
    std::vector<uint8_t> payload;
    if (info.payload) payload.resize((flags & 128) != 0 ? 256 : in_.Next() * 2u, uint8_t{0xab});
    p.payload = payload;
    if (info.reth) {
      p.reth.rkey = (flags & 8) != 0 ? kWritableKey : (flags & 16) != 0 ? kReadableKey : in_.Next();
      const uint64_t base = p.reth.rkey == kReadableKey ? kReadable : kWritable;
      p.reth.virtual_address =
          (flags & 32) != 0 ? base + in_.Next() : uint64_t{Next32(in_)} << (in_.Next() % 33);
      const uint32_t more = info.only && info.payload ? 0 : in_.Next() * 4u;
      p.reth.dma_length = (flags & 64) != 0 ? static_cast<uint32_t>(payload.size()) + more : Next32(in_);
    }
    if (info.atomic_eth) {
      p.atomic.rkey = (flags & 8) != 0 ? kWritableKey : (flags & 16) != 0 ? kReadableKey : in_.Next();
      const uint64_t base = p.atomic.rkey == kReadableKey ? kReadable : kWritable;
      const uint64_t at = in_.Next() * 8u;
      p.atomic.virtual_address = (flags & 32) != 0 ? base + at : base + at + in_.Next();
      p.atomic.swap_or_add = Next32(in_);
      p.atomic.compare = (flags & 64) != 0 ? 0 : Next32(in_);
    }
    const uint8_t original = in_.Next();
    if (info.atomic_ack_eth) p.original = original;
    p.invalidate_rkey = kWindowKey + (flags & 1);
    const uint64_t before = kind_.untimely();
    kind_.OnPacket(now_, p, memory_);
    if (!response && before == kind_.untimely()) in_psn_ = p.bth.psn.raw() + 1;
  }

  void PostSend() {
    const uint8_t how = in_.Next();
    SendWr wr{.wr_id = posted_sends_, .opcode = static_cast<WrOpcode>(how % 10)};
    wr.signaled = (how & 16) != 0;
    const uint32_t length = in_.Next() * 2u;
    if (IsReadOrAtomic(wr.opcode)) {
      if (reads_ == kSlots) return;
      wr.sges = OneSge(ReadSlot(reads_), length, kLocalKey);
    } else {
      wr.sges = OneSge(in_.Next(), length * 8, (how & 32) != 0 ? kLocalKey : in_.Next());
    }
    if (IsLocal(wr.opcode)) wr.sges.count = 0;
    wr.invalidate_rkey = wr.bind.emplace().rkey = kWindowKey;
    if (kind_.qp.PostSend(wr) != PostResult::kOk) return;
    if (IsReadOrAtomic(wr.opcode)) read_wr_[reads_++] = posted_sends_;
    ++posted_sends_;
  }

  void PostRecv() {
    if (recvs_ == kSlots) return;
    const uint32_t length = in_.Next() * 2u;
    if (kind_.qp.PostRecv({.wr_id = recvs_, .sges = OneSge(RecvSlot(recvs_), length, kLocalKey)}) ==
        PostResult::kOk)
      ++recvs_;
  }

  static uint64_t RecvSlot(size_t i) { return kSendBytes + i * kSlotBytes; }
  static uint64_t ReadSlot(size_t i) { return RecvSlot(kSlots + i); }

  void TakeCompletions() {
    for (Completion c; kind_.qp.NextCompletion(&c);) {
      uint64_t& next = c.is_recv() ? next_recv_ : next_send_;
      EPIC_CHECK(c.wr_id >= next && c.wr_id < (c.is_recv() ? recvs_ : posted_sends_));
      EPIC_CHECK(!c.is_recv() || c.wr_id == next);
      next = c.wr_id + 1;
      // From now on the slots of everything complete are guarded as well.
      const auto& bytes = memory_.region(kLocalKey).bytes;
      std::copy(bytes.begin(), bytes.end(), snapshot_.begin());
    }
  }

  bool MayChange(size_t slot) const {
    if (slot < kSlots) return slot >= next_recv_ && slot < recvs_;
    return slot - kSlots < reads_ && read_wr_[slot - kSlots] >= next_send_;
  }

  void CheckMemory() {
    const auto& bytes = memory_.region(kLocalKey).bytes;
    const auto unchanged = [&](size_t from, size_t count) {
      return std::memcmp(bytes.data() + from, snapshot_.data() + from, count) == 0;
    };
    EPIC_CHECK(unchanged(0, kSendBytes));
    for (size_t slot = 0; slot < 2 * kSlots; ++slot)
      EPIC_CHECK(MayChange(slot) || unchanged(RecvSlot(slot), kSlotBytes));
    EPIC_CHECK(unchanged(RecvSlot(2 * kSlots), bytes.size() - RecvSlot(2 * kSlots)));
    EPIC_CHECK(memory_.region(kReadableKey).bytes == guard_);
  }

  FuzzInput in_;
  FlatMemory memory_;
  Kind kind_;
  Nanos now_ = 0;
  std::vector<uint8_t> snapshot_;
  const std::vector<uint8_t> guard_ = std::vector<uint8_t>(kRemoteBytes, kGuard);
  uint32_t in_psn_ = kind_.qp.attributes().rq_psn.raw();
  uint64_t posted_sends_ = 0;
  size_t recvs_ = 0, reads_ = 0;
  uint64_t next_send_ = 0, next_recv_ = 0;
  std::array<uint64_t, kSlots> read_wr_{};
};

}  // namespace
}  // namespace epic::roce::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;
  using namespace epic::roce::testing;
  if (size > 0 && (data[0] & 128) != 0) {
    Trial<Unreliable>(data, size).Run();
  } else {
    Trial<Reliable>(data, size).Run();
  }
  return 0;
}
