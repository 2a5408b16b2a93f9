#include "tests/rxe_peer/rxe_connection.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/rxe_peer/ends.h"

namespace epic::rxe_peer {
namespace {

constexpr int kGidIndex = 1;  // RoCEv2 with the interface's IPv4 address

void ToRtr(ibv_qp* qp, const char* peer, uint32_t qpn) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  static_assert(kPathMtu == 1024);
  attr.dest_qp_num = qpn;
  attr.rq_psn = kFirstPsn;
  attr.max_dest_rd_atomic = 4;
  attr.min_rnr_timer = 14;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.sgid_index = kGidIndex;
  attr.ah_attr.grh.hop_limit = 64;
  attr.ah_attr.grh.dgid.raw[10] = attr.ah_attr.grh.dgid.raw[11] = 0xff;
  if (inet_pton(AF_INET, peer, attr.ah_attr.grh.dgid.raw + 12) != 1) Die(peer);
  const int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                   (qp->qp_type == IBV_QPT_RC ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
  // Fails until the peer answers ARP.
  for (int attempt = 0; ibv_modify_qp(qp, &attr, mask); ++attempt) {
    if (attempt == 20) Die("RTR");
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

}  // namespace

void Die(const char* what) {
  std::printf("%s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

Connection Open(void* memory, size_t bytes, ibv_qp_type type) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (count == 0) Die("no RDMA device");
  Connection out;
  out.context = ibv_open_device(list[0]);
  ibv_pd* pd = out.context != nullptr ? ibv_alloc_pd(out.context) : nullptr;
  out.cq = pd != nullptr ? ibv_create_cq(out.context, 256, nullptr, nullptr, 0) : nullptr;
  if (out.cq == nullptr) Die("device");
  out.mr = ibv_reg_mr(pd, memory, bytes,
                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
                          IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND);
  if (out.mr == nullptr) Die("ibv_reg_mr");
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = out.cq;
  init.qp_type = type;
  init.cap = {
      .max_send_wr = 64, .max_recv_wr = 200, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  init.sq_sig_all = 1;
  out.qp = ibv_create_qp(pd, &init);
  if (out.qp == nullptr) Die("ibv_create_qp");
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  if (ibv_modify_qp(out.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
    Die("INIT");
  return out;
}

void Announce(const Connection& connection, const char* what) {
  std::printf("%sqpn %u rkey %u address %llu\n", what, connection.qp->qp_num, connection.mr->rkey,
              static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(connection.memory())));
  std::fflush(stdout);
}

void Connect(const Connection& connection, const char* peer, uint32_t qpn, const Retries& retries) {
  ToRtr(connection.qp, peer, qpn);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = kFirstPsn;
  attr.timeout = retries.timeout;
  attr.retry_cnt = retries.retry_cnt;
  attr.rnr_retry = 7;
  attr.max_rd_atomic = 4;
  const int of_rc = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  const int mask = IBV_QP_STATE | IBV_QP_SQ_PSN | (connection.qp->qp_type == IBV_QPT_RC ? of_rc : 0);
  if (ibv_modify_qp(connection.qp, &attr, mask)) Die("RTS");
}

void WaitForLine() {
  for (char byte = 0; read(STDIN_FILENO, &byte, 1) > 0 && byte != '\n';) {
  }
}

void WaitForEndOfInput() {
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
}

}  // namespace epic::rxe_peer
