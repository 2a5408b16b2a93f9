// Queue pairs: creation, states, attributes.
#include <absl/cleanup/cleanup.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "roce/wire.h"
#include "softnic/verbs/abi.h"
#include "softnic/verbs/call.h"
#include "softnic/verbs/super_frames.h"
#include "softnic/verbs/transitions.h"

using namespace epic::softnic;
namespace roce = epic::roce;

namespace {

int ToErrno(roce::ModifyResult result) { return result == roce::ModifyResult::kOk ? 0 : EINVAL; }

roce::QpState ToState(ibv_qp_state state) { return static_cast<roce::QpState>(state); }

// Nothing for one that there is not.
std::optional<QpType> TypeOf(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_RC:
      return QpType::kRc;
    case IBV_QPT_UC:
      return QpType::kUc;
    case IBV_QPT_UD:
      return QpType::kUd;
    default:
      return std::nullopt;
  }
}

template <typename To, typename From>
std::optional<To> If(int mask, int bit, From value) {
  return (mask & bit) != 0 ? std::optional<To>(static_cast<To>(value)) : std::nullopt;
}

struct Path {
  epic::Ip from, to;
};

// Of the interface's first IPv4 address (GidsOf): no other one comes to this place, so that the kernel need
// not be asked.
constexpr uint8_t kFirstIpv4Index = 1;

// Between which addresses an address vector goes: 0, or an errno. The adapter hears of addresses that have
// come since.
int PathOf(ibv_context* context, const ibv_ah_attr& ah, Path* path) {
  if (!ah.is_global || ah.port_num > 1) return EINVAL;
  *path = {.from = Of(context)->device->interface.ip, .to = IpOf(ah.grh.dgid)};
  if (ah.grh.sgid_index == kFirstIpv4Index) return path->to.is_v4() ? 0 : EINVAL;
  std::vector<epic::Ip> gids = GidsNow(*Of(context)->device);
  if (ah.grh.sgid_index >= gids.size()) return EINVAL;  // the empty place is above
  path->from = gids[ah.grh.sgid_index];
  if (path->from.is_v4() != path->to.is_v4()) return EINVAL;
  AdapterOf(context).SetMoreAddresses(std::move(gids));
  return 0;
}

// What may be said at all in the transition, beyond the values that the transport checks. The state is the
// adapter's: an error may have led to another one than the application has asked for.
bool IsPlausible(const Qp& qp, const ibv_qp_attr& attr, int mask) {
  const auto now = static_cast<ibv_qp_state>(
      AdapterOf(qp.base.context).Note([&](const Nic& nic) { return nic.state(qp.init.qpn); }));
  const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attr.qp_state : now;
  if (!MayModify(now, to, qp.base.qp_type, mask)) return false;
  if ((mask & IBV_QP_CUR_STATE) != 0 && attr.cur_qp_state != now) return false;
  if ((mask & IBV_QP_PKEY_INDEX) != 0 && attr.pkey_index != 0) return false;
  if ((mask & IBV_QP_PATH_MIG_STATE) != 0 && attr.path_mig_state != IBV_MIG_MIGRATED) return false;
  return (mask & IBV_QP_PORT) == 0 || attr.port_num == 1;
}

