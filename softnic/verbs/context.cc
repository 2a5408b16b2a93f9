// Devices and contexts: which there are, opening and closing one, its events.
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "io/event_fd.h"
#include "softnic/verbs/abi.h"
#include "softnic/verbs/call.h"
#include "softnic/verbs/device_list.h"

namespace epic::softnic {
namespace {

ibv_event_type EventTypeOf(Event::Kind kind) {
  switch (kind) {
    case Event::Kind::kCqOverrun:
      return IBV_EVENT_CQ_ERR;
    case Event::Kind::kQpRequestError:
      return IBV_EVENT_QP_REQ_ERR;
    case Event::Kind::kQpAccessError:
      return IBV_EVENT_QP_ACCESS_ERR;
    case Event::Kind::kSqDrained:
      return IBV_EVENT_SQ_DRAINED;
    case Event::Kind::kLastWqeReached:
      return IBV_EVENT_QP_LAST_WQE_REACHED;
    case Event::Kind::kSrqLimitReached:
      return IBV_EVENT_SRQ_LIMIT_REACHED;
    case Event::Kind::kPortActive:
      return IBV_EVENT_PORT_ACTIVE;
    case Event::Kind::kPortError:
      return IBV_EVENT_PORT_ERR;
    case Event::Kind::kGidChange:
      return IBV_EVENT_GID_CHANGE;
    case Event::Kind::kDeviceFatal:
      return IBV_EVENT_DEVICE_FATAL;
    default:
      return IBV_EVENT_QP_FATAL;
  }
}

// About no object that could be destroyed.
bool IsOfPort(ibv_event_type type) {
  return type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_GID_CHANGE ||
         type == IBV_EVENT_DEVICE_FATAL;
}

// Of the port's, unread: what comes then takes the place of the oldest.
constexpr std::ptrdiff_t kMaxPortEvents = 64;

}  // namespace

void DropTokens(Adapter& adapter, int fd, size_t count) {
  if (count == 0) return;
  const std::lock_guard telling(adapter.telling());  // until the last of them is counted
  for (; count > 0; --count) {
    pollfd readable{fd, POLLIN, 0};
    if (poll(&readable, 1, 0) == 1) io::TakeEventFd(fd);
  }
}

int Context::AddPortEvent(const ibv_async_event& event) {
  const auto of_port = [](const ibv_async_event& one) { return IsOfPort(one.event_type); };
  const bool is_full = std::ranges::count_if(async_events, of_port) >= kMaxPortEvents;
  async_events.push_back(event);
  if (!is_full) return async.get();
  async_events.erase(std::ranges::find_if(async_events, of_port));
  return -1;  // as many as before
}

int Context::OnEvent(const Event& event) {
  ibv_async_event out{};
  out.event_type = EventTypeOf(event.kind);
  const auto cq = cqs.find(event.id);
  const auto qp = qps.find(event.id);
  const auto srq = srqs.find(event.id);
  switch (event.kind) {
    case Event::Kind::kCompletion: {
      if (cq == cqs.end() || cq->second->base.channel == nullptr) return -1;
      CompChannel* channel = Of(cq->second->base.channel);
      channel->events.push_back(cq->second);
      return channel->waiting.get();
    }
    case Event::Kind::kCqOverrun:
      if (cq == cqs.end()) return -1;
      out.element.cq = &cq->second->base;
      break;
    case Event::Kind::kSrqLimitReached:
      if (srq == srqs.end()) return -1;
      out.element.srq = &srq->second->base;
      break;
    case Event::Kind::kPortActive:
    case Event::Kind::kPortError:
    case Event::Kind::kGidChange:
      out.element.port_num = 1;
      return AddPortEvent(out);
    case Event::Kind::kDeviceFatal:
      return AddPortEvent(out);
    default:
      if (qp == qps.end()) return -1;
      out.element.qp = &qp->second->base;
  }
  async_events.push_back(out);
  return async.get();
}

namespace {

std::unique_ptr<Context> Open(const Device& device, int* error) {
  if (!CountsForks()) {
    *error = ENOMEM;
    return nullptr;
  }
  auto port = device.network->Open(device.interface);
  if (!port.ok()) {
    // Verbs has only an errno to say why; without the words nobody finds out that a capability is missing.
    std::fprintf(stderr, "softnic: %s: %s\n", device.base.name, port.status().ToString().c_str());
    *error = absl::IsPermissionDenied(port.status()) ? EPERM : absl::IsNotFound(port.status()) ? ENODEV : EIO;
    return nullptr;
  }
  auto context = std::make_unique<Context>();
  context->async = io::Descriptor(eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE));
  if (!context->async) {
    *error = errno;
    return nullptr;
  }
  verbs_context& verbs = context->verbs;
  verbs.sz = sizeof verbs;
  verbs.query_port = QueryPort;
  verbs.query_device_ex = QueryDeviceEx;
  verbs.query_rt_values = QueryRtValues;
  verbs.create_qp_ex = CreateQpEx;
  verbs.create_cq_ex = CreateCqEx;
  ibv_context& base = verbs.context;
  base.device = const_cast<ibv_device*>(&device.base);
  base.abi_compat = __VERBS_ABI_IS_EXTENDED;
  base.ops.poll_cq = PollCq;
  base.ops.req_notify_cq = RequestNotify;
  base.ops.post_send = PostSend;
  base.ops.post_recv = PostRecv;
  base.ops.post_srq_recv = PostSrqRecv;
  base.ops.alloc_mw = AllocMw;
  base.ops.dealloc_mw = DeallocMw;
  base.ops.bind_mw = BindMw;
  // There is no channel for commands. Programs that copy its descriptor, to share the device, get as far as
  // the verb that refuses.
  base.cmd_fd = context->async.get();
  base.async_fd = context->async.get();
  base.num_comp_vectors = 1;
  pthread_mutex_init(&base.mutex, nullptr);
  context->device = &device;
  Context* const self = context.get();
  context->adapter =
      std::make_unique<Adapter>(std::move(*port), device.interface.ip, PathMtuOf(device), roce::Policy{},
                                [self](const Event& e) { return self->OnEvent(e); });
  context->adapter->SetMoreAddresses(GidsNow(device));
  *error = context->adapter->Start();
  return *error == 0 ? std::move(context) : nullptr;
}

}  // namespace
}  // namespace epic::softnic

