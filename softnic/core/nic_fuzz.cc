// Bytes as packets, verbs calls and time against an adapter with live queue pairs. Whatever they are:
//   - no byte changes but those that the peer may write, by a key, its bounds, its rights and its protection
//     domain, and those of receives and Reads that have not completed; guard bytes lie around every region;
//   - no byte leaves that nobody may send: neither a guard byte nor a secret of another protection domain;
//   - completions are of requests that wait, and each comes once.
// AddressSanitizer watches the rest.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/fuzz_input.h"
#include "roce/transport/transport_testing.h"
#include "softnic/core/nic_fuzz_ends.h"

namespace epic::softnic::testing {
namespace {

using roce::Packet;
using roce::QpState;

constexpr uint64_t kBase = 0x10000;  // the address of the arena's first byte
constexpr size_t kRegion = 600, kGap = 72, kFixed = 6, kStride = kRegion + kGap;
constexpr size_t kArena = kGap + kFixed * kStride;
constexpr uint8_t kGuard = 0xee, kSecret = 0xdd, kOrdinary = 0x11, kArriving = 0xab;
constexpr uint32_t kSecretPd = 3;
constexpr size_t kMaxMrs = 24;
// Bits: local write, remote read, remote write.
MemoryRights Rights(int bits) { return {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0}; }
constexpr std::array<uint8_t, kFixed> kFixedRights = {7, 3, 1, 0, 7, 7};

struct Mr {
  uint32_t pd;
  size_t offset, length;  // in the arena
  MemoryRights rights;
  uint32_t key = 0;
  bool live = false;
};

// A receive or a Read whose buffer the adapter may write until its completion.
struct Buffer {
  uint64_t id;
  Qpn qpn;
  uint32_t pd;
  roce::Sge sge;
};

class Trial {
 public:
  Trial(const uint8_t* data, size_t size) : in_(data, size) {
    std::ranges::fill(arena_, kGuard);
    for (size_t i = 0; i < kFixed; ++i) {
      const uint32_t pd = i < 4 ? kPd : i == 4 ? kOtherPd : kSecretPd;
      std::fill_n(arena_.begin() + FixedOffset(i), kRegion, pd == kSecretPd ? kSecret : kOrdinary);
      Register({.pd = pd, .offset = FixedOffset(i), .length = kRegion, .rights = Rights(kFixedRights[i])});
    }
    shadow_ = arena_;
    cqs_ = {nic_.CreateCq(8), nic_.CreateCq(64)};
    srq_ = nic_.CreateSrq(kDepth);
    for (End& end : ends_) Open(end);
  }

  void Run() {
    while (!in_.empty()) {
      Step();
      const std::vector<bool> allowed = Allowed();
      roce::testing::KeepingSink sink;
      nic_.Run(now_, sink);
      Check(allowed);
      CheckSent(sink);
      if (polls_) TakeCompletions();
      for (Event event; nic_.NextEvent(&event);) EPIC_CHECK(event.id != 0);
    }
    for (End& end : ends_) {
      if (end.exists) Close(end);
    }
    EPIC_CHECK(nic_.PollCq(cqs_[0], works_) == 0 && nic_.PollCq(cqs_[1], works_) == 0);
  }

 private:
  static size_t FixedOffset(size_t i) { return kGap + i * kStride; }
  uint32_t Next32() {
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value = value << 8 | in_.Next();
    return value;
  }

  void Step() {
    switch (in_.Next() % 16) {
      case 0:
        return PostSend();
      case 1:
        return PostRecv(false);
      case 2:
        return PostRecv(true);
      case 3:
        now_ += in_.Next() * kMillisecond;
        return;
      case 4:
        return ChangeState();
      case 5:
        return ChangeMemory();
      case 6:
        polls_ = in_.Next() < 0xc0;
        nic_.ArmCq(cqs_[in_.Next() % 2], (in_.Next() & 1) != 0);
        return nic_.SetSrqLimit(srq_, in_.Next() % kDepth);
      case 7:
        return ArriveDatagram();
      default:
        return Arrive();
    }
  }