int ModifyConnected(Qp& qp, const ibv_qp_attr& attr, int mask) {
  roce::QpChange change;
  if ((mask & IBV_QP_STATE) != 0) change.state = ToState(attr.qp_state);
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) {
    change.remote_read = (attr.qp_access_flags & IBV_ACCESS_REMOTE_READ) != 0;
    change.remote_write = (attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) != 0;
    change.remote_atomic = (attr.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC) != 0;
  }
  if ((mask & IBV_QP_AV) != 0) {
    Path path;
    if (const int error = PathOf(qp.base.context, attr.ah_attr, &path); error != 0) return error;
    if (const int error = AdapterOf(qp.base.context).Reach(path.to); error != 0) return error;
    change.remote_ip = path.to;
    change.local_ip = path.from;
    change.traffic_class = attr.ah_attr.grh.traffic_class;
  }
  if ((mask & IBV_QP_PATH_MTU) != 0) {
    if (attr.path_mtu < IBV_MTU_256 || attr.path_mtu > IBV_MTU_4096) return EINVAL;
    change.path_mtu = 128u << attr.path_mtu;
  }
  change.remote_qpn = If<epic::Qpn>(mask, IBV_QP_DEST_QPN, attr.dest_qp_num);
  if ((mask & IBV_QP_RQ_PSN) != 0) change.rq_psn = epic::Psn(attr.rq_psn);
  if ((mask & IBV_QP_SQ_PSN) != 0) change.sq_psn = epic::Psn(attr.sq_psn);
  change.max_dest_rd_atomic = If<uint8_t>(mask, IBV_QP_MAX_DEST_RD_ATOMIC, attr.max_dest_rd_atomic);
  change.min_rnr_timer = If<uint8_t>(mask, IBV_QP_MIN_RNR_TIMER, attr.min_rnr_timer);
  change.timeout = If<uint8_t>(mask, IBV_QP_TIMEOUT, attr.timeout);
  change.retry_cnt = If<uint8_t>(mask, IBV_QP_RETRY_CNT, attr.retry_cnt);
  change.rnr_retry = If<uint8_t>(mask, IBV_QP_RNR_RETRY, attr.rnr_retry);
  change.max_rd_atomic = If<uint8_t>(mask, IBV_QP_MAX_QP_RD_ATOMIC, attr.max_rd_atomic);
  return AdapterOf(qp.base.context).DoNow([&](Nic& nic) {
    const epic::Qpn qpn = qp.init.qpn;
    return ToErrno(qp.is_rc() ? nic.ModifyRc(qpn, change) : nic.ModifyUc(qpn, change));
  });
}

int ModifyUd(Qp& qp, const ibv_qp_attr& attr, int mask) {
  return AdapterOf(qp.base.context).DoNow([&](Nic& nic) {
    const epic::Qpn qpn = qp.init.qpn;
    const roce::QpState to = (mask & IBV_QP_STATE) != 0 ? ToState(attr.qp_state) : nic.state(qpn);
    std::optional<epic::Psn> psn;
    if ((mask & IBV_QP_SQ_PSN) != 0) psn = epic::Psn(attr.sq_psn);
    return ToErrno(nic.ModifyUd(qpn, to, If<uint32_t>(mask, IBV_QP_QKEY, attr.qkey), psn));
  });
}

// Keeps what was set for ibv_query_qp.
void Remember(const ibv_qp_attr& from, int mask, ibv_qp_attr* to) {
  const auto take = [&](int bit, auto ibv_qp_attr::*field) {
    if ((mask & bit) != 0) to->*field = from.*field;
  };
  take(IBV_QP_ACCESS_FLAGS, &ibv_qp_attr::qp_access_flags);
  take(IBV_QP_EN_SQD_ASYNC_NOTIFY, &ibv_qp_attr::en_sqd_async_notify);
  take(IBV_QP_PKEY_INDEX, &ibv_qp_attr::pkey_index);
  take(IBV_QP_PORT, &ibv_qp_attr::port_num);
  take(IBV_QP_QKEY, &ibv_qp_attr::qkey);
  take(IBV_QP_AV, &ibv_qp_attr::ah_attr);
  take(IBV_QP_PATH_MTU, &ibv_qp_attr::path_mtu);
  take(IBV_QP_TIMEOUT, &ibv_qp_attr::timeout);
  take(IBV_QP_RETRY_CNT, &ibv_qp_attr::retry_cnt);
  take(IBV_QP_RNR_RETRY, &ibv_qp_attr::rnr_retry);
  take(IBV_QP_RQ_PSN, &ibv_qp_attr::rq_psn);
  take(IBV_QP_SQ_PSN, &ibv_qp_attr::sq_psn);
  take(IBV_QP_MAX_QP_RD_ATOMIC, &ibv_qp_attr::max_rd_atomic);
  take(IBV_QP_MAX_DEST_RD_ATOMIC, &ibv_qp_attr::max_dest_rd_atomic);
  take(IBV_QP_MIN_RNR_TIMER, &ibv_qp_attr::min_rnr_timer);
  take(IBV_QP_DEST_QPN, &ibv_qp_attr::dest_qp_num);
}

