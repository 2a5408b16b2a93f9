#include "tests/softnic/verbs_testing.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace epic::softnic::testing {
namespace {

constexpr uint8_t kGidIndex = 1;  // the IPv4-mapped one
constexpr int kEventTimeoutMs = 5000;
constexpr std::chrono::seconds kCompletionTimeout(20);

void Modify(ibv_qp* qp, ibv_qp_attr attr, int mask, const char* what) {
  errno = ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE);
  if (errno != 0) Die(what);
}

}  // namespace

void Die(const char* what) {
  std::printf("%s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

Device::Device(size_t memory_bytes, int number) : memory(memory_bytes) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr || count <= number) Die("no verbs device");
  context = ibv_open_device(list[number]);
  if (context == nullptr) Die("ibv_open_device");
  ibv_free_device_list(list);
  pd = ibv_alloc_pd(context);
  channel = ibv_create_comp_channel(context);
  if (pd == nullptr || channel == nullptr) Die("ibv_alloc_pd, ibv_create_comp_channel");
  mr = ibv_reg_mr(
      pd, memory.data(), memory.size(),
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
  if (mr == nullptr) Die("ibv_reg_mr");
}

Device::~Device() {
  const int errors[] = {ibv_dereg_mr(mr), ibv_destroy_comp_channel(channel), ibv_dealloc_pd(pd),
                        ibv_close_device(context)};
  for (const int error : errors) {
    errno = error;
    if (error != 0) Die("closing a device");
  }
}

ibv_gid Device::gid() const {
  ibv_gid gid;
  if (ibv_query_gid(context, 1, kGidIndex, &gid) != 0) Die("ibv_query_gid");
  return gid;
}

ibv_cq* Device::CreateCq(int depth) {
  ibv_cq* cq = ibv_create_cq(context, depth, nullptr, channel, 0);
  if (cq == nullptr) Die("ibv_create_cq");
  return cq;
}

std::optional<ibv_async_event> Device::NextEvent() {
  pollfd readable{context->async_fd, POLLIN, 0};
  ibv_async_event event;
  if (poll(&readable, 1, kEventTimeoutMs) != 1 || ibv_get_async_event(context, &event) != 0) return {};
  ibv_ack_async_event(&event);
  return event;
}

bool Device::HasEvent() const {
  pollfd readable{context->async_fd, POLLIN, 0};
  return poll(&readable, 1, 0) == 1;
}

ibv_qp* CreateRc(Device& device, ibv_cq* cq, const QpOptions& options) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.srq = options.srq;
  init.qp_type = options.type;
  init.sq_sig_all = 1;
  init.cap = {.max_send_wr = options.send_depth,
              .max_recv_wr = options.recv_depth,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 64};
  ibv_qp* qp = ibv_create_qp(device.pd, &init);
  if (qp == nullptr) Die("ibv_create_qp");
  return qp;
}

void Connect(ibv_qp* qp, const ibv_gid& gid, uint32_t qpn, const QpOptions& options,
             const PathOptions& path) {
  Modify(qp, {.qp_state = IBV_QPS_RESET}, 0, "to RESET");
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = static_cast<unsigned>(options.access);
  Modify(qp, attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "to INIT");
  attr = {};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = qpn;
  attr.max_dest_rd_atomic = 4;
  attr.min_rnr_timer = 1;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.sgid_index = kGidIndex;
  attr.ah_attr.grh.hop_limit = 64;
  attr.ah_attr.grh.traffic_class = path.traffic_class;
  attr.ah_attr.grh.dgid = gid;
  const bool rc = qp->qp_type == IBV_QPT_RC;
  Modify(qp, attr,
         IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
             (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0),
         "to RTR");
  attr = {};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = path.timeout;
  attr.retry_cnt = path.retry_cnt;
  attr.rnr_retry = 7;
  attr.max_rd_atomic = 4;
  Modify(qp, attr,
         IBV_QP_SQ_PSN |
             (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0),
         "to RTS");
}

