// Bytes as packets, verbs calls and time against an adapter with live queue pairs. Whatever they are:
//   - no byte changes but those that the peer may write, by a key, its bounds, its rights and its protection
//     domain, or by a window's, and those of receives, Reads and atomics that have not completed; guard bytes
//     lie around every region;
//   - no byte leaves that nobody may send: neither a guard byte nor a secret of another protection domain;
//   - completions are of requests that wait, and each comes once.
// AddressSanitizer watches the rest.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/check.h"
#include "roce/transport/transport_testing.h"
#include "softnic/core/nic.h"
#include "softnic/core/nic_fuzz_choices.h"

namespace epic::softnic::testing {
namespace {

using roce::QpState;
using roce::testing::OwnedPacket;

class Trial final : private Choices {
 public:
  Trial(const uint8_t* data, size_t size) : Choices(data, size) {
    nic_.SetPlaces(10);  // so that Reads wait for each other
    nic_.SetMoreAddresses({kIp6});
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
      roce::testing::KeepingSink sink;
      if (runs_) nic_.Run(now_, sink);
      Check();
      CheckSent(sink);
      NoteSent(sink);
      if (polls_) TakeCompletions();
      for (Event event; nic_.NextEvent(&event);) EPIC_CHECK(event.id != 0);
    }
    for (End& end : ends_) {
      if (end.exists) Close(end);
    }
    EPIC_CHECK(nic_.PollCq(cqs_[0], works_) == 0 && nic_.PollCq(cqs_[1], works_) == 0);
    for (const uint32_t cq : cqs_) nic_.DestroyCq(cq);
    nic_.DestroySrq(srq_);
    for (Event event; nic_.NextEvent(&event);)
      EPIC_CHECK(event.kind != Event::Kind::kCompletion && event.kind != Event::Kind::kCqOverrun);
  }

 private:
  void Step() {
    switch (in_.Next() % 24) {
      case 0:
        return PostSend();
      case 1:
        return PostRecv(false);
      case 2:
        return PostRecv(true);
      case 3:
        now_ += in_.Next() * kMillisecond;
        return nic_.SetTime(now_);
      case 4:
        return ChangeState();
      case 5:
        return ChangeMemory();
      case 6:
        return ChangeQueues();
      case 7:
        return void(nic_.OnPacket(now_, SomeDatagram().packet()));
      case 8:
        return PostBatch();
      case 9:
        return Reregister();
      case 10:
        return ChangeEnd();
      case 11:
        return void(runs_ = !runs_);
      case 12:
      case 13:
        for (const OwnedPacket& packet : AnswersTo(SomeEnd())) nic_.OnPacket(now_, packet.packet());
        return;
      case 23:
        return Flood(SomeEnd());
      default:
        if (const auto packet = SomePacket(SomeEnd())) nic_.OnPacket(now_, packet->packet());
    }
  }

  // The same packet with one PSN after the other: more answers than there is room for.
  void Flood(End& end) {
    constexpr int kFlood = 200;
    auto packet = SomePacket(end);
    if (!packet) return;
    const bool asks = end.next_psn == packet->head.bth.psn.raw() + 1;
    for (int i = 0; i < kFlood; ++i) {
      nic_.OnPacket(now_, packet->packet());
      packet->head.bth.psn = packet->head.bth.psn + 1;
    }
    if (asks) end.next_psn = packet->head.bth.psn.raw();
  }

  // --- calls

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
    const bool ud = end.type == QpType::kUd;
    EPIC_CHECK(nic_.AttachMulticast(end.qpn, kGroup) == ud);
    end.attached = {ud, false};
    Connect(nic_, end);
  }

  void Close(End& end) {
    end.exists = false;
    if (end.type == QpType::kUd) end.shared = !end.shared;  // when it is opened again
    nic_.DestroyQp(end.qpn);
    windows_.OnDestroyed(end.qpn);
    ForgetBuffers(end);
  }

