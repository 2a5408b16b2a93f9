// A completion queue and its channel, for any number of queue pairs: plain libibverbs.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <span>

#include "commlib/verbs/device.h"
#include "epic/epic.h"

namespace epic::verbs {

// Not thread-safe; its owner has a lock. Outlives its queue pairs, which hold it.
class CompletionQueue {
 public:
  // With room for so many completions. kNoResource or kInternal if verbs refuse.
  static Error Create(std::shared_ptr<Device> device, uint32_t room, std::shared_ptr<CompletionQueue>* cq);
  ~CompletionQueue();
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  // Room for so many completions from now on, and never less than before. kNoResource if verbs refuse; then
  // nothing has changed.
  Error Grow(uint32_t room);

  uint32_t room() const { return static_cast<uint32_t>(cq_->cqe); }

  // Fills `completions`; the number is 0 if there are none, negative if the queue is broken.
  int Poll(std::span<ibv_wc> completions) {
    return ibv_poll_cq(cq_, static_cast<int>(completions.size()), completions.data());
  }

  // Readable when completions have come since RequestNotify; non-blocking.
  int channel_fd() const { return channel_->fd; }
  // Asks for an event at the next completion. To be followed by Poll, for those that came before.
  void RequestNotify() { ibv_req_notify_cq(cq_, 0); }
  // Takes the event off the channel: there is one for each time that it was asked for.
  void ConsumeEvent();
  // As RequestNotify, of a thread that sleeps on the descriptor returned beside the channel's: readable when
  // it had better poll, though there may be no event. Until EndSleep. -1 if the NIC has none, or another
  // communicator's thread sleeps so: nothing has been asked for.
  int BeginSleep();
  // True if the event that was asked for will not come any more.
  bool EndSleep();

 private:
  friend class AnyQp;
  CompletionQueue() = default;

  std::shared_ptr<Device> device_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  unsigned unacked_events_ = 0;
};

}  // namespace epic::verbs
