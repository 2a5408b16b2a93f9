#include "incengine/state/message_ring.h"

#include <algorithm>

#include "base/check.h"

namespace epic::engine {
namespace {

size_t RoundUp(size_t bytes) {
  return std::max(bytes + MessageRing::kAlignment - 1, MessageRing::kAlignment) / MessageRing::kAlignment *
         MessageRing::kAlignment;
}

}  // namespace

std::optional<uint64_t> MessageRing::Place(size_t bytes) const {
  if (messages_.full()) return std::nullopt;
  bytes = RoundUp(bytes);
  const size_t head = messages_.empty() ? 0 : static_cast<size_t>(messages_.front().at - base_);
  const bool wrapped = !messages_.empty() && tail_ <= head;
  if (!wrapped && capacity_ - tail_ >= bytes) return base_ + tail_;
  if (wrapped) return head - tail_ >= bytes ? std::optional(base_ + tail_) : std::nullopt;
  const size_t before = messages_.empty() ? capacity_ : head;
  return before >= bytes ? std::optional(base_) : std::nullopt;
}

uint64_t MessageRing::Append(const Message& message) {
  EPIC_CHECK(message.at >= base_ && message.at - base_ + RoundUp(message.bytes) <= capacity_);
  messages_.push_back(message);
  tail_ = static_cast<size_t>(message.at - base_) + RoundUp(message.bytes);
  return first_ + messages_.size() - 1;
}

void MessageRing::CheckInvariants() const {
  EPIC_CHECK(tail_ <= capacity_);
  if (messages_.empty()) return;
  EPIC_CHECK(messages_.front().holders > 0);
  const uint64_t head = messages_.front().at;
  uint64_t end = head;
  bool wrapped = false;
  for (size_t i = 0; i < messages_.size(); ++i) {
    const Message& message = messages_[i];
    if (message.at < end) {
      EPIC_CHECK(message.at == base_ && !wrapped);
      wrapped = true;
    }
    end = message.at + RoundUp(message.bytes);
    EPIC_CHECK(Contains(message.at, RoundUp(message.bytes)) && (!wrapped || end <= head));
  }
  // What takes the place of a message may be shorter.
  EPIC_CHECK(tail_ >= end - base_);
}

void MessageRing::Release(uint64_t number) {
  Message& message = at(number);
  EPIC_CHECK(message.holders > 0);
  --message.holders;
  for (; !messages_.empty() && messages_.front().holders == 0; ++first_) {
    left_packets_end_ = messages_.front().packets_end;
    messages_.pop_front();
  }
}

}  // namespace epic::engine
