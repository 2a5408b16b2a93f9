// The multicast group of a group's ranks (docs/PROTOCOL-MULTICAST.md, section 6).
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "incmanager/groups/group_life.h"

namespace epic::manager {
namespace {

// A rank adds the bits of an invocation's number from 16 on to it. With the two uppermost bits 0 the
// uppermost, which is not sent as a key (InfiniBand, 10.2.5), stays so for 2^46 invocations: two years of a
// million a second. The others are random, so that who does not know them has one chance in 2^30, and so that
// frames of a former group with this address are not taken for this one's.
constexpr uint32_t kQkeyBits = 0x3fffffff;

}  // namespace

// If some rank asks for it, or would take it between the hosts; once it is decided which path the group
// takes.
void GroupLife::GiveMulticast(Nanos now, Group* group) {
  const auto takes = [](const auto& member) { return member.second.join.datagrams_offered; };
  const bool is_asked = AsksForMulticast(*group);
  if (!is_asked && (group->path_taken != Path::kHosts || std::ranges::none_of(group->members, takes))) return;
  group->no_multicast = placer_.RefusesMulticast(*group);
  const auto address = group->no_multicast.ok() ? addresses_.Take(now) : std::nullopt;
  if (!address) {
    if (group->no_multicast.ok()) {
      group->no_multicast = {
          ErrorCode::kNoResource,
          fmt::format("no address is left of {}: each is that of a group, or was until {} s ago",
                      addresses_.range()->ToString(), MulticastPool::kQuarantine / kSecond),
          -1, ""};
    }
    if (is_asked) {
      world_->Note(fmt::format("group {}: no multicast: {}", group->spec.name, group->no_multicast.message));
    }
    return;
  }
  MulticastGroup multicast{.address = *address,
                           .qkey = static_cast<uint32_t>(random_() & kQkeyBits),
                           .ends = {},
                           .super_frames = placer_.MulticastCarriesSuperFrames(*group),
                           .receives = std::numeric_limits<uint32_t>::max()};
  for (const auto& [rank, member] : group->members) {
    multicast.ends.push_back({member.join.ip, member.join.datagram_qpn});
    multicast.receives = std::min(multicast.receives, member.join.datagram_receives);
  }
  group->multicast = std::move(multicast);
  ++multicast_changes_;
  world_->Note(fmt::format("group {}: multicast to {}", group->spec.name, ToString(*address)));
}

void GroupLife::OnDatagrams(SessionId session, const DatagramsSeen& datagrams) {
  const auto [group, member] = OfSession(session);
  if (group != nullptr && group->multicast) member->datagrams = datagrams;
}

std::vector<MulticastMembers> GroupLife::Multicasts() const {
  std::vector<MulticastMembers> out;
  for (const auto& [id, group] : groups_) {
    if (group.multicast && IsInUse(group.phase) && !group.removal_started)
      out.push_back({MulticastMac(group.multicast->address), HostsOf(group)});
  }
  return out;
}

}  // namespace epic::manager
