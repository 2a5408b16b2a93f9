// Our end of the exchange, and beside it of the unreliable one; may lose frames by seed in both directions.
// Prints "done" when the first is and of the other all are sent, "all" when all of it have come, and at the
// end of input "ok" and its counters, or what was wrong.
#include <array>
#include <cstdio>
#include <numeric>
#include <utility>

#include "base/command_line.h"
#include "io/clock.h"
#include "tests/rxe_peer/ends.h"
#include "tests/rxe_peer/exchange.h"
#include "tests/rxe_peer/transport_uc.h"
#include "tests/rxe_peer/wire_end.h"

namespace epic::rxe_peer {
namespace {

struct Options : ExchangeOptions {
  std::vector<uint32_t> peer_windows;  // the keys of its windows
  UcPeerOptions peer_uc;
};

// Windows are bound from the beginning, until the peer invalidates them.
class WindowMemory final : public FlatMemory {
 public:
  WindowMemory() : FlatMemory(Exchange::kBytes) { bound_.fill(true); }
  std::optional<std::span<uint8_t>> Map(roce::Access access, uint32_t key, uint64_t address,
                                        uint32_t length) override {
    const size_t window = key - kOurWindow;
    if (window >= kWindows) return FlatMemory::Map(access, key, address, length);
    const int k = WindowWriteOf(static_cast<int>(window));
    const uint64_t begin = Exchange::OffsetOf(Exchange::kTarget, k);
    if (!bound_[window] || access != roce::Access::kRemoteWrite || address < begin ||
        address + length > begin + BytesOf(k)) {
      return std::nullopt;
    }
    return std::span(bytes).subspan(address, length);
  }
  bool Invalidate(uint32_t rkey) override {
    const size_t window = rkey - kOurWindow;
    return window < kWindows && std::exchange(bound_[window], false);
  }

 private:
  std::array<bool, kWindows> bound_;
};

Exchange::Windows OurWindows() {
  Exchange::Windows keys;
  std::iota(keys.begin(), keys.end(), kOurWindow);
  return keys;
}

class TransportEnd final : public WireEnd {
 public:
  TransportEnd(const Options& options, WindowMemory& memory, io::PcapPort& port, io::EventLoop& loop)
      : WireEnd(options.end, memory, port, loop),
        options_(options),
        losses_(options),
        exchange_(0, memory.bytes, OurWindows()),
        uc_(options.end, kOurUcQpn, options.peer_uc) {}

  void Send(const roce::Packet& packet) override {
    if (!losses_.Next()) Transmit(FrameOf(packet));
  }

  int Report() override {
    exchange_.CheckNumber();
    const bool ok = exchange_.done() && exchange_.wrong() == 0 && !failed_ && uc_.exchange().all_sent() &&
                    uc_.exchange().wrong() == 0 && !uc_.failed();
    const roce::QpCounters& c = qp().counters();
    const roce::UcCounters& u = uc_.counters();
    std::printf(
        "%s lost %d sent %lu repeated %lu timeouts %lu naks %lu/%lu rnr_naks %lu/%lu duplicates %lu "
        "uc_arrived %d "
        "uc_cut_short %lu uc_out_of_sequence %lu uc_others %lu\n",
        ok ? "ok" : "failed", losses_.count(), c.packets_sent, c.packets_repeated, c.timeouts,
        c.naks_received, c.naks_sent, c.rnr_naks_received, c.rnr_naks_sent, c.duplicates,
        uc_.exchange().arrived(), u.cut_short, u.out_of_sequence,
        u.refused + u.no_recv + u.bad_state + u.not_ours);
    return ok ? 0 : 1;
  }

 private:
  void Hear(const roce::Packet& packet) override {
    if (losses_.Next()) return;
    if (packet.bth.dest_qp == Qpn{kOurUcQpn}) return uc_.Hear(packet);
    WireEnd::Hear(packet);
  }

