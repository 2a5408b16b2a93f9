// Acknowledgements and congestion notifications.
#include <fmt/format.h>

#include <algorithm>

#include "check/conform/group.h"

namespace epic::conform {

void GroupModel::JudgeAeth(size_t number, const roce::Packet& packet, Judge& judge) {
  End& end = ends_[number];
  const uint8_t syndrome = packet.aeth.syndrome;
  // PSNs are compared with what is expected from the peer: both are within half the number space.
  const int64_t position = end.in.PositionOf(packet.bth.psn, end.taken);
  const bool ack = syndrome == roce::kSyndromeAck;
  const bool rnr = roce::IsRnrNak(syndrome) && (!Translated() || end.config.is_host);
  const bool refusal = syndrome == roce::kSyndromeNakInvalidRequest && end.misfit;
  // Mode II hands a host's own words back to it.
  const bool reflected = Translated() && end.config.is_host && syndrome == end.last_negative;
  if (!judge.Expect(
          Rule::kSyndrome, ack || rnr || refusal || reflected || syndrome == roce::kSyndromeNakSequence,
          [] { return "an ACK, a sequence NAK, or an RNR NAK where there may be one"; },
          [&] { return fmt::format("syndrome {:#04x}", syndrome); })) {
    return;
  }
  const auto msn = end.in.MessagesBefore(ack ? position + 1 : position);
  if (ack ? position < 0 : position <= 0) {
    // Names what lies before the first packet: no message is complete.
    judge.Expect(
        Rule::kMsn, packet.aeth.msn == 0, [] { return "MSN 0"; },
        [&] { return fmt::format("{}", packet.aeth.msn); });
  } else if (!msn || (Terminated() && end.misfit)) {
    judge.NotJudged("MSNs of streams that do not fit their positions");
  } else {
    judge.Expect(
        Rule::kMsn, packet.aeth.msn == *msn, [&] { return fmt::format("MSN {}", *msn); },
        [&] { return fmt::format("{}", packet.aeth.msn); });
  }
  if (ack) return JudgeAck(number, position, judge);
  JudgeNak(number, position, syndrome, judge);
}

void GroupModel::JudgeAck(size_t number, int64_t position, Judge& judge) {
  End& end = ends_[number];
  const bool received = position < end.taken;
  const bool allowed = received && MayTellBefore(number, position + 1);
  judge.Expect(
      Rule::kAck, allowed,
      [&] {
        const int64_t most = received ? end.told : end.taken;
        return fmt::format("an ACK before packet {} of this direction, {}", most,
                           received ? "which its receivers have not acknowledged" : "which has not come");
      },
      [&] { return fmt::format("ACK of packet {}", position); });
}

void GroupModel::JudgeNak(size_t number, int64_t position, uint8_t syndrome, Judge& judge) {
  End& end = ends_[number];
  const bool to_switch = Translated() && !end.config.is_host;  // acknowledges nothing
  bool allowed = position >= 0 && position <= end.taken;
  // To hosts of mode II it acknowledges everything before its PSN, in the other modes it names the one
  // expected: not one that has been acknowledged or used.
  if (allowed && Translated()) allowed = to_switch || MayTellBefore(number, position);
  if (allowed && !Translated()) allowed = position >= end.told && TakeBack(number, position);
  judge.Expect(
      Rule::kNak, allowed,
      [&] {
        return fmt::format("a NAK of packet {} at most{}", end.taken,
                           to_switch ? "" : fmt::format(", with {} known as acknowledged", end.told));
      },
      [&] { return fmt::format("syndrome {:#04x} at packet {}", syndrome, position); });
}

// A NAK says that what it names has not been used. False if it has been.
bool GroupModel::TakeBack(size_t number, int64_t position) {
  End& end = ends_[number];
  for (int64_t at = end.taken - 1; at >= position; --at) {
    const auto index = end.in.IndexAt(at);
    const auto it = index ? items_.find(*index) : items_.end();
    if (it == items_.end()) continue;
    Item& item = it->second;
    const auto own = std::ranges::find(item.from, number, &Contribution::child);
    if (is_parent(number)) {
      const bool passed = std::ranges::any_of(ends_.begin(), ends_.end() - 1, [&](const End& child) {
        const auto out = child.out.PositionAt(*index);
        return out && *out < child.sent;
      });
      if (passed) return false;
      item.result.reset();
    } else if (own == item.from.end()) {
      return false;
    } else {
      item.from.erase(own);
    }
    end.taken = at;
  }
  return true;
}

// Mode II: every receiver of the index has acknowledged it, as far as this switch can know.
bool GroupModel::GroupAcknowledged(Index index) {
  if (!is_root()) {
    const auto up = parent().out.PositionAt(index);
    return up && *up < parent().acked;
  }
  return std::all_of(ends_.begin(), ends_.end(), [&](const End& child) {
    const auto out = child.out.PositionAt(index);
    return !out || *out < child.acked;
  });
}

// Mode II, "may be told" (docs/PROTOCOL.md, section 5).
bool GroupModel::MayTell(size_t number, int64_t position) {
  const End& end = ends_[number];
  const auto index = end.in.IndexAt(position);
  if (!index) return true;  // forgotten, so long acknowledged
  if (is_parent(number)) {
    return !Acknowledged(*index) || std::all_of(ends_.begin(), ends_.end() - 1, [&](const End& child) {
      const auto out = child.out.PositionAt(*index);
      return !out || *out < child.acked;
    });
  }
  // Of what switches do not acknowledge an ACK says nothing.
  if (!end.config.is_host) return !Acknowledged(*index) || GroupAcknowledged(*index);
  const auto own = end.out.PositionAt(*index);
  return own ? *own < end.acked : GroupAcknowledged(*index);
}

// Whether everything before the position may be acknowledged to this end.
bool GroupModel::MayTellBefore(size_t number, int64_t position) {
  End& end = ends_[number];
  if (!Translated()) {
    end.told = std::max(end.told, position);
    return true;
  }
  while (end.told < position && MayTell(number, end.told)) ++end.told;
  return end.told >= position;
}

void GroupModel::JudgeCnp(size_t number, Judge& judge) {
  const End& end = ends_[number];
  judge.Expect(
      Rule::kCnp, Terminated() && end.congested,
      [] { return "a congestion notification only in mode I, to one whose packet was marked on its way"; },
      [] { return "one to another"; });
}

}  // namespace epic::conform
