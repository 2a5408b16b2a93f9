// verbs_multicast receive GROUP COUNT | send GROUP COUNT: datagrams to a multicast group, over plain
// libibverbs. The receiver prints "ready" once it is attached, then the first byte of each datagram; after
// the last it detaches, prints "detached", and waits a second to see that no more come. Attached, it cannot
// be destroyed; attached twice, it needs to be detached once only.
#include <arpa/inet.h>
#include <poll.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tests/softnic/verbs_testing.h"

namespace epic::softnic::testing {
namespace {

constexpr uint32_t kQkey = 0x1234, kMulticastQpn = 0xffffff, kBytes = 64, kGrh = 40;

void Check(int result, const char* what) {
  if (result != 0) Die(what);
}

ibv_qp* CreateUd(Device& device, ibv_cq* cq) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.cap = {
      .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  init.qp_type = IBV_QPT_UD;
  ibv_qp* qp = ibv_create_qp(device.pd, &init);
  if (qp == nullptr) Die("ibv_create_qp");
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qkey = kQkey;
  Check(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), "INIT");
  attr.qp_state = IBV_QPS_RTR;
  Check(ibv_modify_qp(qp, &attr, IBV_QP_STATE), "RTR");
  attr.qp_state = IBV_QPS_RTS;
  Check(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
  return qp;
}

void Receive(Device& device, ibv_qp* qp, ibv_cq* cq, ibv_gid group, int count) {
  for (int i = 0; i < count + 1; ++i)
    Check(PostRecv(device, qp, static_cast<uint64_t>(i), static_cast<size_t>(i) * 256, kGrh + kBytes),
          "post");
  for (int i = 0; i < 2; ++i) Check(ibv_attach_mcast(qp, &group, 0), "ibv_attach_mcast");
  if (ibv_destroy_qp(qp) != EBUSY) Die("destroyed though attached");
  std::printf("ready\n");
  std::fflush(stdout);
  for (int i = 0; i < count; ++i) {
    const ibv_wc wc = Await(cq);
    if (wc.status != IBV_WC_SUCCESS || wc.byte_len != kGrh + kBytes) Die("a datagram");
    std::printf("got %d\n", *device.at(wc.wr_id * 256 + kGrh));
  }
  Check(ibv_detach_mcast(qp, &group, 0), "ibv_detach_mcast");
  std::printf("detached\n");
  std::fflush(stdout);
  poll(nullptr, 0, 1000);
  ibv_wc wc;
  if (ibv_poll_cq(cq, 1, &wc) != 0) Die("a datagram after detaching");
  if (ibv_detach_mcast(qp, &group, 0) != EINVAL) Die("detached twice");
}

void Send(Device& device, ibv_qp* qp, ibv_cq* cq, ibv_gid group, int count) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.sgid_index = 1;
  attr.grh.hop_limit = 1;
  attr.grh.dgid = group;
  ibv_ah* ah = ibv_create_ah(device.pd, &attr);
  if (ah == nullptr) Die("ibv_create_ah");
  for (int i = 0; i < count; ++i) {
    *device.at(0) = static_cast<uint8_t>(i + 1);
    ibv_sge sge{.addr = device.address(0), .length = kBytes, .lkey = device.mr->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud = {.ah = ah, .remote_qpn = kMulticastQpn, .remote_qkey = kQkey};
    Check(ibv_post_send(qp, &wr, &bad), "ibv_post_send");
    if (Await(cq).status != IBV_WC_SUCCESS) Die("a send");
  }
  Check(ibv_destroy_ah(ah), "ibv_destroy_ah");
}

int Main(std::string_view role, const char* group_text, int count) {
  Device device;
  ibv_cq* cq = device.CreateCq(32);
  ibv_qp* qp = CreateUd(device, cq);
  ibv_gid group{};
  group.raw[10] = group.raw[11] = 0xff;
  if (inet_pton(AF_INET, group_text, group.raw + 12) != 1) Die("no IPv4 address");
  role == "receive" ? Receive(device, qp, cq, group, count) : Send(device, qp, cq, group, count);
  Check(ibv_destroy_qp(qp), "ibv_destroy_qp");
  Check(ibv_destroy_cq(cq), "ibv_destroy_cq");
  return 0;
}

}  // namespace
}  // namespace epic::softnic::testing

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: verbs_multicast receive|send GROUP COUNT\n");
    return 2;
  }
  return epic::softnic::testing::Main(argv[1], argv[2], std::atoi(argv[3]));
}