  void Use(roce::QueuePair& qp) override {
    roce::Completion done;
    while (qp.NextCompletion(&done)) Take(done);
    if (heard()) Post(qp);
    // One a millisecond, as rxe_end.
    const Nanos now = io::MonotonicNow();
    const bool may_send = heard() && now >= next_unreliable_;
    if (may_send) next_unreliable_ = now + kMillisecond;
    uc_.Work(may_send, *this);
    uc_.exchange().Tell();
    failed_ |= uc_.failed();
    if (said_ || (!(exchange_.done() && uc_.exchange().all_sent()) && !failed_)) return;
    said_ = true;
    std::printf(failed_ ? "stopped\n" : "done\n");
    std::fflush(stdout);
  }

  void Take(const roce::Completion& done) {
    if (!done.ok()) {
      std::printf("transport_end: completion with %s\n", roce::Name(done.status));
      failed_ = true;
    } else if (done.is_recv()) {
      exchange_.OnReceived(done.bytes, done.has_imm, done.imm, done.invalidated_rkey);
    } else {
      exchange_.OnCompleted(static_cast<int>(done.wr_id));
    }
  }

  static roce::SgeList OneSge(Exchange::Area area, int slot, uint32_t bytes) {
    roce::SgeList list;
    list.count = 1;
    list.sge[0] = {Exchange::OffsetOf(area, slot), bytes, kOurRkey};
    return list;
  }

  void Post(roce::QueuePair& qp) {
    while (exchange_.may_receive(qp.counters().rnr_naks_sent)) {
      qp.PostRecv({.sges = OneSge(Exchange::kRecv, exchange_.PostReceive(), kSlot)});
    }
    while (exchange_.may_post()) {
      const int k = exchange_.Post();
      const Op op = OpOf(k);
      roce::SendWr wr{.wr_id = static_cast<uint64_t>(k), .inline_bytes = {}, .imm = static_cast<uint32_t>(k)};
      constexpr roce::WrOpcode kOpcodes[] = {roce::WrOpcode::kSend,     roce::WrOpcode::kSendImm,
                                             roce::WrOpcode::kWrite,    roce::WrOpcode::kRead,
                                             roce::WrOpcode::kFetchAdd, roce::WrOpcode::kCompareSwap,
                                             roce::WrOpcode::kWrite,    roce::WrOpcode::kSendInv};
      wr.opcode = kOpcodes[static_cast<size_t>(op)];
      wr.sges = OneSge(Brings(op) ? Exchange::kIn : Exchange::kOut, k, BytesOf(k));
      const size_t at = IsAtomic(op)
                            ? Exchange::kNumberAt
                            : Exchange::OffsetOf(op == Op::kRead ? Exchange::kOut : Exchange::kTarget, k);
      wr.remote_address = options_.peer_memory + at;
      const uint32_t window = options_.peer_windows.at(static_cast<size_t>(WindowOf(k)));
      wr.rkey = op == Op::kWindowWrite ? window : options_.peer_rkey;
      wr.invalidate_rkey = window;
      wr.compare_add = op == Op::kFetchAdd ? OperandOf(k) : ComparedBy(k);
      wr.swap = OperandOf(k);
      failed_ |= qp.PostSend(wr) != roce::PostResult::kOk;
    }
  }

  const Options& options_;
  Losses losses_;
  Exchange exchange_;
  TransportUc uc_;
  Nanos next_unreliable_ = 0;
  bool failed_ = false, said_ = false;
};

}  // namespace
}  // namespace epic::rxe_peer

int main(int argc, char** argv) {
  using namespace epic::rxe_peer;
  Options options;
  epic::CommandLine line("The transport's end of an exchange with an rdma_rxe host; needs CAP_NET_RAW");
  options.AddTo(line);
  line.Add("--peer-windows", &options.peer_windows, "the keys of its windows").Expected(kWindows).Required();
  line.Add("--peer-uc-qpn", &options.peer_uc.qpn, "of its unreliable queue pair").Required();
  line.Add("--peer-uc-rkey", &options.peer_uc.rkey).Required();
  line.Add("--peer-uc-memory", &options.peer_uc.memory).Required();
  if (const auto exit_code = line.Parse(argc, argv)) return *exit_code;
  WindowMemory memory;
  return RunEnd(options.end.interface, [&](epic::io::PcapPort& port, epic::io::EventLoop& loop) {
    return std::make_unique<TransportEnd>(options, memory, port, loop);
  });
}
