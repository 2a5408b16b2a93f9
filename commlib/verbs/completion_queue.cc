#include "commlib/verbs/completion_queue.h"

#include <fcntl.h>

#include <cerrno>

#include "commlib/verbs/extensions.h"
#include "commlib/verbs/verbs_error.h"

namespace epic::verbs {
namespace {

// Acknowledging an event takes a mutex: done in batches.
constexpr unsigned kAckBatch = 64;

}  // namespace

Error CompletionQueue::Create(std::shared_ptr<Device> device, uint32_t room,
                              std::shared_ptr<CompletionQueue>* cq) {
  std::shared_ptr<CompletionQueue> result(new CompletionQueue);
  result->device_ = device;
  result->channel_ = ibv_create_comp_channel(device->context());
  if (result->channel_ == nullptr)
    return VerbsError(ErrorCode::kNoResource, "cannot create a completion channel", errno);
  const int flags = fcntl(result->channel_->fd, F_GETFL);
  if (fcntl(result->channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return VerbsError(ErrorCode::kInternal, "cannot make the completion channel non-blocking", errno);
  }
  result->cq_ = ibv_create_cq(device->context(), static_cast<int>(room), nullptr, result->channel_, 0);
  if (result->cq_ == nullptr)
    return VerbsError(ErrorCode::kNoResource, "cannot create a completion queue", errno);
  *cq = std::move(result);
  return {};
}

CompletionQueue::~CompletionQueue() {
  if (cq_ != nullptr) {
    ibv_ack_cq_events(cq_, unacked_events_);
    ibv_destroy_cq(cq_);
  }
  if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
}

Error CompletionQueue::Grow(uint32_t room) {
  if (static_cast<uint32_t>(cq_->cqe) >= room) return {};
  const int error = ibv_resize_cq(cq_, static_cast<int>(room));
  if (error != 0) return VerbsError(ErrorCode::kNoResource, "cannot enlarge the completion queue", error);
  return {};
}

int CompletionQueue::BeginSleep() { return verbs::BeginSleep(cq_); }

bool CompletionQueue::EndSleep() { return verbs::EndSleep(cq_); }

void CompletionQueue::ConsumeEvent() {
  ibv_cq* cq = nullptr;
  void* unused = nullptr;
  if (ibv_get_cq_event(channel_, &cq, &unused) == 0) ++unacked_events_;
  if (unacked_events_ >= kAckBatch) {
    ibv_ack_cq_events(cq_, unacked_events_);
    unacked_events_ = 0;
  }
}

}  // namespace epic::verbs
