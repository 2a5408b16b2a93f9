// An end of an unreliable exchange with plain libibverbs, of rdma_rxe or of softnic. Prints "qpn rkey
// address", reads the other end's three numbers (its side is 0 or 1, and the other's the other), and prints
// "sent" when it has sent all, "all" when all have come, and at the end of its input "ok arrived N" or what
// was wrong.
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/rxe_peer/rxe_connection.h"
#include "tests/rxe_peer/uc_exchange.h"

namespace epic::rxe_peer {
namespace {

struct Peer {
  uint32_t qpn = 0, rkey = 0;
  unsigned long long memory = 0;
};

void PostReceive(const Connection& c, int buffer) {
  ibv_sge sge{.addr = reinterpret_cast<uintptr_t>(c.memory()) + UcExchange::ReceiveOf(buffer),
              .length = UcExchange::kMost,
              .lkey = c.mr->lkey};
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.wr_id = static_cast<uint64_t>(buffer);
  wr.sg_list = &sge;
  wr.num_sge = 1;
  if (ibv_post_recv(c.qp, &wr, &bad)) Die("ibv_post_recv");
}

void PostMessage(const Connection& c, int k, uint32_t bytes, const Peer& peer) {
  using Kind = UcExchange::Kind;
  const Kind kind = UcExchange::KindOf(k);
  ibv_sge sge{.addr = reinterpret_cast<uintptr_t>(c.memory()) + UcExchange::kOut,
              .length = bytes,
              .lkey = c.mr->lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = kind == Kind::kSend      ? IBV_WR_SEND
              : kind == Kind::kSendImm ? IBV_WR_SEND_WITH_IMM
                                       : IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.imm_data = htonl(static_cast<uint32_t>(k));
  if (kind == Kind::kWriteImm) {
    wr.wr.rdma.rkey = peer.rkey;
    wr.wr.rdma.remote_addr = peer.memory + UcExchange::TargetOf(k);
  }
  if (ibv_post_send(c.qp, &wr, &bad)) Die("ibv_post_send");
}

// Until the input ends. A message a millisecond: what is lost shall be lost on the way, not in a queue.
bool Run(const Connection& c, const Peer& peer, int side) {
  UcExchange exchange(side, {c.memory(), UcExchange::kBytes});
  pollfd input{STDIN_FILENO, POLLIN, 0};
  while (poll(&input, 1, 1) == 0) {
    for (ibv_wc wc; ibv_poll_cq(c.cq, 1, &wc) > 0;) {
      if (wc.status != IBV_WC_SUCCESS) {
        std::printf("completion with %s\n", ibv_wc_status_str(wc.status));
        return false;
      }
      if ((wc.opcode & IBV_WC_RECV) == 0) {
        exchange.OnCompleted();
        continue;
      }
      const auto buffer = static_cast<int>(wc.wr_id);
      exchange.OnReceived(buffer, wc.byte_len, (wc.wc_flags & IBV_WC_WITH_IMM) != 0, ntohl(wc.imm_data));
      PostReceive(c, buffer);
    }
    if (exchange.may_post()) {
      const int k = exchange.Post();
      PostMessage(c, k, exchange.BytesOf(k), peer);
    }
    exchange.Tell();
  }
  std::printf("%s arrived %d\n", exchange.wrong() == 0 ? "ok" : "failed", exchange.arrived());
  return exchange.wrong() == 0;
}

}  // namespace
}  // namespace epic::rxe_peer

int main(int argc, char** argv) {
  using namespace epic::rxe_peer;
  if (argc != 3) {
    std::fprintf(stderr, "usage: uc_end PEER-ADDRESS SIDE\n");
    return 2;
  }
  constexpr size_t kPages = (UcExchange::kBytes + 4095) / 4096 * 4096;
  const Connection connection = Open(std::aligned_alloc(4096, kPages), UcExchange::kBytes, IBV_QPT_UC);
  for (int buffer = 0; buffer < UcExchange::kReceives; ++buffer) PostReceive(connection, buffer);
  Announce(connection);
  std::string line;
  for (char byte = 0; read(STDIN_FILENO, &byte, 1) > 0 && byte != '\n';) line += byte;
  Peer peer;
  if (std::sscanf(line.c_str(), "%u %u %llu", &peer.qpn, &peer.rkey, &peer.memory) != 3) Die("no peer");
  Connect(connection, argv[1], peer.qpn, {});
  return Run(connection, peer, std::atoi(argv[2])) ? 0 : 1;
}
