#include "sim/faults.h"

namespace epic::sim {

Fate RandomFate(const FaultRates& rates, int packets, Choices& choices) {
  if (choices.Chance(rates.loss_ppm)) return Fate::kDrop;
  if (packets > 1 && rates.cut_ppm > 0 && choices.Chance(rates.cut_ppm)) return Fate::kCut;
  if (choices.Chance(rates.duplicate_ppm)) return Fate::kDuplicate;
  if (choices.Chance(rates.delay_ppm)) return Fate::kDelay;
  if (rates.linger_ppm > 0 && choices.Chance(rates.linger_ppm)) return Fate::kLinger;
  return rates.corrupt_ppm > 0 && choices.Chance(rates.corrupt_ppm) ? Fate::kCorrupt : Fate::kDeliver;
}

Fate RandomFaults::Next(const LinkPacket& packet, Nanos now, Choices& choices) {
  if (rates_.burst_ppm > 0) {
    Nanos& until = burst_until_[{packet.from, packet.to}];
    if (now >= until && choices.Chance(rates_.burst_ppm))
      until = now + 1 + static_cast<Nanos>(choices.Below(static_cast<uint64_t>(rates_.burst_ns)));
    if (now < until) return Fate::kDrop;
  }
  return RandomFate(rates_, packet.packets, choices);
}

Crash RandomCrash(Nanos faults_end, bool is_host, size_t nodes, Choices& choices) {
  const auto at = static_cast<Nanos>(choices.Below(static_cast<uint64_t>(faults_end)));
  const auto down =
      static_cast<Nanos>(choices.Below(static_cast<uint64_t>(faults_end / choices.OneOf({4, 64}))));
  return {
      .at = at, .until = at + 1 + down, .is_host = is_host, .number = static_cast<int>(choices.Below(nodes))};
}

}  // namespace epic::sim