  // --- calls

  End& SomeEnd() { return ends_[in_.Next() % ends_.size()]; }

  void Open(End& end) {
    end.exists = true;
    nic_.CreateQp({.type = end.type,
                   .qpn = end.qpn,
                   .pd = end.pd,
                   .send_cq = cqs_[0],
                   .recv_cq = cqs_[1],
                   .srq = end.shared ? std::optional(srq_) : std::nullopt,
                   .send_depth = kDepth,
                   .recv_depth = kDepth,
                   .max_inline_bytes = 32});
    Connect(nic_, end);
  }

  void Close(End& end) {
    end.exists = false;
    nic_.DestroyQp(end.qpn);
    ForgetBuffers(end);
  }

  void ChangeState() {
    End& end = SomeEnd();
    const uint8_t how = in_.Next() % 4;
    if (!end.exists) return Open(end);
    if (how == 0) return Close(end);
    const bool ud = end.type == QpType::kUd;
    Change(nic_, end, how == 1 ? QpState::kErr : how == 2 && !ud ? QpState::kSqd : QpState::kReset);
    if (nic_.state(end.qpn) != QpState::kReset) return;
    ForgetBuffers(end);
    Connect(nic_, end);
  }

  void Register(Mr mr) {
    mr.key =
        *nic_.memory().Register(mr.pd, arena_.data() + mr.offset, kBase + mr.offset, mr.length, mr.rights);
    mr.live = true;
    mrs_.push_back(mr);
  }

  // Parts of the third region come and go, with any rights; sometimes one of the first three goes for good.
  void ChangeMemory() {
    const uint8_t how = in_.Next();
    if ((how & 1) != 0 && mrs_.size() < kMaxMrs) {
      const size_t from = in_.Next(), length = 1 + in_.Next();
      return Register(
          {.pd = kPd, .offset = FixedOffset(2) + from, .length = length, .rights = Rights(how >> 1)});
    }
    Mr& mr = mrs_[in_.Next() % mrs_.size()];
    if (mr.pd != kPd) return;
    EPIC_CHECK(nic_.memory().Deregister(mr.key) == mr.live);
    mr.live = false;
  }

  // Mostly a key that is or was one, sometimes any number.
  uint32_t SomeKey() {
    const uint8_t how = in_.Next();
    return how < 0xe0 ? mrs_[how % mrs_.size()].key : Next32();
  }

  // Mostly in or close to what the key names.
  uint64_t SomeAddress(uint32_t key) {
    const uint8_t how = in_.Next();
    const auto mr = std::ranges::find(mrs_, key, &Mr::key);
    if (how >= 0xf0 || mr == mrs_.end()) return uint64_t{Next32()} << (in_.Next() % 33);
    return kBase + mr->offset + (how < 0x80 ? how : mr->length + how - 0xb0);
  }

  // Mostly one piece, sometimes more than lie in place.
  std::vector<roce::Sge> SomeSges() {
    const uint8_t how = in_.Next();
    std::vector<roce::Sge> sges(how < 0xd0 ? 1 : how % 8);
    for (roce::Sge& sge : sges) {
      sge.lkey = SomeKey();
      sge.address = SomeAddress(sge.lkey);
      sge.length = in_.Next() * 3u;
    }
    return sges;
  }

  void NoteBuffer(const End& end, bool shared, std::span<const roce::Sge> sges) {
    static constexpr roce::Sge kNothing;
    for (const roce::Sge& sge : sges.empty() ? std::span(&kNothing, 1) : sges)
      buffers_.push_back({next_id_, shared ? Qpn{} : end.qpn, shared ? kPd : end.pd, sge});
  }

