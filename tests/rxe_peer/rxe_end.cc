// The rdma_rxe end of the exchange, with plain libibverbs. Prints "qpn rkey address" of its own, waits until
// the other end answers ARP, exchanges, prints "ok" or what was wrong, and stays for two seconds more, so
// that its queue pair still answers.
#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "tests/rxe_peer/exchange.h"

namespace {

using epic::rxe_peer::BytesOf;
using epic::rxe_peer::Exchange;
using epic::rxe_peer::Op;
using epic::rxe_peer::OpOf;

constexpr int kGidIndex = 1;  // RoCEv2 with the interface's IPv4 address

// As tests/rxe_peer/transport_end.cc has it.
constexpr uint32_t kPeerQpn = 0x77, kPeerRkey = 7, kFirstPsn = 0xfffff0;

[[noreturn]] void Die(const char* what) {
  std::printf("rxe_end: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

ibv_qp* Connect(ibv_pd* pd, ibv_cq* cq, const char* peer, uint32_t rkey, const void* memory) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  init.cap = {
      .max_send_wr = 64, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  init.sq_sig_all = 1;
  ibv_qp* qp = ibv_create_qp(pd, &init);
  if (qp == nullptr) Die("ibv_create_qp");
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
    Die("INIT");
  std::printf("qpn %u rkey %u address %llu\n", qp->qp_num, rkey,
              static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(memory)));
  std::fflush(stdout);
  attr = {};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = kPeerQpn;
  attr.rq_psn = kFirstPsn;
  attr.max_dest_rd_atomic = 4;
  attr.min_rnr_timer = 14;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.sgid_index = kGidIndex;
  attr.ah_attr.grh.hop_limit = 64;
  attr.ah_attr.grh.dgid.raw[10] = attr.ah_attr.grh.dgid.raw[11] = 0xff;
  if (inet_pton(AF_INET, peer, attr.ah_attr.grh.dgid.raw + 12) != 1) Die(peer);
  // Fails until the peer answers ARP.
  for (int attempt = 0; ibv_modify_qp(qp, &attr,
                                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                          IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
       ++attempt) {
    if (attempt == 20) Die("RTR");
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = kFirstPsn;
  attr.timeout = 14;
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  attr.max_rd_atomic = 4;
  if (ibv_modify_qp(qp, &attr,
                    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                        IBV_QP_MAX_QP_RD_ATOMIC))
    Die("RTS");
  return qp;
}

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
  wr.wr.rdma.rkey = kPeerRkey;
  wr.wr.rdma.remote_addr = Exchange::OffsetOf(op == Op::kRead ? Exchange::kOut : Exchange::kTarget, k);
  if (op == Op::kSend || op == Op::kSendImm) wr.wr.rdma = {};
  if (ibv_post_send(qp, &wr, &bad)) Die("ibv_post_send");
}

void PostReceive(ibv_qp* qp, int buffer, uint8_t* memory, uint32_t lkey) {
  ibv_sge sge{.addr = reinterpret_cast<uintptr_t>(memory) + Exchange::OffsetOf(Exchange::kRecv, buffer),
              .length = epic::rxe_peer::kSlot,
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
    if (rnr_naks < epic::rxe_peer::kRefusals) rnr_naks = RnrNaksSent(qp->context) - rnr_naks_before;
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

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: rxe_end PEER-ADDRESS\n");
    return 2;
  }
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (count == 0) Die("no RDMA device");
  ibv_context* context = ibv_open_device(list[0]);
  ibv_pd* pd = context != nullptr ? ibv_alloc_pd(context) : nullptr;
  ibv_cq* cq = pd != nullptr ? ibv_create_cq(context, 256, nullptr, nullptr, 0) : nullptr;
  if (cq == nullptr) Die("device");
  auto* memory = static_cast<uint8_t*>(std::aligned_alloc(4096, (Exchange::kBytes + 4095) / 4096 * 4096));
  ibv_mr* mr = ibv_reg_mr(pd, memory, Exchange::kBytes,
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
  if (mr == nullptr) Die("ibv_reg_mr");
  // Filled before the peer may read it.
  Exchange(1, {memory, Exchange::kBytes});
  const uint64_t rnr_naks_before = RnrNaksSent(context);
  ibv_qp* qp = Connect(pd, cq, argv[1], mr->rkey, memory);
  const bool ok = Run(qp, cq, memory, mr->lkey, rnr_naks_before);
  std::printf(ok ? "ok\n" : "failed\n");
  std::fflush(stdout);
  std::this_thread::sleep_for(std::chrono::seconds(2));
  return ok ? 0 : 1;
}