// What is asked for can be had, from queues of the protection domain's own device: another one's completion
// queue may have the number of one here.
bool Fits(const ibv_pd& pd, const ibv_qp_init_attr& init) {
  const ibv_qp_cap& cap = init.cap;
  const auto is_here = [&](const auto* object) { return object->context == pd.context; };
  return cap.max_send_wr <= kMaxQpWr && cap.max_recv_wr <= kMaxQpWr && cap.max_send_sge <= roce::kMaxSge &&
         cap.max_recv_sge <= roce::kMaxSge && cap.max_inline_data <= kMaxInline && init.send_cq != nullptr &&
         is_here(init.send_cq) && init.recv_cq != nullptr && is_here(init.recv_cq) &&
         (init.srq == nullptr || is_here(init.srq));
}

// Who uses what, so that nothing goes before its user.
void CountUsers(const ibv_qp& qp, int by) {
  Of(qp.pd)->users += by;
  Of(qp.send_cq)->users += by;
  Of(qp.recv_cq)->users += by;
  if (qp.srq != nullptr) Of(qp.srq)->users += by;
}

ibv_qp* Create(ibv_pd* pd, ibv_qp_init_attr* init, std::unique_ptr<Batch> batch) {
  Adapter& adapter = AdapterOf(pd->context);
  const std::optional<epic::Qpn> qpn = adapter.NewQpn();
  if (!qpn) return Null(ENOMEM);
  absl::Cleanup free_qpn = [&] { adapter.FreeQpn(*qpn); };
  auto qp = std::make_unique<Qp>();
  qp->batch = std::move(batch);
  qp->base = {.context = pd->context,
              .qp_context = init->qp_context,
              .pd = pd,
              .send_cq = init->send_cq,
              .recv_cq = init->recv_cq,
              .srq = init->srq,
              .handle = Raw(*qpn),
              .qp_num = Raw(*qpn),
              .state = IBV_QPS_RESET,
              .qp_type = init->qp_type};
  pthread_mutex_init(&qp->base.mutex, nullptr);
  pthread_cond_init(&qp->base.cond, nullptr);
  qp->signal_all = init->sq_sig_all != 0;
  qp->cap = init->cap;
  qp->cap.max_send_wr = std::max(1u, init->cap.max_send_wr);
  qp->cap.max_recv_wr = init->srq != nullptr ? 0 : std::max(1u, init->cap.max_recv_wr);
  qp->cap.max_send_sge = qp->cap.max_recv_sge = roce::kMaxSge;
  qp->init = {.type = *TypeOf(init->qp_type),
              .qpn = *qpn,
              .pd = Of(pd)->id,
              .send_cq = Of(init->send_cq)->id,
              .recv_cq = Of(init->recv_cq)->id,
              .srq = init->srq != nullptr ? std::optional(Of(init->srq)->id) : std::nullopt,
              .send_depth = qp->cap.max_send_wr,
              .recv_depth = qp->cap.max_recv_wr,
              .max_inline_bytes = qp->cap.max_inline_data};
  adapter.Do([&](Nic& nic) {
    nic.CreateQp(qp->init);
    absl::Cleanup destroy = [&] { nic.DestroyQp(*qpn); };
    Of(pd->context)->qps.emplace(qp->base.qp_num, qp.get());
    std::move(destroy).Cancel();
    CountUsers(qp->base, 1);
  });
  std::move(free_qpn).Cancel();
  init->cap = qp->cap;
  return &qp.release()->base;
}

