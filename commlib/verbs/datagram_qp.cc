#include "commlib/verbs/datagram_qp.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "commlib/verbs/extensions.h"
#include "commlib/verbs/ports.h"
#include "commlib/verbs/queue_pair.h"

namespace epic::verbs {
namespace {

constexpr uint32_t kMulticastQpn = 0xffffff;
// A group is of one subnet: no router sends its datagrams on.
constexpr uint8_t kGroupHopLimit = 1;

}  // namespace

// An IPv4 header takes the last 20 octets, and those before it are undefined (RoCE v2, Annex A17); IPv6's
// takes all.
std::optional<DatagramSource> SourceOf(const ibv_wc& wc, const uint8_t* grh) {
  constexpr uint8_t kIpv4WithoutOptions = 0x45, kIpv6 = 6;
  const uint8_t* const header = grh + 20;
  if ((wc.wc_flags & IBV_WC_GRH) == 0 || header[0] != kIpv4WithoutOptions || grh[0] >> 4 == kIpv6)
    return std::nullopt;
  uint32_t ip = 0;
  for (int i = 12; i < 16; ++i) ip = ip << 8 | header[i];
  return DatagramSource{.ip = Ipv4{ip}, .qpn = wc.src_qp};
}

Error DatagramQp::Create(std::shared_ptr<Device> device, std::shared_ptr<CompletionQueue> cq,
                         uint32_t max_sends, uint32_t max_recvs, std::unique_ptr<DatagramQp>* qp) {
  std::unique_ptr<DatagramQp> result(new DatagramQp);
  // The key is not known yet, and nothing is taken before there is one.
  if (Error e = result->CreateQp(std::move(device), std::move(cq), IBV_QPT_UD, max_sends, max_recvs, {},
                                 IBV_QP_QKEY);
      !e.ok())
    return e;
  *qp = std::move(result);
  return {};
}

Error DatagramQp::Join(const MulticastInfo& info) {
  if (Error e = ToReady(info.qkey); !e.ok()) return e;
  ibv_ah_attr to = AddressOf(info.address, kGroupHopLimit);
  group_ = ibv_create_ah(device().pd(), &to);
  if (group_ == nullptr)
    return Failed(fmt::format("have an address handle of {}", ToString(info.address)), errno);
  if (Error e = Attach(info.address); !e.ok()) return e;
  // If the NIC does not: single frames are right everywhere.
  if (info.super_frames) static_cast<void>(SendSuperFramesToGroup(qp(), GidOf(info.address)));
  if (info.alone) SendByWireAlone(qp(), GidOf(info.address));
  return device().joins_groups() ? Error{} : JoinByKernel(info.address);
}

Error DatagramQp::ToReady(uint32_t qkey) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.qkey = qkey;
  int error = ibv_modify_qp(qp(), &attr, IBV_QP_STATE | IBV_QP_QKEY);
  if (error != 0) return Failed("make the datagrams' queue pair ready to receive", error);
  attr.qp_state = IBV_QPS_RTS;
  error = ibv_modify_qp(qp(), &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
  if (error != 0) return Failed("make the datagrams' queue pair ready to send", error);
  qkey_ = qkey;
  return {};
}

Error DatagramQp::Attach(Ipv4 address) {
  const ibv_gid gid = GidOf(address);
  const int error = ibv_attach_mcast(qp(), &gid, 0);
  if (error != 0) return Failed(fmt::format("attach a queue pair to {}", ToString(address)), error);
  attached_ = address;
  return {};
}

// Without it the kernel takes no datagrams of the group for rdma_rxe, which sets a filter of the interface
// alone, and IPv6's; and switches that look at IGMP send none.
Error DatagramQp::JoinByKernel(Ipv4 address) {
  const std::string what = fmt::format("join {} on {}", ToString(address), device().ifname());
  membership_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (membership_ < 0) return Failed(what, errno);
  ip_mreqn request{};
  request.imr_multiaddr.s_addr = htonl(Raw(address));
  request.imr_ifindex = static_cast<int>(if_nametoindex(device().ifname().c_str()));
  if (request.imr_ifindex == 0) return Failed(what, errno);  // else the kernel would choose one
  if (setsockopt(membership_, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request) != 0)
    return Failed(what, errno);
  return {};
}

Error DatagramQp::SetQkey(uint32_t qkey) {
  ibv_qp_attr attr{};
  attr.qkey = qkey;
  const int error = ibv_modify_qp(qp(), &attr, IBV_QP_QKEY);
  if (error != 0) return Failed("change the Q_Key of a queue pair", error);
  qkey_ = qkey;
  return {};
}

int DatagramQp::PostSends(ibv_send_wr* first, ibv_send_wr** rest) {
  for (ibv_send_wr* wr = first; wr != nullptr; wr = wr->next)
    wr->wr.ud = {.ah = group_, .remote_qpn = kMulticastQpn, .remote_qkey = qkey_};
  return AnyQp::PostSends(first, rest);
}

void DatagramQp::DestroyQp() {
  if (attached_) {
    const ibv_gid gid = GidOf(*std::exchange(attached_, std::nullopt));
    ibv_detach_mcast(qp(), &gid, 0);
  }
  if (const int socket = std::exchange(membership_, -1); socket >= 0) close(socket);
  AnyQp::DestroyQp();
  if (ibv_ah* const group = std::exchange(group_, nullptr)) ibv_destroy_ah(group);
}

Error DatagramQp::Failed(const std::string& what, int error) const {
  const bool none_left = error == ENOMEM || error == ENOBUFS || error == EMFILE || error == ENFILE;
  return {none_left ? ErrorCode::kNoResource : ErrorCode::kTransport,
          fmt::format("{} cannot {}: {}", device().description(), what, std::strerror(error))};
}

}  // namespace epic::verbs