using namespace epic::softnic;
namespace io = epic::io;

EPIC_VERBS ibv_context* ibv_open_device(ibv_device* device) {
  return ObjectOf([&]() -> ibv_context* {
    int error = 0;
    std::unique_ptr<Context> context = Open(*reinterpret_cast<Device*>(device), &error);
    return context != nullptr ? &context.release()->verbs.context : Null(error);
  });
}

EPIC_VERBS int ibv_close_device(ibv_context* base) {
  return ErrnoOf(base, [&] {
    delete Of(base);
    return 0;
  });
}

namespace epic::softnic {
namespace {

int TakeAsyncEvent(Context* context, ibv_async_event* event) {
  if (!io::TakeEventFd(context->async.get())) return -1;
  const std::lock_guard lock(context->adapter->mutex());
  if (context->async_events.empty()) {
    // The object that it was about has been destroyed meanwhile.
    errno = EAGAIN;
    return -1;
  }
  *event = context->async_events.front();
  context->async_events.pop_front();
  if (event->event_type == IBV_EVENT_CQ_ERR) {
    ++Of(event->element.cq)->async_events_read;
  } else if (event->event_type == IBV_EVENT_SRQ_LIMIT_REACHED) {
    ++Of(event->element.srq)->events_read;
  } else if (!IsOfPort(event->event_type)) {
    ++Of(event->element.qp)->events_read;
  }
  return 0;
}

int TakeCompletionEvent(CompChannel* channel, ibv_cq** cq, void** cq_context) {
  if (!io::TakeEventFd(channel->waiting.get())) return -1;
  const std::lock_guard lock(AdapterOf(channel->base.context).mutex());
  if (channel->events.empty()) {
    errno = EAGAIN;  // its queue has been destroyed meanwhile
    return -1;
  }
  *cq = &channel->events.front()->base;
  *cq_context = (*cq)->cq_context;
  ++channel->events.front()->comp_events_read;
  channel->events.pop_front();
  return 0;
}

// Counts `count` events as acknowledged. Not in a child of fork, where the mutex may be locked for ever.
template <typename Object>
void Acknowledge(Object* object, uint32_t* completed, uint32_t count) {
  if (IsInherited(object->context)) return;
  pthread_mutex_lock(&object->mutex);
  *completed += count;
  pthread_cond_signal(&object->cond);
  pthread_mutex_unlock(&object->mutex);
}

}  // namespace
}  // namespace epic::softnic

EPIC_VERBS int ibv_get_async_event(ibv_context* base, ibv_async_event* event) {
  return CountOf(base, [&] { return TakeAsyncEvent(Of(base), event); });
}

EPIC_VERBS void ibv_ack_async_event(ibv_async_event* event) {
  switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
      return Acknowledge(event->element.cq, &event->element.cq->async_events_completed, 1);
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return Acknowledge(event->element.srq, &event->element.srq->events_completed, 1);
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return Acknowledge(event->element.qp, &event->element.qp->events_completed, 1);
    default:
      return;
  }
}

EPIC_VERBS ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return ObjectOf(context, [&]() -> ibv_comp_channel* {
    auto channel = std::make_unique<CompChannel>();
    channel->waiting = io::Descriptor(eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE));
    if (!channel->waiting) return nullptr;
    channel->base = {.context = context, .fd = channel->waiting.get(), .refcnt = 0};
    return &channel.release()->base;
  });
}

EPIC_VERBS int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  return ErrnoOf(channel->context, [&] {
    {
      const std::lock_guard lock(AdapterOf(channel->context).mutex());
      if (channel->refcnt != 0) return EBUSY;
    }
    delete Of(channel);
    return 0;
  });
}

EPIC_VERBS int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  return CountOf(channel->context, [&] { return TakeCompletionEvent(Of(channel), cq, cq_context); });
}

EPIC_VERBS void ibv_ack_cq_events(ibv_cq* cq, unsigned int count) {
  Acknowledge(cq, &cq->comp_events_completed, count);
}
