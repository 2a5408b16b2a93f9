// Our end of an unreliable exchange; may lose frames by seed in both directions. Says what uc_end says, and
// counts what it lost.
#include <cstdio>

#include "base/command_line.h"
#include "tests/rxe_peer/ends.h"
#include "tests/rxe_peer/transport_uc.h"

namespace epic::rxe_peer {
namespace {

// WireEnd's own queue pair, a reliable one, has nothing to do.
class TransportUcEnd final : public WireEnd {
 public:
  TransportUcEnd(const ExchangeOptions& options, FlatMemory& idle, io::PcapPort& port, io::EventLoop& loop)
      : WireEnd(options.end, idle, port, loop),
        losses_(options),
        uc_(options.end, kOurQpn, {options.end.peer_qpn, options.peer_rkey, options.peer_memory}) {}

  void Send(const roce::Packet& packet) override {
    if (!losses_.Next()) Transmit(FrameOf(packet));
  }

  int Report() override {
    const bool ok = uc_.exchange().wrong() == 0 && !uc_.failed();
    const roce::UcCounters& c = uc_.counters();
    std::printf("%s arrived %d lost %d cut_short %lu out_of_sequence %lu refused %lu no_recv %lu\n",
                ok ? "ok" : "failed", uc_.exchange().arrived(), losses_.count(), c.cut_short,
                c.out_of_sequence, c.refused, c.no_recv);
    return ok ? 0 : 1;
  }

 private:
  void Hear(const roce::Packet& packet) override {
    if (!losses_.Next()) uc_.Hear(packet);
  }

  void Use(roce::QueuePair& /*idle*/) override {
    uc_.Work(heard(), *this);
    uc_.exchange().Tell();
  }

  Losses losses_;
  TransportUc uc_;
};

}  // namespace
}  // namespace epic::rxe_peer

int main(int argc, char** argv) {
  using namespace epic::rxe_peer;
  ExchangeOptions options;
  epic::CommandLine line(
      "The transport's end of an unreliable exchange with an rdma_rxe host; needs CAP_NET_RAW");
  options.AddTo(line);
  if (const auto exit_code = line.Parse(argc, argv)) return *exit_code;
  FlatMemory idle(0);
  return RunEnd(options.end.interface, [&](epic::io::PcapPort& port, epic::io::EventLoop& loop) {
    return std::make_unique<TransportUcEnd>(options, idle, port, loop);
  });
}