int PostRecv(Device& device, ibv_qp* qp, uint64_t id, size_t offset, uint32_t bytes) {
  ibv_sge sge{device.address(offset), bytes, device.mr->lkey};
  ibv_recv_wr wr{.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad = nullptr;
  return ibv_post_recv(qp, &wr, &bad);
}

int PostSend(Device& device, ibv_qp* qp, uint64_t id, size_t offset, uint32_t bytes) {
  return PostRdma(device, qp, IBV_WR_SEND, id, offset, bytes, {});
}

int PostRdma(Device& device, ibv_qp* qp, ibv_wr_opcode opcode, uint64_t id, size_t offset, uint32_t bytes,
             const Remote& remote) {
  ibv_sge sge{device.address(offset), bytes, device.mr->lkey};
  ibv_send_wr wr{.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode}, *bad = nullptr;
  wr.wr.rdma.remote_addr = remote.address;
  wr.wr.rdma.rkey = remote.rkey;
  return ibv_post_send(qp, &wr, &bad);
}

int PostAtomic(Device& device, ibv_qp* qp, ibv_wr_opcode opcode, uint64_t id, size_t offset,
               const Remote& remote, uint64_t compare_add, uint64_t swap) {
  ibv_sge sge{device.address(offset), sizeof(uint64_t), device.mr->lkey};
  ibv_send_wr wr{.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode}, *bad = nullptr;
  wr.wr.atomic = {
      .remote_addr = remote.address, .compare_add = compare_add, .swap = swap, .rkey = remote.rkey};
  return ibv_post_send(qp, &wr, &bad);
}

ibv_qp* CreateUd(Device& device, ibv_cq* cq) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.cap = {
      .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  init.qp_type = IBV_QPT_UD;
  init.sq_sig_all = 1;
  ibv_qp* qp = ibv_create_qp(device.pd, &init);
  if (qp == nullptr) Die("ibv_create_qp");
  MakeReady(qp);
  return qp;
}

void MakeReady(ibv_qp* ud) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qkey = kQkey;
  Modify(ud, attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, "to INIT");
  attr.qp_state = IBV_QPS_RTR;
  Modify(ud, attr, 0, "to RTR");
  attr.qp_state = IBV_QPS_RTS;
  Modify(ud, attr, IBV_QP_SQ_PSN, "to RTS");
}

ibv_gid GidOf(const char* address) {
  ibv_gid gid{};
  if (inet_pton(AF_INET6, address, gid.raw) == 1) return gid;
  gid.raw[10] = gid.raw[11] = 0xff;
  if (inet_pton(AF_INET, address, gid.raw + 12) != 1) Die(address);
  return gid;
}

ibv_ah* TryCreateAh(Device& device, const ibv_gid& to) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.sgid_index = IN6_IS_ADDR_V4MAPPED(reinterpret_cast<const in6_addr*>(to.raw)) ? kGidIndex : 0;
  attr.grh.hop_limit = 64;
  attr.grh.dgid = to;
  return ibv_create_ah(device.pd, &attr);
}

ibv_ah* CreateAh(Device& device, const ibv_gid& to) {
  ibv_ah* ah = TryCreateAh(device, to);
  if (ah == nullptr) Die("ibv_create_ah");
  return ah;
}

int PostDatagram(Device& device, ibv_qp* qp, ibv_ah* to, uint32_t qpn, uint64_t id, size_t offset,
                 uint32_t bytes) {
  ibv_sge sge{device.address(offset), bytes, device.mr->lkey};
  ibv_send_wr wr{.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad = nullptr;
  wr.wr.ud = {.ah = to, .remote_qpn = qpn, .remote_qkey = kQkey};
  return ibv_post_send(qp, &wr, &bad);
}

ibv_wc Await(ibv_cq* cq) {
  const auto give_up = std::chrono::steady_clock::now() + kCompletionTimeout;
  ibv_wc wc{};
  while (true) {
    const int count = ibv_poll_cq(cq, 1, &wc);
    if (count == 1) return wc;
    if (count < 0) Die("ibv_poll_cq");
    errno = ETIMEDOUT;
    if (std::chrono::steady_clock::now() > give_up) Die("no completion");
  }
}

Connection::Connection(const QpOptions& options, const PathOptions& path)
    : cq_a(a.CreateCq(256)),
      cq_b(b.CreateCq(256)),
      qp_a(CreateRc(a, cq_a, options)),
      qp_b(CreateRc(b, cq_b, options)) {
  Connect(qp_a, b.gid(), qp_b->qp_num, options, path);
  Connect(qp_b, a.gid(), qp_a->qp_num, options, path);
}

void Connection::SeeWritesAtB() {
  ibv_wc wc;
  if (ibv_poll_cq(cq_b, 1, &wc) != 0) Die("a completion that nobody expected");
}

Connection::~Connection() {
  for (ibv_qp* qp : {qp_a, qp_b}) {
    if (qp != nullptr && ibv_destroy_qp(qp) != 0) Die("ibv_destroy_qp");
  }
  for (ibv_cq* cq : {cq_a, cq_b}) {
    if (ibv_destroy_cq(cq) != 0) Die("ibv_destroy_cq");
  }
}

}  // namespace epic::softnic::testing
