#include "inchost/servers/lent.h"

#include <fmt/format.h>

#include <string>

#include "base/path_mtu.h"
#include "base/psn.h"
#include "protocol/bounds.h"
#include "protocol/fallback.h"
#include "protocol/types.h"

namespace epic::host {
namespace {

constexpr uint32_t kMost24Bits = 0xffffff;
// Of ibv_qp_attr.
constexpr uint32_t kMost5Bits = 31, kMost3Bits = 7;

// Empty, or the field that is wrong and how.
std::string WrongField(const proto::MakeServer& request, uint32_t max_path_mtu) {
  const auto beyond = [](const char* field, uint64_t value, uint64_t least, uint64_t most) {
    return value >= least && value <= most
               ? std::string()
               : fmt::format("{}: {}, and not {} to {}", field, value, least, most);
  };
  if (!IsPathMtu(request.path_mtu()))
    return fmt::format("path_mtu: {}, and not {}", request.path_mtu(), kPathMtusInWords);
  if (request.path_mtu() > max_path_mtu)
    return fmt::format("path_mtu: {}, and the port has {} at most", request.path_mtu(), max_path_mtu);
  if (!IsAccumulatorFactor(request.sum_mtus()))
    return fmt::format("sum_mtus: {}, and not 1, 2 or 4", request.sum_mtus());
  if (request.remote_ip() == 0) return "remote_ip: none";
  for (const std::string& wrong : {beyond("group_id", request.group().group_id(), 1, UINT64_MAX),
                                   beyond("world_size", request.world_size(), 1, kMaxWorldSize),
                                   beyond("message_packets", request.message_packets(), 1, kMaxSlots),
                                   beyond("slots", request.slots(), 1, kMaxSlots),
                                   beyond("remote_qpn", request.remote_qpn(), 2, kMost24Bits),
                                   beyond("send_psn", request.send_psn(), 0, kMost24Bits),
                                   beyond("recv_psn", request.recv_psn(), 0, kMost24Bits),
                                   beyond("qp_timeout", request.qp_timeout(), 0, kMost5Bits),
                                   beyond("retry_cnt", request.retry_cnt(), 0, kMost3Bits),
                                   beyond("rnr_retry", request.rnr_retry(), 0, kMost3Bits),
                                   beyond("min_rnr_timer", request.min_rnr_timer(), 0, kMost5Bits)}) {
    if (!wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace

proto::ServerMade Lent::Take(const proto::MakeServer& request) {
  proto::ServerMade answer;
  *answer.mutable_group() = request.group();
  answer.set_left_bytes(left());
  const auto refuse = [&answer](proto::ServerMade::Outcome outcome, const std::string& why) {
    answer.set_outcome(outcome);
    answer.set_message(why);
    return answer;
  };
  if (const std::string wrong = WrongField(request, max_path_mtu_); !wrong.empty())
    return refuse(proto::ServerMade::OUTCOME_BAD_CONFIG, wrong);
  const uint64_t needed = LentBytes(request.path_mtu(), request.sum_mtus(), request.slots());
  answer.set_needed_bytes(needed);
  const uint64_t id = request.group().group_id();
  if (const auto found = shares_.find(id); found != shares_.end()) {
    return refuse(
        proto::ServerMade::OUTCOME_IN_USE,
        fmt::format("group {} has a server here, of its generation {}", id, found->second.generation));
  }
  if (needed > left()) {
    return refuse(proto::ServerMade::OUTCOME_NO_MEMORY,
                  fmt::format("{} bytes are needed, and {} of {} are left", needed, left(), bytes_));
  }
  shares_[id] = {.generation = request.group().generation(), .bytes = needed};
  taken_ += needed;
  answer.set_left_bytes(left());
  return answer;
}

bool Lent::Give(const proto::ServedGroup& group) {
  const auto found = shares_.find(group.group_id());
  if (found == shares_.end() || found->second.generation != group.generation()) return false;
  taken_ -= found->second.bytes;
  shares_.erase(found);
  return true;
}

proto::FallbackOffer Lent::Offer(Ipv4 ip) const {
  proto::FallbackOffer offer;
  offer.set_bytes(bytes_);
  offer.set_ip(Raw(ip));
  return offer;
}

}  // namespace epic::host
