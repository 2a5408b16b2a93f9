#include "fallback/leg.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace epic::fallback {

Leg::Leg(const Group& group, std::span<uint8_t> memory, LegPort* port)
    : path_mtu_(group.path_mtu),
      message_bytes_(LegMessageBytes(group.path_mtu, group.accumulator_mtus)),
      memory_(memory),
      port_(port),
      sums_(group) {
  EPIC_CHECK(memory.size() >= LegMemoryBytes(group.path_mtu, group.accumulator_mtus));
  for (uint32_t number = kLegSums; number > 0; --number) free_.push_back(number - 1);
}

bool Leg::PostReceive(uint32_t number) {
  return port_->PostReceive(number, memory_.subspan(number * message_bytes_, message_bytes_));
}

bool Leg::Start() {
  for (uint32_t number = 0; number < kLegReceives; ++number) {
    if (!PostReceive(number)) return false;
  }
  return true;
}

std::string_view Leg::OnReceived(uint32_t number, uint32_t immediate, size_t bytes) {
  EPIC_CHECK(number < kLegReceives && bytes <= message_bytes_);
  const auto message = memory_.subspan(number * message_bytes_, bytes);
  if (const std::string_view wrong = sums_.Take(immediate, message); !wrong.empty()) return wrong;
  for (Sums::Fetched sum; sums_.NextFetched(&sum);) waiting_.push_back(std::move(sum));
  if (const std::string_view wrong = SendWaiting(); !wrong.empty()) return wrong;
  // A switch asks for no more than it has posted receives for.
  if (waiting_.size() > kLegSums) return "fetches";
  return PostReceive(number) ? std::string_view() : "queue";
}

std::string_view Leg::OnSent(uint32_t number) {
  free_.push_back(number);
  return SendWaiting();
}

std::string_view Leg::SendWaiting() {
  while (!waiting_.empty() && !free_.empty()) {
    const uint32_t number = free_.back();
    const Sums::Fetched& sum = waiting_.front();
    const size_t at = kLegReceives * message_bytes_ + size_t{number} * path_mtu_;
    EPIC_CHECK(sum.bytes.size() <= path_mtu_);
    std::ranges::copy(sum.bytes, memory_.begin() + static_cast<ptrdiff_t>(at));
    if (!port_->PostSend(number, sum.immediate, memory_.subspan(at, sum.bytes.size()))) return "queue";
    free_.pop_back();
    waiting_.pop_front();
  }
  return {};
}

}  // namespace epic::fallback