// Its other end may be another one when it is connected again.
void ForgetSuperFrames(Qp& qp) {
  if (!qp.super_frames_to) return;
  AdapterOf(qp.base.context).SendSuperFrames(qp.super_frames_to->first, qp.super_frames_to->second, false);
  qp.super_frames_to.reset();
}

int Destroy(Qp* qp) {
  ibv_qp* const base = &qp->base;
  Context* const context = Of(base->context);
  const bool busy = context->adapter->Do([&](Nic& nic) {
    if (context->adapter->IsAttached(qp->init.qpn)) return true;
    nic.DestroyQp(qp->init.qpn);
    context->qps.erase(base->qp_num);
    CountUsers(*base, -1);
    context->ForgetAsync([&](const ibv_async_event& e) {
      return e.event_type != IBV_EVENT_CQ_ERR && e.event_type != IBV_EVENT_SRQ_LIMIT_REACHED &&
             e.element.qp == base;
    });
    return false;
  });
  if (busy) return EBUSY;
  ForgetSuperFrames(*qp);
  if (qp->by_wire_alone) context->adapter->SendByWireAlone(*qp->by_wire_alone, false);
  context->adapter->FreeQpn(qp->init.qpn);
  AwaitAcknowledged(base, &base->events_completed, qp->events_read);
  delete qp;
  return 0;
}

int Modify(ibv_qp* base, const ibv_qp_attr& attr, int mask) {
  Qp& qp = *Of(base);
  if (!IsPlausible(qp, attr, mask)) return EINVAL;
  const int error = qp.is_ud() ? ModifyUd(qp, attr, mask) : ModifyConnected(qp, attr, mask);
  if (error != 0) return error;
  Remember(attr, mask, &qp.attr);
  if ((mask & IBV_QP_STATE) != 0) base->state = attr.qp_state;
  if (base->state != IBV_QPS_RTR && base->state != IBV_QPS_RTS) ForgetSuperFrames(qp);
  if ((mask & IBV_QP_STATE) != 0 && base->state == IBV_QPS_RTR) SendSuperFramesIfListed(qp);
  return 0;
}

int Query(ibv_qp* base, ibv_qp_attr* attr, ibv_qp_init_attr* init) {
  const Qp& qp = *Of(base);
  *attr = qp.attr;
  AdapterOf(base->context).Do([&](Nic& nic) {
    attr->qp_state = static_cast<ibv_qp_state>(nic.state(qp.init.qpn));
    attr->sq_draining = attr->qp_state == IBV_QPS_SQD && !nic.sq_drained(qp.init.qpn);
  });
  base->state = attr->cur_qp_state = attr->qp_state;
  attr->cap = qp.cap;
  *init = {.qp_context = base->qp_context,
           .send_cq = base->send_cq,
           .recv_cq = base->recv_cq,
           .srq = base->srq,
           .cap = qp.cap,
           .qp_type = base->qp_type,
           .sq_sig_all = qp.signal_all};
  return 0;
}

}  // namespace

ibv_qp* epic::softnic::CreateQp(ibv_pd* pd, ibv_qp_init_attr* init, std::unique_ptr<Batch> batch) {
  if (!TypeOf(init->qp_type)) return Null(EOPNOTSUPP);
  if (!Fits(*pd, *init)) return Null(EINVAL);
  return ObjectOf(pd->context, [&] { return Create(pd, init, std::move(batch)); });
}

EPIC_VERBS ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* init) { return CreateQp(pd, init, nullptr); }

EPIC_VERBS int ibv_destroy_qp(ibv_qp* qp) {
  return ErrnoOf(qp->context, [&] { return Destroy(Of(qp)); });
}

EPIC_VERBS int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  return ErrnoOf(qp->context, [&] { return Modify(qp, *attr, mask); });
}

EPIC_VERBS int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int, ibv_qp_init_attr* init) {
  return ErrnoOf(qp->context, [&] { return Query(qp, attr, init); });
}

