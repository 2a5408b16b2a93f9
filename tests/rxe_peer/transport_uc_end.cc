// Our end of an unreliable exchange: roce/transport's UC queue pair; may lose frames by seed in both
// directions. Says what uc_end says, and counts what it lost.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "roce/transport/uc.h"
#include "tests/rxe_peer/ends.h"
#include "tests/rxe_peer/uc_exchange.h"
#include "tests/rxe_peer/wire_end.h"

namespace epic::rxe_peer {
namespace {

// WireEnd's own queue pair, a reliable one, has nothing to do.
class TransportUcEnd final : public WireEnd {
 public:
  TransportUcEnd(const ExchangeOptions& options, FlatMemory& memory, io::PcapPort& port, io::EventLoop& loop)
      : WireEnd(options.end, memory, port, loop),
        options_(options),
        memory_(memory),
        losses_(options),
        uc_({.local_ip = Ipv4{options.end.address}, .local_qpn = Qpn{kOurQpn}}),
        exchange_(0, memory.bytes) {
    uc_.Modify({.state = roce::QpState::kInit, .remote_write = true});
    uc_.Modify({.state = roce::QpState::kRtr,
                .remote_ip = Ipv4{options.end.peer_address},
                .remote_qpn = Qpn{options.end.peer_qpn},
                .path_mtu = kPathMtu,
                .rq_psn = Psn(kFirstPsn)});
    uc_.Modify({.state = roce::QpState::kRts, .sq_psn = Psn(kFirstPsn)});
    for (int buffer = 0; buffer < UcExchange::kReceives; ++buffer) PostReceive(buffer);
  }

  void Send(const roce::Packet& packet) override {
    if (!losses_.Next()) Transmit(FrameOf(packet));
  }

  int Report() override {
    const bool ok = exchange_.wrong() == 0 && !failed_;
    const roce::UcCounters& c = uc_.counters();
    std::printf("%s arrived %d lost %d cut_short %lu out_of_sequence %lu refused %lu no_recv %lu\n",
                ok ? "ok" : "failed", exchange_.arrived(), losses_.count(), c.cut_short, c.out_of_sequence,
                c.refused, c.no_recv);
    return ok ? 0 : 1;
  }

 private:
  void Hear(const roce::Packet& packet) override {
    if (!losses_.Next()) uc_.OnPacket(packet, memory_);
  }

  void Use(roce::QueuePair& /*idle*/) override {
    for (roce::Completion done; uc_.NextCompletion(&done);) Take(done);
    if (heard() && exchange_.may_post()) Post(exchange_.Post());
    uc_.Poll(memory_, *this);
    exchange_.Tell();
  }

  void Take(const roce::Completion& done) {
    if (!done.ok()) {
      std::printf("completion with %s\n", roce::Name(done.status));
      failed_ = true;
    } else if (done.is_recv()) {
      const auto buffer = static_cast<int>(done.wr_id);
      exchange_.OnReceived(buffer, done.bytes, done.has_imm, done.imm);
      PostReceive(buffer);
    } else {
      exchange_.OnCompleted();
    }
  }

  void PostReceive(int buffer) {
    const roce::Sge sge{UcExchange::ReceiveOf(buffer), UcExchange::kMost, kOurRkey};
    failed_ |= uc_.PostRecv({.wr_id = static_cast<uint64_t>(buffer), .sges = roce::SgeList::Of({&sge, 1})}) !=
               roce::PostResult::kOk;
  }

  void Post(int k) {
    using Kind = UcExchange::Kind;
    const Kind kind = UcExchange::KindOf(k);
    const roce::Sge sge{UcExchange::kOut, exchange_.BytesOf(k), kOurRkey};
    roce::SendWr wr{.sges = roce::SgeList::Of({&sge, 1}), .imm = static_cast<uint32_t>(k)};
    wr.opcode = kind == Kind::kSend      ? roce::WrOpcode::kSend
                : kind == Kind::kSendImm ? roce::WrOpcode::kSendImm
                                         : roce::WrOpcode::kWriteImm;
    wr.remote_address = options_.peer_memory + UcExchange::TargetOf(k);
    wr.rkey = options_.peer_rkey;
    failed_ |= uc_.PostSend(wr) != roce::PostResult::kOk;
  }

  const ExchangeOptions& options_;
  FlatMemory& memory_;
  Losses losses_;
  roce::UcQueuePair uc_;
  UcExchange exchange_;
  bool failed_ = false;
};

}  // namespace
}  // namespace epic::rxe_peer

int main(int argc, char** argv) {
  using namespace epic::rxe_peer;
  ExchangeOptions options;
  CLI::App app("The transport's end of an unreliable exchange with an rdma_rxe host; needs CAP_NET_RAW");
  options.AddTo(app);
  CLI11_PARSE(app, argc, argv);
  FlatMemory memory(UcExchange::kBytes);
  return RunEnd(options.end.interface, [&](epic::io::PcapPort& port, epic::io::EventLoop& loop) {
    return std::make_unique<TransportUcEnd>(options, memory, port, loop);
  });
}