  void ChangeState() {
    End& end = SomeEnd();
    const uint8_t how = in_.Next() % 8;
    if (!end.exists) return Open(end);
    if (how == 0) return Close(end);
    if (how == 1) return Change(nic_, end, QpState::kErr);
    if (how == 2) return Change(nic_, end, QpState::kSqd);
    if (how == 3) return Change(nic_, end, QpState::kRts);  // from SQD or SQE, or refused
    Change(nic_, end, QpState::kReset);
    windows_.OnReset(end.qpn);
    ForgetBuffers(end);
    Connect(nic_, end, how == 4 ? QpState::kInit : how == 5 ? QpState::kRtr : QpState::kRts);
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

  // Any part of the fixed regions' bytes, but for the secret ones, in any domain with any rights; windows
  // that are bound, or may be before long, keep it as it is.
  void Reregister() {
    Mr& mr = mrs_[in_.Next() % mrs_.size()];
    const uint8_t what = in_.Next();
    const size_t region = in_.Next() % (kFixed - 1), from = in_.Next(), length = in_.Next();
    if (mr.pd == kSecretPd || nic_.memory().HasWindows(mr.key) || windows_.IsAwaited(mr.key)) return;
    std::optional<MemoryRange> range;
    std::optional<uint32_t> pd;
    std::optional<MemoryRights> rights;
    const size_t offset = FixedOffset(region) + from;
    if ((what & 1) != 0) range = {arena_.data() + offset, kBase + offset, length};
    if ((what & 2) != 0) pd = (what & 8) != 0 ? kPd : kOtherPd;
    if ((what & 4) != 0) rights = Rights(what >> 3);
    const bool may = mr.live && (!range || length != 0);
    EPIC_CHECK(nic_.memory().Reregister(mr.key, range, pd, rights) == may);
    if (!may) return;
    if (range) {
      mr.offset = offset;
      mr.length = length;
    }
    mr.pd = pd.value_or(mr.pd);
    mr.rights = rights.value_or(mr.rights);
  }

  void ChangeQueues() {
    const uint8_t how = in_.Next();
    const uint32_t cq = cqs_[how % 2];
    if (how >= 0xf0) return void(nic_.ResizeCq(cq, 4u + how % 16));
    if (how >= 0xe0) return void(nic_.DisarmCq(cq));
    polls_ = how < 0xc0;
    nic_.ArmCq(cq, (how & 2) != 0);
    nic_.SetSrqLimit(srq_, in_.Next() % kDepth);
  }

  // What may be asked of an end at any time.
  void ChangeEnd() {
    End& end = SomeEnd();
    const uint8_t how = in_.Next();
    if (!end.exists) return;
    if (end.type == QpType::kRc) return nic_.ShareAcks(end.qpn, 1 + how % 4, (how >> 4) * kMillisecond);
    const bool first = (how & 1) != 0, attaches = (how & 2) == 0;
    const Ip group = first ? Ip(kGroup) : kGroup6;
    bool& attached = end.attached[first ? 0 : 1];
    if (attaches) {
      attached = end.type == QpType::kUd;
      EPIC_CHECK(nic_.AttachMulticast(end.qpn, group) == attached);
    } else {
      EPIC_CHECK(nic_.DetachMulticast(end.qpn, group) == std::exchange(attached, false));
    }
  }

  void NoteBuffer(const End& end, bool shared, std::span<const roce::Sge> sges) {
    static constexpr roce::Sge kNothing;
    for (const roce::Sge& sge : sges.empty() ? std::span(&kNothing, 1) : sges)
      buffers_.push_back({next_id_, shared ? Qpn{} : end.qpn, shared ? kPd : end.pd, sge});
  }

  void NotePosted(const End& end, const roce::SendWr& wr, std::span<const roce::Sge> sges) {
    windows_.OnPosted(wr.wr_id, end, wr, mrs_);
    if (roce::IsReadOrAtomic(wr.opcode)) NoteBuffer(end, false, sges);
    next_id_ = wr.wr_id + 1;
  }

  void PostSend() {
    const End& end = SomeEnd();
    if (!end.exists) return;
    const auto [wr, sges] = SomeRequest(next_id_);
    if (nic_.PostSend(end.qpn, wr) == roce::PostResult::kOk) NotePosted(end, wr, sges);
  }

  // Of one that is refused nothing is posted: its numbers are used again.
  void PostBatch() {
    const End& end = SomeEnd();
    if (!end.exists) return;
    std::vector<roce::SendWr> wrs;
    std::vector<std::vector<roce::Sge>> sges;
    for (size_t left = in_.Next() % 4u; left > 0; --left) {
      auto one = SomeRequest(next_id_ + wrs.size());
      wrs.push_back(std::move(one.first));
      sges.push_back(std::move(one.second));
    }
    if (nic_.PostSends(end.qpn, wrs) != roce::PostResult::kOk) return;
    for (size_t i = 0; i < wrs.size(); ++i) NotePosted(end, wrs[i], sges[i]);
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

  // Before completions are taken, which say that buffers are written no more.
  void Check() {
    if (arena_ == shadow_) return;
    const std::vector<bool> allowed = Allowed();
    for (size_t i = 0; i < kArena; ++i) EPIC_CHECK(arena_[i] == shadow_[i] || allowed[i]);
    shadow_ = arena_;
  }

  // The last request of each end, so that it can be answered. Its source port tells whose it is.
  void NoteSent(const roce::testing::KeepingSink& sink) {
    for (const OwnedPacket& packet : sink.sent) {
      const roce::Packet& p = packet.head;
      const roce::OpcodeInfo& info = roce::Info(p.bth.opcode);
      if (info.aeth || p.bth.opcode == roce::Opcode::kRcReadResponseMiddle) continue;
      const auto end = std::ranges::find(ends_, Qpn{p.udp_src_port & 0x3fffu}, &End::qpn);
      EPIC_CHECK(end != ends_.end());
      end->sent_psn = p.bth.psn.raw();
      end->sent_opcode = p.bth.opcode;
      end->sent_bytes = p.reth.dma_length;
    }
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

  std::array<uint32_t, 2> cqs_{};
  uint32_t srq_ = 0;
  std::vector<Buffer> buffers_;
  std::array<Work, 64> works_;
  bool polls_ = true;
  bool runs_ = true;  // after each step; else packets and calls gather
  Nanos now_ = 0;
  uint64_t next_id_ = 0;
};

}  // namespace
}  // namespace epic::softnic::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;
  epic::softnic::testing::Trial(data, size).Run();
  return 0;
}
