// The rdma_rxe end of the exchange, and beside it of the unreliable one, over a connection of its own. Prints
// "done" when the first is and of the other all are sent, "all" when all of it have come, and at the end of
// its input "ok arrived N" or what was wrong; until then its queue pairs answer.
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "tests/rxe_peer/ends.h"
#include "tests/rxe_peer/exchange.h"
#include "tests/rxe_peer/rxe_connection.h"
#include "tests/rxe_peer/verbs_uc.h"

namespace epic::rxe_peer {
namespace {

void PostRequest(ibv_qp* qp, int k, uint8_t* memory, uint32_t lkey) {
  const Op op = OpOf(k);
  ibv_sge sge{.addr = reinterpret_cast<uintptr_t>(memory) +
                      Exchange::OffsetOf(Brings(op) ? Exchange::kIn : Exchange::kOut, k),
              .length = BytesOf(k),
              .lkey = lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.wr_id = static_cast<uint64_t>(k);
  wr.sg_list = &sge;
  wr.num_sge = 1;
  constexpr ibv_wr_opcode kOpcodes[] = {
      IBV_WR_SEND,       IBV_WR_SEND_WITH_IMM,        IBV_WR_RDMA_WRITE,
      IBV_WR_RDMA_READ,  IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP,
      IBV_WR_RDMA_WRITE, IBV_WR_SEND_WITH_INV};
  wr.opcode = kOpcodes[static_cast<size_t>(op)];
  const uint32_t window = kOurWindow + static_cast<uint32_t>(WindowOf(k));
  if (op == Op::kSendImm) wr.imm_data = htonl(static_cast<uint32_t>(k));
  if (op == Op::kSendInv) wr.invalidate_rkey = window;
  if (IsAtomic(op)) {
    wr.wr.atomic = {.remote_addr = Exchange::kNumberAt,
                    .compare_add = op == Op::kFetchAdd ? OperandOf(k) : ComparedBy(k),
                    .swap = OperandOf(k),
                    .rkey = kOurRkey};
  } else if (!TakesReceive(op)) {
    wr.wr.rdma = {.remote_addr = Exchange::OffsetOf(op == Op::kRead ? Exchange::kOut : Exchange::kTarget, k),
                  .rkey = op == Op::kWindowWrite ? window : kOurRkey};
  }
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
    exchange.OnReceived(wc.byte_len, (wc.wc_flags & IBV_WC_WITH_IMM) != 0, ntohl(wc.imm_data),
                        wc.invalidated_rkey);
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

// Until the input ends. An unreliable message a millisecond, from when something has completed: then the
// other end is there. What is lost shall be lost on the way, not in a queue.
bool Run(ibv_qp* qp, ibv_cq* cq, uint8_t* memory, uint32_t lkey, uint64_t rnr_naks_before,
         const Exchange::Windows& windows, VerbsUc& uc) {
  Exchange exchange(1, {memory, Exchange::kBytes}, windows);
  uint64_t rnr_naks = 0;
  bool is_there = false, said = false;
  const auto start = std::chrono::steady_clock::now();
  for (pollfd input{STDIN_FILENO, POLLIN, 0}; poll(&input, 1, 0) == 0;) {
    if (!said && exchange.done() && uc.exchange().all_sent()) {
      said = true;
      std::printf("done\n");
    }
    uc.exchange().Tell();
    if (!said && std::chrono::steady_clock::now() - start > std::chrono::seconds(20)) {
      std::printf("rxe_end: not done after 20 s\n");
      return false;
    }
    if (rnr_naks < kRefusals) rnr_naks = RnrNaksSent(qp->context) - rnr_naks_before;
    while (exchange.may_receive(rnr_naks)) PostReceive(qp, exchange.PostReceive(), memory, lkey);
    while (exchange.may_post()) PostRequest(qp, exchange.Post(), memory, lkey);
    if (!uc.Take()) return false;
    ibv_wc wc;
    if (ibv_poll_cq(cq, 1, &wc) == 0) {
      if (is_there) uc.Send();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } else if (!Finish(wc, exchange)) {
      return false;
    } else {
      is_there = true;
    }
  }
  exchange.CheckNumber();
  return said && exchange.wrong() == 0 && uc.exchange().wrong() == 0;
}

// Windows of type 2, and the keys that they will have.
std::array<ibv_mw*, kWindows> AllocateWindows(ibv_pd* pd, Exchange::Windows* keys) {
  std::array<ibv_mw*, kWindows> windows{};
  std::printf("windows");
  for (size_t i = 0; i < windows.size(); ++i) {
    windows[i] = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
    if (windows[i] == nullptr) Die("ibv_alloc_mw");
    (*keys)[i] = ibv_inc_rkey(windows[i]->rkey);
    std::printf(" %u", (*keys)[i]);
  }
  std::printf("\n");
  return windows;
}

// Before anything is sent: whoever hears of this end may use them.
void BindWindows(const Connection& connection, const std::array<ibv_mw*, kWindows>& windows,
                 const Exchange::Windows& keys) {
  for (int i = 0; i < kWindows; ++i) {
    const auto at = static_cast<size_t>(i);
    const int k = WindowWriteOf(i);
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_BIND_MW;
    wr.bind_mw.mw = windows[at];
    wr.bind_mw.rkey = keys[at];
    wr.bind_mw.bind_info = {
        .mr = connection.mr,
        .addr = reinterpret_cast<uintptr_t>(connection.memory()) + Exchange::OffsetOf(Exchange::kTarget, k),
        .length = BytesOf(k),
        .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
    if (ibv_post_send(connection.qp, &wr, &bad)) Die("binding a window");
    ibv_wc wc;
    while (ibv_poll_cq(connection.cq, 1, &wc) == 0) std::this_thread::yield();
    if (wc.status != IBV_WC_SUCCESS || wc.opcode != IBV_WC_BIND_MW) Die("a window is not bound");
  }
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
  Exchange(1, {memory, Exchange::kBytes}, {});
  Exchange::Windows keys;
  VerbsUc uc(1);
  Announce(uc.connection(), "unreliable ");
  const auto windows = AllocateWindows(connection.qp->pd, &keys);
  const uint64_t rnr_naks_before = RnrNaksSent(connection.context);
  Announce(connection);
  uc.Connect(argv[1], {kOurUcQpn, kOurRkey, 0});
  Connect(connection, argv[1], kOurQpn, {.timeout = 14, .retry_cnt = 7});
  BindWindows(connection, windows, keys);
  const bool ok = Run(connection.qp, connection.cq, memory, connection.mr->lkey, rnr_naks_before, keys, uc);
  std::printf("%s arrived %d\n", ok ? "ok" : "failed", uc.exchange().arrived());
  std::fflush(stdout);
  WaitForEndOfInput();
  return ok ? 0 : 1;
}
