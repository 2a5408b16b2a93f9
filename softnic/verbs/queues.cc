// Completion queues and shared receive queues.
#include <absl/cleanup/cleanup.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "softnic/verbs/abi.h"
#include "softnic/verbs/call.h"

using namespace epic::softnic;

namespace epic::softnic {

Cq* CreateCq(ibv_context* context, const ibv_cq_init_attr_ex& init, std::unique_ptr<Poller> poller,
             bool tells_overrun) {
  if (init.cqe < 1 || init.cqe > uint32_t{kMaxCqe} || init.comp_vector != 0) return Null(EINVAL);
  if (init.channel != nullptr && init.channel->context != context) return Null(EINVAL);
  return ObjectOf(context, [&] {
    auto cq = std::make_unique<Cq>();
    cq->base.context = context;
    cq->base.channel = init.channel;
    cq->base.cq_context = init.cq_context;
    cq->base.cqe = static_cast<int>(init.cqe);
    cq->poller = std::move(poller);
    pthread_mutex_init(&cq->base.mutex, nullptr);
    pthread_cond_init(&cq->base.cond, nullptr);
    AdapterOf(context).Do([&](Nic& nic) {
      cq->base.handle = cq->id = nic.CreateCq(init.cqe, tells_overrun);
      absl::Cleanup destroy = [&] { nic.DestroyCq(cq->id); };
      Of(context)->cqs.emplace(cq->id, cq.get());
      std::move(destroy).Cancel();
      if (init.channel != nullptr) ++init.channel->refcnt;
    });
    return cq.release();
  });
}

}  // namespace epic::softnic

EPIC_VERBS ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel,
                                 int vector) {
  Cq* const cq = CreateCq(context,
                          {.cqe = static_cast<uint32_t>(cqe),  // a negative one is too many
                           .cq_context = cq_context,
                           .channel = channel,
                           .comp_vector = static_cast<uint32_t>(vector)},
                          nullptr, true);
  return cq != nullptr ? &cq->base : nullptr;
}

EPIC_VERBS int ibv_resize_cq(ibv_cq* cq, int cqe) {
  if (cqe < 1 || cqe > kMaxCqe) return EINVAL;
  return ErrnoOf(cq->context, [&] {
    const bool resized = AdapterOf(cq->context).Do([&](Nic& nic) {
      return nic.ResizeCq(Of(cq)->id, static_cast<uint32_t>(cqe));
    });
    if (!resized) return EINVAL;
    cq->cqe = cqe;
    return 0;
  });
}

namespace epic::softnic {
namespace {

int Destroy(Cq* cq) {
  ibv_cq* const base = &cq->base;
  Context* const context = Of(base->context);
  const bool busy = context->adapter->Do([&](Nic& nic) {
    if (cq->users != 0) return true;
    nic.DestroyCq(cq->id);
    context->cqs.erase(cq->id);
    context->ForgetAsync(
        [&](const ibv_async_event& e) { return e.event_type == IBV_EVENT_CQ_ERR && e.element.cq == base; });
    if (base->channel != nullptr) {
      DropTokens(*context->adapter, base->channel->fd, std::erase(Of(base->channel)->events, cq));
      --base->channel->refcnt;
    }
    return false;
  });
  if (busy) return EBUSY;
  AwaitAcknowledged(base, &base->comp_events_completed, cq->comp_events_read);
  AwaitAcknowledged(base, &base->async_events_completed, cq->async_events_read);
  delete cq;
  return 0;
}

int Destroy(Srq* srq) {
  ibv_srq* const base = &srq->base;
  Context* const context = Of(base->context);
  const bool busy = context->adapter->Do([&](Nic& nic) {
    if (srq->users != 0) return true;
    nic.DestroySrq(srq->id);
    context->srqs.erase(srq->id);
    context->ForgetAsync([&](const ibv_async_event& e) {
      return e.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && e.element.srq == base;
    });
    --Of(base->pd)->users;
    return false;
  });
  if (busy) return EBUSY;
  AwaitAcknowledged(base, &base->events_completed, srq->events_read);
  delete srq;
  return 0;
}

}  // namespace
}  // namespace epic::softnic

EPIC_VERBS int ibv_destroy_cq(ibv_cq* cq) {
  return ErrnoOf(cq->context, [&] { return Destroy(Of(cq)); });
}

EPIC_VERBS ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* init) {
  if (init->attr.max_wr < 1 || init->attr.max_wr > kMaxSrqWr || init->attr.max_sge > epic::roce::kMaxSge)
    return Null(EINVAL);
  return ObjectOf(pd->context, [&] {
    auto srq = std::make_unique<Srq>();
    srq->base.context = pd->context;
    srq->base.srq_context = init->srq_context;
    srq->base.pd = pd;
    pthread_mutex_init(&srq->base.mutex, nullptr);
    pthread_cond_init(&srq->base.cond, nullptr);
    srq->depth = init->attr.max_wr;
    AdapterOf(pd->context).Do([&](Nic& nic) {
      srq->base.handle = srq->id = nic.CreateSrq(srq->depth);
      absl::Cleanup destroy = [&] { nic.DestroySrq(srq->id); };
      Of(pd->context)->srqs.emplace(srq->id, srq.get());
      std::move(destroy).Cancel();
      ++Of(pd)->users;
    });
    init->attr.max_sge = epic::roce::kMaxSge;
    return &srq.release()->base;
  });
}

EPIC_VERBS int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) {
  if ((mask & IBV_SRQ_MAX_WR) != 0) return EOPNOTSUPP;
  if ((mask & IBV_SRQ_LIMIT) == 0) return 0;
  if (attr->srq_limit > Of(srq)->depth) return EINVAL;
  return ErrnoOf(srq->context, [&] {
    AdapterOf(srq->context).Do([&](Nic& nic) { nic.SetSrqLimit(Of(srq)->id, attr->srq_limit); });
    return 0;
  });
}

EPIC_VERBS int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attr) {
  return ErrnoOf(srq->context, [&] {
    attr->max_wr = Of(srq)->depth;
    attr->max_sge = epic::roce::kMaxSge;
    attr->srq_limit = AdapterOf(srq->context).Do([&](Nic& nic) { return nic.srq_limit(Of(srq)->id); });
    return 0;
  });
}

EPIC_VERBS int ibv_destroy_srq(ibv_srq* srq) {
  return ErrnoOf(srq->context, [&] { return Destroy(Of(srq)); });
}