  void PostSend() {
    const End& end = SomeEnd();
    if (!end.exists) return;
    const uint8_t how = in_.Next();
    roce::SendWr wr{.wr_id = next_id_, .opcode = static_cast<roce::WrOpcode>(how % 5)};
    wr.signaled = (how & 8) != 0 || wr.opcode == roce::WrOpcode::kRead;
    wr.fence = (how & 16) != 0;
    wr.solicited = (how & 32) != 0;
    const std::vector<roce::Sge> sges = SomeSges();
    wr.sges = roce::SgeList::Of(sges);
    static constexpr std::array<uint8_t, 32> kInline{};
    if ((how & 192) == 192) wr.inline_bytes = kInline;
    wr.rkey = SomeKey();
    wr.remote_address = SomeAddress(wr.rkey);
    wr.ud = {(how & 64) != 0 ? kIp : kPeerIp, ends_[in_.Next() % ends_.size()].qpn, kQkey};
    if (nic_.PostSend(end.qpn, wr) != roce::PostResult::kOk) return;
    if (wr.opcode == roce::WrOpcode::kRead) NoteBuffer(end, false, sges);
    ++next_id_;
  }

  // By a queue pair, or to the shared queue.
  void PostRecv(bool shared) {
    const End& end = SomeEnd();
    const std::vector<roce::Sge> sges = SomeSges();
    const roce::RecvWr wr{next_id_, roce::SgeList::Of(sges)};
    if (!shared && !end.exists) return;
    const auto posted = shared ? nic_.PostSrqRecv(srq_, wr) : nic_.PostRecv(end.qpn, wr);
    if (posted != roce::PostResult::kOk) return;
    NoteBuffer(end, shared, sges);
    ++next_id_;
  }

  // --- packets

  uint32_t SomePsn(uint32_t due) {
    const uint8_t how = in_.Next();
    return how < 0xf0 ? due + (how & 0xf) - 2 : Next32();
  }

  void Arrive() {
    End& end = SomeEnd();
    const uint8_t flags = in_.Next();
    Packet p;
    p.src_ip = end.peer_ip;
    p.dst_ip = kIp;
    // Those of RC, or of UC; sometimes of the other one.
    const uint8_t operation = in_.Next();
    const bool uc = (end.type == QpType::kUc) != (operation >= 0xf0);
    p.bth.opcode = roce::Opcode{static_cast<uint8_t>(operation % 0x12)};
    if (uc && p.bth.opcode <= roce::Opcode::kRcWriteOnlyImm) p.bth.opcode = roce::UcOf(p.bth.opcode);
    const roce::OpcodeInfo& info = roce::Info(p.bth.opcode);
    p.bth.dest_qp = end.qpn;
    p.bth.ack_req = (flags & 1) != 0;
    p.bth.solicited = (flags & 2) != 0;
    const bool response = info.aeth || p.bth.opcode == roce::Opcode::kRcReadResponseMiddle;
    p.bth.psn = Psn(SomePsn(response ? 100u + in_.Next() : end.next_psn));
    p.aeth.syndrome = (flags & 4) != 0 ? roce::kSyndromeAck : in_.Next();
    const size_t bytes = !info.payload ? 0 : (flags & 8) != 0 ? kMtu : in_.Next() * 2u;
    const std::vector<uint8_t> payload(bytes, kArriving);
    p.payload = payload;
    if (info.reth) {
      p.reth.rkey = SomeKey();
      p.reth.virtual_address = SomeAddress(p.reth.rkey);
      const uint32_t more = info.only && info.payload ? 0 : in_.Next() * 4u;
      p.reth.dma_length = (flags & 16) != 0 ? static_cast<uint32_t>(payload.size()) + more : Next32();
    }
    nic_.OnPacket(now_, p);
    if (end.exists && end.type != QpType::kUd && !response) end.next_psn = p.bth.psn.raw() + 1;
  }

