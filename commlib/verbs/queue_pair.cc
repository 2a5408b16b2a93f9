#include "commlib/verbs/queue_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/path_mtu.h"
#include "commlib/verbs/extensions.h"
#include "commlib/verbs/verbs_error.h"

namespace epic::verbs {
namespace {

// Each attempt blocks for about a second in the kernel while ARP goes unanswered.
constexpr int kConnectAttempts = 4;

constexpr uint8_t kHopLimit = 64;

// IBV_MTU_256 is 1.
ibv_mtu ToVerbs(uint32_t path_mtu) { return static_cast<ibv_mtu>(std::bit_width(path_mtu) - 8); }

}  // namespace

std::string ToString(Ipv4 ip) {
  const uint32_t raw = Raw(ip);
  return fmt::format("{}.{}.{}.{}", raw >> 24, raw >> 16 & 255, raw >> 8 & 255, raw & 255);
}

Error QueuePair::Create(std::shared_ptr<Device> device, std::shared_ptr<CompletionQueue> cq,
                        uint32_t max_sends, uint32_t max_recvs, std::unique_ptr<QueuePair>* qp, Reads reads) {
  std::unique_ptr<QueuePair> result(new QueuePair);
  result->reads_ = reads;
  ibv_qp_attr attr{};
  if (reads == Reads::kBothWays) attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
  if (Error e = result->CreateQp(std::move(device), std::move(cq), IBV_QPT_RC, max_sends, max_recvs, attr,
                                 IBV_QP_ACCESS_FLAGS);
      !e.ok())
    return e;
  *qp = std::move(result);
  return {};
}

Error QueuePair::Connect(const ConnectInfo& info) {
  if (!IsPathMtu(info.path_mtu)) {
    return {ErrorCode::kMtu,
            fmt::format("the manager chose a path MTU of {}, which RoCE does not have", info.path_mtu)};
  }
  if (Error e = ToReadyToReceive(info); !e.ok()) return e;
  if (Error e = ToReadyToSend(info); !e.ok()) return e;
  // If the NIC does not: single frames are right everywhere.
  if (info.super_frames) static_cast<void>(SendSuperFrames(qp()));
  return {};
}

Error QueuePair::ToReadyToReceive(const ConnectInfo& info) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = ToVerbs(info.path_mtu);
  attr.dest_qp_num = info.remote_qpn;
  attr.rq_psn = info.recv_psn;
  attr.max_dest_rd_atomic = ReadsOf(device().max_reads_of_peer());
  attr.min_rnr_timer = info.min_rnr_timer;
  attr.ah_attr = AddressOf(info.remote_ip, kHopLimit);
  int error = 0;
  for (int attempt = 0; attempt < kConnectAttempts; ++attempt) {
    error = ibv_modify_qp(qp(), &attr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (error == 0) return {};
    if (error != ETIMEDOUT && error != EHOSTUNREACH && error != ENETUNREACH) break;
  }
  const std::string ip = ToString(info.remote_ip);
  if (error == ETIMEDOUT) {
    return {ErrorCode::kTransport,
            fmt::format("no ARP answer from {} at {} over {}: is it up, and is this host "
                        "cabled to it?",
                        info.name, ip, device().description())};
  }
  return {ErrorCode::kTransport, fmt::format("cannot connect {} to {} at {}: {}", device().description(),
                                             info.name, ip, std::strerror(error))};
}

Error QueuePair::ToReadyToSend(const ConnectInfo& info) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = info.send_psn;
  attr.timeout = info.timeout;
  attr.retry_cnt = info.retry_cnt;
  attr.rnr_retry = info.rnr_retry;
  attr.max_rd_atomic = ReadsOf(device().max_reads());
  const int error = ibv_modify_qp(qp(), &attr,
                                  IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                      IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  if (error != 0) return VerbsError(ErrorCode::kTransport, "cannot make the queue pair ready to send", error);
  return {};
}

uint8_t QueuePair::ReadsOf(uint8_t most) const {
  return reads_ == Reads::kNone ? uint8_t{1} : std::min(kMaxReads, most);
}

void QueuePair::ShareAcks(uint32_t messages, uint32_t delay_us) {
  if (exists()) verbs::ShareAcks(qp(), messages, delay_us);
}

}  // namespace epic::verbs
