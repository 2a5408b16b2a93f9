// verbs_multicast receive GROUP COUNT | send GROUP COUNT | reach ADDRESS 1: datagrams to a multicast group,
// of IPv4 or IPv6, over plain libibverbs. The receiver prints "ready" once it is attached, then the first
// byte of each datagram; after the last it detaches, prints "detached", and waits a second to see that no
// more come. Attached, it cannot be destroyed; attached twice, it needs to be detached once only.
#include <poll.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tests/softnic/verbs_testing.h"

namespace epic::softnic::testing {
namespace {

constexpr uint32_t kBytes = 64;

void Check(int result, const char* what) {
  if (result != 0) Die(what);
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

// Says whether an address handle can be had.
void Reach(Device& device, ibv_gid to) {
  ibv_ah* ah = TryCreateAh(device, to);
  std::printf("%s\n", ah != nullptr ? "reached" : std::strerror(errno));
  if (ah != nullptr) Check(ibv_destroy_ah(ah), "ibv_destroy_ah");
}

void Send(Device& device, ibv_qp* qp, ibv_cq* cq, ibv_gid group, int count) {
  ibv_ah* ah = CreateAh(device, group);
  for (int i = 0; i < count; ++i) {
    *device.at(0) = static_cast<uint8_t>(i + 1);
    Check(PostDatagram(device, qp, ah, kMulticastQpn, 1, 0, kBytes), "ibv_post_send");
    if (Await(cq).status != IBV_WC_SUCCESS) Die("a send");
  }
  Check(ibv_destroy_ah(ah), "ibv_destroy_ah");
}

int Main(std::string_view role, const char* group_text, int count) {
  Device device;
  ibv_cq* cq = device.CreateCq(32);
  ibv_qp* qp = CreateUd(device, cq);
  const ibv_gid group = GidOf(group_text);
  if (role == "receive") Receive(device, qp, cq, group, count);
  if (role == "send") Send(device, qp, cq, group, count);
  if (role == "reach") Reach(device, group);
  Check(ibv_destroy_qp(qp), "ibv_destroy_qp");
  Check(ibv_destroy_cq(cq), "ibv_destroy_cq");
  return 0;
}

}  // namespace
}  // namespace epic::softnic::testing

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: verbs_multicast receive|send|reach ADDRESS COUNT\n");
    return 2;
  }
  return epic::softnic::testing::Main(argv[1], argv[2], std::atoi(argv[3]));
}