EPIC_VERBS int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t) {
  const epic::Ip group = IpOf(*gid);
  if (!group.is_multicast() || !Of(qp)->is_ud()) return EINVAL;
  return ErrnoOf(qp->context, [&] { return AdapterOf(qp->context).Attach(Of(qp)->init.qpn, group); });
}

EPIC_VERBS int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t) {
  return ErrnoOf(qp->context, [&] { return AdapterOf(qp->context).Detach(Of(qp)->init.qpn, IpOf(*gid)); });
}

namespace {

// Of addresses, so that their protection domain does not go before them.
void CountHandles(ibv_pd& pd, int by) {
  const std::lock_guard lock(AdapterOf(pd.context).mutex());
  Of(&pd)->users += by;
}

}  // namespace

EPIC_VERBS ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  return ObjectOf(pd->context, [&]() -> ibv_ah* {
    Path path;
    if (const int error = PathOf(pd->context, *attr, &path); error != 0) return Null(error);
    if (const int error = AdapterOf(pd->context).Reach(path.to); error != 0) return Null(error);
    auto* ah = new Ah;
    ah->base = {.context = pd->context, .pd = pd, .handle = 0};
    ah->ip = path.to;
    ah->from = path.from;
    ah->traffic_class = attr->grh.traffic_class;
    if (path.to.is_multicast()) ah->hop_limit = attr->grh.hop_limit;
    CountHandles(*pd, 1);
    return &ah->base;
  });
}

EPIC_VERBS int ibv_destroy_ah(ibv_ah* ah) {
  return ErrnoOf(ah->context, [&] {
    CountHandles(*ah->pd, -1);
    delete Of(ah);
    return 0;
  });
}

namespace {

// Of the header in front of a datagram: IPv6's, or IPv4's in its last 20 bytes. Path and class are those of
// an answer.
Path PathBack(const ibv_grh& grh, ibv_global_route* to) {
  const auto* header = reinterpret_cast<const uint8_t*>(&grh);
  if (header[0] >> 4 == 6) {
    to->traffic_class = static_cast<uint8_t>(roce::LoadBe16(header) >> 4);
    to->hop_limit = header[7];
    return {.from = epic::Ip::Of(header + 24), .to = epic::Ip::Of(header + 8)};
  }
  const uint8_t* ip = header + 20;
  to->traffic_class = ip[1];
  to->hop_limit = ip[8];
  return {.from = epic::Ipv4{roce::LoadBe32(ip + 16)}, .to = epic::Ipv4{roce::LoadBe32(ip + 12)}};
}

// In the GID table. Of what is not there, such as a group, that of the first of the same version.
uint8_t IndexOf(epic::Ip own, const Device& device) {
  if (own == epic::Ip(device.interface.ip)) return kFirstIpv4Index;
  const std::vector<epic::Ip> gids = GidsNow(device);
  auto found = std::ranges::find(gids, own);
  if (found == gids.end()) found = std::ranges::find(gids, own.is_v4(), &epic::Ip::is_v4);
  return static_cast<uint8_t>(found - gids.begin());
}

}  // namespace

// The sender of a datagram, as the address to send to; from the address that it came to, or for a group from
// the first of the same version.
EPIC_VERBS int ibv_init_ah_from_wc(ibv_context* context, uint8_t port, ibv_wc* wc, ibv_grh* grh,
                                   ibv_ah_attr* attr) {
  const auto init = [&] {
    if ((wc->wc_flags & IBV_WC_GRH) == 0 || port != 1) return EINVAL;
    *attr = {};
    const Path path = PathBack(*grh, &attr->grh);
    attr->is_global = 1;
    attr->port_num = port;
    attr->grh.sgid_index = IndexOf(path.from, *Of(context)->device);
    attr->grh.dgid = GidOf(path.to);
    return 0;
  };
  errno = Caught(init, [](int error) { return error; });
  return errno == 0 ? 0 : -1;
}

EPIC_VERBS ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, uint8_t port) {
  ibv_ah_attr attr;
  if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) != 0) return nullptr;
  return ibv_create_ah(pd, &attr);
}
