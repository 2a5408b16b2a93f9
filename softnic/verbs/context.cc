// Devices and contexts: which there are, opening and closing one, its events.
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "io/event_fd.h"
#include "softnic/verbs/abi.h"
#include "softnic/verbs/device_list.h"

namespace epic::softnic {
namespace {

ibv_event_type TypeOf(Event::Kind kind) {
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
    default:
      return IBV_EVENT_QP_FATAL;
  }
}

}  // namespace

void DropTokens(int fd, size_t count) {
  for (; count > 0; --count) {
    pollfd readable{fd, POLLIN, 0};
    if (poll(&readable, 1, 0) == 1) epic::io::TakeEventFd(fd);
  }
}

void Context::OnEvent(const Event& event) {
  ibv_async_event out{};
  out.event_type = TypeOf(event.kind);
  const auto cq = cqs.find(event.id);
  const auto qp = qps.find(event.id);
  const auto srq = srqs.find(event.id);
  switch (event.kind) {
    case Event::Kind::kCompletion: {
      if (cq == cqs.end() || cq->second->base.channel == nullptr) return;
      CompChannel* channel = Of(cq->second->base.channel);
      channel->events.push_back(cq->second);
      return io::SignalEventFd(channel->base.fd);
    }
    case Event::Kind::kCqOverrun:
      if (cq == cqs.end()) return;
      out.element.cq = &cq->second->base;
      break;
    case Event::Kind::kSrqLimitReached:
      if (srq == srqs.end()) return;
      out.element.srq = &srq->second->base;
      break;
    default:
      if (qp == qps.end()) return;
      out.element.qp = &qp->second->base;
  }
  async_events.push_back(out);
  io::SignalEventFd(verbs.context.async_fd);
}

namespace {

std::unique_ptr<Context> Open(const Device& device, int* error) {
  auto port = device.network->Open(device.interface);
  if (!port.ok()) {
    // Verbs has only an errno to say why; without the words nobody finds out that a capability is missing.
    std::fprintf(stderr, "softnic: %s: %s\n", device.base.name, port.status().ToString().c_str());
    *error = absl::IsPermissionDenied(port.status()) ? EPERM : absl::IsNotFound(port.status()) ? ENODEV : EIO;
    return nullptr;
  }
  auto context = std::make_unique<Context>();
  verbs_context& verbs = context->verbs;
  verbs.sz = sizeof verbs;
  verbs.query_port = QueryPort;
  verbs.query_device_ex = QueryDeviceEx;
  ibv_context& base = verbs.context;
  base.device = const_cast<ibv_device*>(&device.base);
  base.abi_compat = __VERBS_ABI_IS_EXTENDED;
  base.ops.poll_cq = PollCq;
  base.ops.req_notify_cq = RequestNotify;
  base.ops.post_send = PostSend;
  base.ops.post_recv = PostRecv;
  base.ops.post_srq_recv = PostSrqRecv;
  base.cmd_fd = -1;
  base.async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  base.num_comp_vectors = 1;
  pthread_mutex_init(&base.mutex, nullptr);
  context->device = &device;
  Context* const self = context.get();
  context->adapter = std::make_unique<Adapter>(std::move(*port), device.interface.ip, PathMtuOf(device),
                                               roce::Policy{}, [self](const Event& e) { self->OnEvent(e); });
  return context;
}

}  // namespace
}  // namespace epic::softnic

using namespace epic::softnic;

EPIC_VERBS ibv_context* ibv_open_device(ibv_device* device) {
  int error = 0;
  std::unique_ptr<Context> context = Open(*reinterpret_cast<Device*>(device), &error);
  return context != nullptr ? &context.release()->verbs.context : Null(error);
}

EPIC_VERBS int ibv_close_device(ibv_context* base) {
  Context* context = Of(base);
  context->adapter.reset();
  close(base->async_fd);
  delete context;
  return 0;
}

EPIC_VERBS int ibv_get_async_event(ibv_context* base, ibv_async_event* event) {
  if (!epic::io::TakeEventFd(base->async_fd)) return -1;
  Context* context = Of(base);
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
  } else {
    ++Of(event->element.qp)->events_read;
  }
  return 0;
}

EPIC_VERBS void ibv_ack_async_event(ibv_async_event* event) {
  const auto acknowledge = [](auto* object, uint32_t* completed) {
    pthread_mutex_lock(&object->mutex);
    ++*completed;
    pthread_cond_signal(&object->cond);
    pthread_mutex_unlock(&object->mutex);
  };
  switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
      return acknowledge(event->element.cq, &event->element.cq->async_events_completed);
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return acknowledge(event->element.srq, &event->element.srq->events_completed);
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return acknowledge(event->element.qp, &event->element.qp->events_completed);
    default:
      return;
  }
}

EPIC_VERBS ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  const int fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  if (fd < 0) return nullptr;
  auto* channel = new CompChannel;
  channel->base = {.context = context, .fd = fd, .refcnt = 0};
  return &channel->base;
}

EPIC_VERBS int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  if (channel->refcnt != 0) return EBUSY;
  close(channel->fd);
  delete Of(channel);
  return 0;
}

EPIC_VERBS int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  if (!epic::io::TakeEventFd(channel->fd)) return -1;
  const std::lock_guard lock(AdapterOf(channel->context).mutex());
  auto& events = Of(channel)->events;
  if (events.empty()) {
    errno = EAGAIN;  // its queue has been destroyed meanwhile
    return -1;
  }
  *cq = &events.front()->base;
  *cq_context = (*cq)->cq_context;
  ++events.front()->comp_events_read;
  events.pop_front();
  return 0;
}

EPIC_VERBS void ibv_ack_cq_events(ibv_cq* cq, unsigned int count) {
  pthread_mutex_lock(&cq->mutex);
  cq->comp_events_completed += count;
  pthread_cond_signal(&cq->cond);
  pthread_mutex_unlock(&cq->mutex);
}
