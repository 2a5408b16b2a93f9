#include "check/conform/monitor.h"

#include <fmt/format.h>

namespace epic::conform {
namespace {

constexpr uint64_t kNoGroup = UINT64_MAX;
constexpr int kParentChild = -1;
constexpr int kNobody = -2;

std::string DottedQuad(Ipv4 ip) {
  const uint32_t raw = Raw(ip);
  return fmt::format("{}.{}.{}.{}", raw >> 24, raw >> 16 & 0xff, raw >> 8 & 0xff, raw & 0xff);
}

}  // namespace

void Monitor::OnInstall(const engine::GroupConfig& config) {
  OnRemove(config.group_id, config.generation);
  const GroupModel& group = groups_.emplace(config.group_id, GroupModel(config)).first->second;
  for (size_t end = 0; end < group.ends(); ++end) {
    const engine::EndpointConfig& endpoint = group.endpoint(end);
    const Address remote{Raw(endpoint.remote_ip), Raw(endpoint.remote_qpn)};
    by_local_qpn_[Raw(endpoint.local_qpn)] = {config.group_id, end};
    by_remote_[remote] = {config.group_id, end};
    removed_.erase(remote);
  }
}

void Monitor::OnRemove(uint64_t group_id, uint32_t generation) {
  const auto it = groups_.find(group_id);
  if (it == groups_.end() || it->second.config().generation != generation) return;
  for (size_t end = 0; end < it->second.ends(); ++end) {
    const engine::EndpointConfig& endpoint = it->second.endpoint(end);
    const Address remote{Raw(endpoint.remote_ip), Raw(endpoint.remote_qpn)};
    by_local_qpn_.erase(Raw(endpoint.local_qpn));
    by_remote_.erase(remote);
    removed_[remote] = group_id;
  }
  groups_.erase(it);
}

void Monitor::OnFail(uint64_t group_id, uint32_t generation) {
  const auto it = groups_.find(group_id);
  if (it != groups_.end() && it->second.config().generation == generation) it->second.Stop();
}

void Monitor::OnPacketIn(PortId port, const roce::Packet& packet) {
  ++verdict_.packets_in;
  step_ = kNoGroup;
  const auto it = by_local_qpn_.find(Raw(packet.bth.dest_qp));
  if (it == by_local_qpn_.end()) return;
  GroupModel& group = groups_.at(it->second.group_id);
  // A stranger's packet may have no effect, nor one that came by another port than the edge's.
  const engine::EndpointConfig& from = group.endpoint(it->second.end);
  if (packet.src_ip != from.remote_ip || packet.dst_ip != engine::LocalAddress(from, address_)) return;
  if (port != kNoPort && port != engine::IngressPort(from)) return;
  step_ = it->second.group_id;
  group.OnIn(it->second.end, packet);
}

void Monitor::OnPacketOut(uint64_t line, PortId port, const roce::Packet& packet) {
  ++verdict_.packets_out;
  const Address remote{Raw(packet.dst_ip.v4()), Raw(packet.bth.dest_qp)};
  const auto it = by_remote_.find(remote);
  if (it == by_remote_.end()) {
    const auto gone = removed_.find(remote);
    Judge judge(verdict_, line, gone == removed_.end() ? 0 : gone->second, kNobody);
    judge.Expect(
        gone == removed_.end() ? Rule::kAddress : Rule::kInstalled, false,
        [&] {
          return gone == removed_.end()
                     ? std::string("a packet to an endpoint of a group")
                     : fmt::format("nothing of group {}: it has been removed", gone->second);
        },
        [&] {
          return fmt::format("a packet to {} QPN {:#x}", DottedQuad(packet.dst_ip.v4()), remote.second);
        });
    return;
  }
  GroupModel& group = groups_.at(it->second.group_id);
  const engine::EndpointConfig& endpoint = group.endpoint(it->second.end);
  Judge judge(verdict_, line, it->second.group_id,
              group.is_parent(it->second.end) ? kParentChild : static_cast<int>(it->second.end));
  const Ipv4 local = engine::LocalAddress(endpoint, address_);
  const auto seen = [&] {
    return fmt::format("a packet from {} by port {}", DottedQuad(packet.src_ip.v4()), port);
  };
  judge.Expect(
      Rule::kInstalled, true, [] { return ""; }, [] { return ""; });
  judge.Expect(
      Rule::kAddress, packet.src_ip == local && (port == endpoint.port || port == kNoPort),
      [&] { return fmt::format("one from {} by port {}", DottedQuad(local), endpoint.port); }, seen);
  if (step_) {
    judge.Expect(
        Rule::kIsolation, *step_ == it->second.group_id,
        [&] {
          return *step_ == kNoGroup ? std::string("nothing: what came is of no group")
                                    : fmt::format("packets of group {} only, whose step it is", *step_);
        },
        [&] { return fmt::format("one of group {}", it->second.group_id); });
  } else {
    judge.NotJudged("packets whose cause is not known, against isolation");
  }
  if (!judge.Expect(
          Rule::kStopped, !group.stopped(), [] { return "nothing: the group has been stopped"; },
          [] { return "a packet"; })) {
    return;
  }
  group.OnOut(it->second.end, packet, judge);
}

}  // namespace epic::conform