  void ArriveDatagram() {
    const uint8_t flags = in_.Next();
    Packet p;
    p.src_ip = kPeerIp;
    p.dst_ip = (flags & 1) != 0 ? kGroup : kIp;
    p.bth.opcode = (flags & 2) != 0 ? roce::Opcode::kUdSendOnly : roce::Opcode::kUdSendOnlyImm;
    p.bth.dest_qp = (flags & 1) != 0 ? roce::kMulticastQpn : SomeEnd().qpn;
    p.deth = {(flags & 4) != 0 ? kQkey : Next32(), kPeerQpn};
    const std::vector<uint8_t> payload(in_.Next() * 2u, kArriving);
    p.payload = payload;
    nic_.OnPacket(now_, p);
  }

  // --- what must hold

  bool PeerWrites(const Mr& mr) const {
    return mr.rights.remote_write && std::ranges::any_of(ends_, [&](const End& end) {
             return end.pd == mr.pd && end.remote_write && end.type != QpType::kUd;
           });
  }

  std::vector<bool> Allowed() const {
    std::vector<bool> allowed(kArena, false);
    for (const Mr& mr : mrs_) {
      if (!mr.live) continue;
      if (PeerWrites(mr)) std::fill_n(allowed.begin() + mr.offset, mr.length, true);
      if (!mr.rights.local_write) continue;
      for (const Buffer& buffer : buffers_) {
        if (buffer.sge.lkey != mr.key || buffer.pd != mr.pd) continue;
        const uint64_t begin = std::max(buffer.sge.address, kBase + mr.offset);
        const uint64_t end = std::min(buffer.sge.address + buffer.sge.length, kBase + mr.offset + mr.length);
        for (uint64_t a = begin; a < end; ++a) allowed[a - kBase] = true;
      }
    }
    return allowed;
  }

  void Check(const std::vector<bool>& allowed) {
    if (arena_ == shadow_) return;
    for (size_t i = 0; i < kArena; ++i) EPIC_CHECK(arena_[i] == shadow_[i] || allowed[i]);
    shadow_ = arena_;
  }

  static void CheckSent(const roce::testing::KeepingSink& sink) {
    EPIC_CHECK(sink.sent.size() <= 257 * kEnds);
    for (const roce::testing::OwnedPacket& packet : sink.sent) {
      EPIC_CHECK(packet.payload.size() <= kMtu);
      EPIC_CHECK(std::ranges::none_of(packet.payload, [](uint8_t b) { return b == kGuard || b == kSecret; }));
    }
  }

  void TakeCompletions() {
    for (const uint32_t cq : cqs_) {
      const size_t count = nic_.PollCq(cq, works_);
      for (const Work& work : std::span(works_).first(count)) {
        EPIC_CHECK(work.completion.wr_id < next_id_);
        const bool awaited =
            std::erase_if(buffers_, [&](const Buffer& b) { return b.id == work.completion.wr_id; }) > 0;
        EPIC_CHECK(awaited || !work.completion.is_recv());
      }
    }
  }

  // The receives of the shared queue stay: they belong to no queue pair yet.
  void ForgetBuffers(const End& end) {
    std::erase_if(buffers_, [&](const Buffer& b) { return b.qpn == end.qpn; });
  }

  FuzzInput in_;
  std::vector<uint8_t> arena_ = std::vector<uint8_t>(kArena), shadow_;
  Nic nic_{kIp, kMtu, roce::Policy{}};
  std::array<uint32_t, 2> cqs_{};
  uint32_t srq_ = 0;
  std::vector<Mr> mrs_;
  std::vector<Buffer> buffers_;
  std::array<Work, 64> works_;
  bool polls_ = true;
  Nanos now_ = 0;
  uint64_t next_id_ = 0;
  std::array<End, kEnds> ends_ = AllEnds();
};

}  // namespace
}  // namespace epic::softnic::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;
  epic::softnic::testing::Trial(data, size).Run();
  return 0;
}
