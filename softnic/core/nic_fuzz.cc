// Bytes as packets, verbs calls and time against an adapter with live queue pairs. Whatever they are:
//   - no byte changes but those that the peer may write, by a key, its bounds, its rights and its protection
//     domain, or by a window's, and those of receives, Reads and atomics that have not completed; guard bytes
//     lie around every region;
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
#include "softnic/core/nic.h"
#include "softnic/core/nic_fuzz_ends.h"
#include "softnic/core/nic_fuzz_testing.h"
#include "softnic/core/nic_fuzz_windows.h"

namespace epic::softnic::testing {
namespace {

using roce::Packet;
using roce::QpState;

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
    windows_.OnDestroyed(end.qpn);
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
    if ((how & 2) != 0) windows_.Replace(how >> 2);
    if (nic_.memory().HasWindows(mr.key)) {
      windows_.CheckKept(mr.key);
      EPIC_CHECK(mr.live && !nic_.memory().Deregister(mr.key));
      return;
    }
    EPIC_CHECK(nic_.memory().Deregister(mr.key) == mr.live);
    mr.live = false;
  }

  // Mostly a key that is or was one, sometimes any number.
  uint32_t SomeKey() {
    const uint8_t how = in_.Next();
    return how < 0xb0 ? mrs_[how % mrs_.size()].key : how < 0xf0 ? windows_.KeyOf(how) : Next32();
  }

  // Mostly in or close to what the key names.
  uint64_t SomeAddress(uint32_t key) {
    const uint8_t how = in_.Next();
    const auto mr = std::ranges::find(mrs_, key, &Mr::key);
    if (how < 0xc0 && mr == mrs_.end()) return windows_.AddressIn(key, how);
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
    roce::SendWr wr{.wr_id = next_id_, .opcode = static_cast<roce::WrOpcode>(how % 10)};
    wr.signaled = (how & 8) != 0 || roce::IsReadOrAtomic(wr.opcode);
    wr.fence = (how & 16) != 0;
    wr.solicited = (how & 32) != 0;
    const std::vector<roce::Sge> sges = SomeSges();
    wr.sges = roce::SgeList::Of(sges);
    static constexpr std::array<uint8_t, 32> kInline{};
    if ((how & 192) == 192) wr.inline_bytes = kInline;
    wr.rkey = SomeKey();
    wr.remote_address = SomeAddress(wr.rkey);
    if (roce::IsAtomic(wr.opcode)) SetAtomic(wr);
    wr.ud = {(how & 64) != 0 ? kIp : kPeerIp, ends_[in_.Next() % ends_.size()].qpn, kQkey};
    wr.invalidate_rkey = wr.rkey;
    if (roce::IsLocal(wr.opcode)) SetLocal(wr);
    if (nic_.PostSend(end.qpn, wr) != roce::PostResult::kOk) return;
    windows_.OnPosted(next_id_, end, wr, mrs_);
    if (roce::IsReadOrAtomic(wr.opcode)) NoteBuffer(end, false, sges);
    ++next_id_;
  }

  void SetLocal(roce::SendWr& wr) {
    wr.signaled = true;
    wr.inline_bytes = {};
    wr.sges.count = 0;
    if (wr.opcode != roce::WrOpcode::kBindMw) return;
    const uint8_t which = in_.Next();
    wr.bind = windows_.SomeBind(which, which >> 4);
    // Mostly a part of the first region, or of the third, which peers may use by windows only.
    const uint8_t how = in_.Next();
    const size_t region = (how & 1) != 0 ? 0 : 2;
    if (how < 0xe0) {
      wr.bind.lkey = mrs_[region].key;
      wr.bind.address = kBase + FixedOffset(region) + in_.Next();
      wr.bind.length = 1 + in_.Next();
    } else {
      wr.bind.lkey = wr.sges.sge[0].lkey;
      wr.bind.address = wr.sges.sge[0].address;
      wr.bind.length = wr.sges.sge[0].length;
    }
  }

  void SetAtomic(roce::SendWr& wr) {
    const uint8_t how = in_.Next();
    if ((how & 1) != 0) wr.remote_address &= ~uint64_t{7};
    const bool swaps = wr.opcode == roce::WrOpcode::kCompareSwap;
    wr.compare_add = !swaps ? 0 : (how & 2) != 0 ? kOrdinaryWord : kArrivingWord;
    wr.swap = (how & 4) != 0 ? kOrdinaryWord : kArrivingWord;
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
    p.bth.opcode = roce::Opcode{static_cast<uint8_t>(operation % 0x18)};
    if (uc && p.bth.opcode <= roce::Opcode::kRcWriteOnlyImm) p.bth.opcode = roce::UcOf(p.bth.opcode);
    if (!roce::Info(p.bth.opcode).known) return;
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
    if (info.atomic_eth) {
      roce::SendWr same{.opcode = p.bth.opcode == roce::Opcode::kRcCompareSwap ? roce::WrOpcode::kCompareSwap
                                                                               : roce::WrOpcode::kFetchAdd};
      same.rkey = SomeKey();
      same.remote_address = SomeAddress(same.rkey);
      SetAtomic(same);
      const bool swaps = same.opcode == roce::WrOpcode::kCompareSwap;
      p.atomic = {same.remote_address, same.rkey, swaps ? same.swap : same.compare_add,
                  swaps ? same.compare_add : 0};
    }
    p.original = kArrivingWord;
    if (info.ieth) p.invalidate_rkey = SomeKey();
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

  std::vector<bool> Allowed() const {
    std::vector<bool> allowed(kArena, false);
    for (const Mr& mr : mrs_) {
      if (!mr.live) continue;
      if (PeerWrites(mr, ends_)) std::fill_n(allowed.begin() + mr.offset, mr.length, true);
      if (!mr.rights.local_write) continue;
      for (const Buffer& buffer : buffers_) {
        if (buffer.sge.lkey != mr.key || buffer.pd != mr.pd) continue;
        const uint64_t begin = std::max(buffer.sge.address, kBase + mr.offset);
        const uint64_t end = std::min(buffer.sge.address + buffer.sge.length, kBase + mr.offset + mr.length);
        for (uint64_t a = begin; a < end; ++a) allowed[a - kBase] = true;
      }
    }
    windows_.ForWritable(mrs_, ends_, [&](size_t offset, size_t length) {
      std::fill_n(allowed.begin() + offset, length, true);
    });
    return allowed;
  }

  void Check(const std::vector<bool>& allowed) {
    if (arena_ == shadow_) return;
    for (size_t i = 0; i < kArena; ++i) EPIC_CHECK(arena_[i] == shadow_[i] || allowed[i]);
    shadow_ = arena_;
  }

  void TakeCompletions() {
    windows_.BeginRound();
    for (const uint32_t cq : cqs_) {
      const size_t count = nic_.PollCq(cq, works_);
      for (const Work& work : std::span(works_).first(count)) {
        EPIC_CHECK(work.completion.wr_id < next_id_);
        windows_.OnCompleted(work);
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
  FuzzWindows windows_{nic_.memory()};
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
