// The rules of attributes that all connected queue pairs share.
#include "roce/transport/config.h"

#include "roce/packet.h"

namespace epic::roce {
namespace {

template <typename T>
void Take(const std::optional<T>& given, T* to) {
  if (given) *to = *given;
}

}  // namespace

bool InRange(const QpChange& c, uint8_t max_rd_atomic) {
  return (!c.path_mtu || IsPathMtu(*c.path_mtu)) && c.max_dest_rd_atomic.value_or(0) <= max_rd_atomic &&
         c.max_rd_atomic.value_or(0) <= max_rd_atomic && c.min_rnr_timer.value_or(0) < 32 &&
         c.timeout.value_or(0) < 32 && c.retry_cnt.value_or(0) <= 7 && c.rnr_retry.value_or(0) <= 7 &&
         Raw(c.remote_qpn.value_or(Qpn{0})) <= kQpnMask;
}

bool IsOneVersion(const QpChange& c, const QpAttributes& now) {
  return (!c.remote_ip && !c.local_ip) ||
         c.remote_ip.value_or(now.remote_ip).is_v4() == c.local_ip.value_or(now.local_ip).is_v4();
}

void TakeAttributes(const QpChange& change, QpAttributes* to) {
  Take(change.remote_read, &to->remote_read);
  Take(change.remote_write, &to->remote_write);
  Take(change.remote_atomic, &to->remote_atomic);
  Take(change.remote_ip, &to->remote_ip);
  Take(change.local_ip, &to->local_ip);
  Take(change.traffic_class, &to->traffic_class);
  Take(change.remote_qpn, &to->remote_qpn);
  Take(change.path_mtu, &to->path_mtu);
  Take(change.rq_psn, &to->rq_psn);
  Take(change.max_dest_rd_atomic, &to->max_dest_rd_atomic);
  Take(change.min_rnr_timer, &to->min_rnr_timer);
  Take(change.sq_psn, &to->sq_psn);
  Take(change.timeout, &to->timeout);
  Take(change.retry_cnt, &to->retry_cnt);
  Take(change.rnr_retry, &to->rnr_retry);
  Take(change.max_rd_atomic, &to->max_rd_atomic);
}

}  // namespace epic::roce
