// The rdma_rxe end of the exchange. Prints "ok" or what was wrong, and stays until its input ends, so that
// its queue pair still answers.
#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "tests/rxe_peer/ends.h"
#include "tests/rxe_peer/exchange.h"
#include "tests/rxe_peer/rxe_connection.h"

namespace epic::rxe_peer {
namespace {

void PostRequest(ibv_qp* qp, int k, uint8_t* memory, uint32_t lkey) {
  const Op op = OpOf(k);
  ibv_sge sge{.addr = reinterpret_cast<uintptr_t>(memory) +
                      Exchange::OffsetOf(op == Op::kRead ? Exchange::kIn : Exchange::kOut, k),
              .length = BytesOf(k),
              .lkey = lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.wr_id = static_cast<uint64_t>(k);
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = op == Op::kSend      ? IBV_WR_SEND
              : op == Op::kSendImm ? IBV_WR_SEND_WITH_IMM
              : op == Op::kWrite   ? IBV_WR_RDMA_WRITE
                                   : IBV_WR_RDMA_READ;
  wr.imm_data = htonl(static_cast<uint32_t>(k));
  wr.wr.rdma.rkey = kOurRkey;
  wr.wr.rdma.remote_addr = Exchange::OffsetOf(op == Op::kRead ? Exchange::kOut : Exchange::kTarget, k);
  if (op == Op::kSend || op == Op::kSendImm) wr.wr.rdma = {};
  if (ibv_post_send(qp, &wr, &bad)) Die("ibv_post_send");
}

void PostReceive(ibv_qp* qp, int buffer, uint8_t* memory, uint32_t lkey) {
  ibv_sge sge{.addr = reinterpret_cast<uintptr_t>(memory) + Exchange::OffsetOf(Exchange::kRecv, buffer),
              .length = kSlot,
              .lkey = lkey};
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  if (ibv_post_recv(qp, &wr, &bad)) Die("ibv_post_recv");
}

bool Finish(const ibv_wc& wc, Exchange& exchange) {
  if (wc.status != IBV_WC_SUCCESS) {
    std::printf("rxe_end: completion with %s\n", ibv_wc_status_str(wc.status));
    return false;
  }
  if (wc.opcode & IBV_WC_RECV) {
    exchange.OnReceived(wc.byte_len, (wc.wc_flags & IBV_WC_WITH_IMM) != 0, ntohl(wc.imm_data));
  } else {
    exchange.OnCompleted(static_cast<int>(wc.wr_id));
  }
  return true;
}

// RNR NAKs that the device has sent since it is there, by the driver's own counter.
uint64_t RnrNaksSent(const ibv_context* context) {
  const std::string path = std::string("/sys/class/infiniband/") + ibv_get_device_name(context->device) +
                           "/ports/1/hw_counters/send_rnr_err";
  uint64_t count = 0;
  if (!(std::ifstream(path) >> count)) Die(path.c_str());
  return count;
}

bool Run(ibv_qp* qp, ibv_cq* cq, uint8_t* memory, uint32_t lkey, uint64_t rnr_naks_before) {
  Exchange exchange(1, {memory, Exchange::kBytes});
  uint64_t rnr_naks = 0;
  const auto start = std::chrono::steady_clock::now();
  while (!exchange.done()) {
    if (std::chrono::steady_clock::now() - start > std::chrono::seconds(20)) {
      std::printf("rxe_end: not done after 20 s\n");
      return false;
    }
    if (rnr_naks < kRefusals) rnr_naks = RnrNaksSent(qp->context) - rnr_naks_before;
    while (exchange.may_receive(rnr_naks)) PostReceive(qp, exchange.PostReceive(), memory, lkey);
    while (exchange.may_post()) PostRequest(qp, exchange.Post(), memory, lkey);
    ibv_wc wc;
    if (ibv_poll_cq(cq, 1, &wc) == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } else if (!Finish(wc, exchange)) {
      return false;
    }
  }
  return exchange.wrong() == 0;
}

}  // namespace
}  // namespace epic::rxe_peer

int main(int argc, char** argv) {
  using namespace epic::rxe_peer;
  if (argc != 2) {
    std::fprintf(stderr, "usage: rxe_end PEER-ADDRESS\n");
    return 2;
  }
  auto* memory = static_cast<uint8_t*>(std::aligned_alloc(4096, (Exchange::kBytes + 4095) / 4096 * 4096));
  const Connection connection = Open(memory, Exchange::kBytes);
  // Filled before the peer may read it.
  Exchange(1, {memory, Exchange::kBytes});
  const uint64_t rnr_naks_before = RnrNaksSent(connection.context);
  Announce(connection);
  Connect(connection, argv[1], kOurQpn, {.timeout = 14, .retry_cnt = 7});
  const bool ok = Run(connection.qp, connection.cq, memory, connection.mr->lkey, rnr_naks_before);
  std::printf(ok ? "ok\n" : "failed\n");
  std::fflush(stdout);
  WaitForEndOfInput();
  return ok ? 0 : 1;
}
