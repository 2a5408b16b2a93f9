// Hosts that speak to hosts: queue pairs between ranks, turns at the NICs, and what the switches forward.
#include <algorithm>

#include "base/check.h"
#include "sim/world.h"

namespace epic::sim {
namespace {

struct PeerEnd {
  Ipv4 ip{};
  Qpn qpn{};
  Psn send_psn;
};

roce::QueuePair Connected(const PeerEnd& local, const PeerEnd& remote, const WorldConfig& world,
                          const PeerConfig& config) {
  roce::Policy policy = roce::RxeLike();
  policy.retry_7_is_forever = !world.host_retries_end;
  policy.ack_after = config.ack_after;
  policy.ack_delay_ns = config.ack_delay_ns;
  roce::QueuePair qp({.local_ip = local.ip,
                      .local_qpn = local.qpn,
                      .send_depth = config.send_depth,
                      .recv_depth = config.recv_depth,
                      .max_inline_bytes = 0,
                      .max_rd_atomic = std::max<uint8_t>(1, config.max_rd_atomic),
                      .policy = policy});
  EPIC_CHECK(qp.Modify({.state = roce::QpState::kInit, .remote_read = true, .remote_write = true}) ==
             roce::ModifyResult::kOk);
  EPIC_CHECK(qp.Modify({.state = roce::QpState::kRtr,
                        .remote_ip = remote.ip,
                        .remote_qpn = remote.qpn,
                        .path_mtu = world.path_mtu,
                        .rq_psn = remote.send_psn,
                        .max_dest_rd_atomic = config.max_rd_atomic,
                        .min_rnr_timer = 14}) == roce::ModifyResult::kOk);
  EPIC_CHECK(qp.Modify({.state = roce::QpState::kRts,
                        .sq_psn = local.send_psn,
                        .timeout = world.host_timeout,
                        .retry_cnt = 7,
                        .rnr_retry = 7,
                        .max_rd_atomic = config.max_rd_atomic}) == roce::ModifyResult::kOk);
  return qp;
}

}  // namespace

// What leaves a host in turn: packet by packet, so that no two are of one event and none share a super-frame.
// What is for the host itself goes round inside, as in softnic.
class World::NicSink final : public roce::PacketSink {
 public:
  NicSink(World& world, int host) : world_(world), host_(host) {}
  void Send(const roce::Packet& packet) override {
    const int node = world_.node_of_host(host_);
    if (packet.dst_ip == AddressOf(node)) return world_.LoopBack(host_, packet);
    if (packet.dst_ip.is_multicast() && world_.config_.returns_multicast) world_.LoopBack(host_, packet);
    world_.Transmit(node, 0, packet, world_.ip_id_[static_cast<size_t>(node)]++, /*joins=*/false);
  }

 private:
  World& world_;
  int host_;
};

const Fabric& World::Forwards() {
  const int nodes = node_of_host(static_cast<int>(nics_.size()));
  if (!fabric_) fabric_ = std::make_unique<Fabric>(links_, switches(), nodes);
  return *fabric_;
}

Peers& World::AddPeers(int rank, PeerDriver& driver, const PeerConfig& config, int group) {
  Forwards();
  RankPeers& of = Of(group).peers[static_cast<size_t>(rank)];
  EPIC_CHECK(of.peers == nullptr && host(rank, group).alive());
  Nic& nic = nics_[static_cast<size_t>(HostOf(rank, group))];
  of.peers = std::make_unique<Peers>(
      Peers::RankPlace{.group = group, .rank = rank, .nic = &nic, .wake = &wanting_}, driver, config);
  return *of.peers;
}

Qpn World::NextPeerQpn(int rank, int group) {
  Group& of = Of(group);
  EPIC_CHECK(kPeerQpn + of.peer_qpns < kGroupQpns);
  const Qpn qpn{static_cast<uint32_t>(*of.spec.qpns) * kGroupQpns + kPeerQpn + of.peer_qpns++};
  rank_of_peer_qpn_[qpn] = {group, rank};
  return qpn;
}

Psn World::FirstPsn() {
  return Psn(config_.start_psn ? *config_.start_psn : static_cast<uint32_t>(choices_.Below(1 << 24)));
}

void World::ConnectPeers(int rank, int connection, int group) {
  const auto to = static_cast<int>(RankAt(static_cast<uint32_t>(connection)));
  EPIC_CHECK(rank != to && connection < static_cast<int>(kDatagrams));
  const auto end_of = [&](int at) {
    return PeerEnd{.ip = AddressOf(node_of_host(HostOf(at, group))),
                   .qpn = NextPeerQpn(at, group),
                   .send_psn = FirstPsn()};
  };
  const PeerEnd local = end_of(rank);
  const PeerEnd remote = end_of(to);
  const uint32_t back = AtOtherEnd(static_cast<uint32_t>(rank), static_cast<uint32_t>(connection));
  peers(rank, group).Connect(connection, Connected(local, remote, config_, peers(rank, group).config()));
  peers(to, group).Connect(static_cast<int>(back),
                           Connected(remote, local, config_, peers(to, group).config()));
}

Qpn World::AddDatagrams(int rank, const DatagramConfig& config, int group) {
  const Qpn qpn = NextPeerQpn(rank, group);
  roce::UdQueuePair qp({.local_ip = AddressOf(node_of_host(HostOf(rank, group))),
                        .local_qpn = qpn,
                        .mtu = config_.path_mtu,
                        .send_depth = config.send_depth,
                        .recv_depth = config.recv_depth,
                        .max_inline_bytes = 0});
  EPIC_CHECK(qp.Modify(roce::QpState::kInit, config.qkey) == roce::ModifyResult::kOk);
  EPIC_CHECK(qp.Modify(roce::QpState::kRtr) == roce::ModifyResult::kOk);
  EPIC_CHECK(qp.Modify(roce::QpState::kRts, {}, FirstPsn()) == roce::ModifyResult::kOk);
  for (size_t k = 0; k < config.addresses.size(); ++k) {
    EPIC_CHECK(qp.Attach(config.addresses[k]));
    Members& members = members_[config.addresses[k]];
    members.number = static_cast<int>(k);
    members.ranks.emplace_back(group, rank);
  }
  peers(rank, group).AddDatagrams(std::move(qp));
  return qpn;
}

void World::GiveGroupPorts() {
  for (const auto& [address, members] : members_) {
    std::vector<int> nodes;
    for (const auto& [group, rank] : members.ranks) nodes.push_back(node_of_host(HostOf(rank, group)));
    fabric_->SetGroupPorts(address.v4(), nodes, members.number);
  }
}

// A world without queue pairs between ranks forwards what a switch took for a group that it has lost.
void World::Forward(int s, PortId ingress, const LinkPacket& packet) {
  Forwards();
  for (const PortId port : fabric_->Route(now_, s, ingress, *packet.packet))
    Transmit(s, port, *packet.packet, 0, /*joins=*/false);
}

void World::TakeAtHost(int host_number, const roce::Packet& packet) {
  if (packet.dst_ip.is_multicast()) return TakeMulticast(host_number, packet);
  const auto found = rank_of_peer_qpn_.find(packet.bth.dest_qp);
  const bool ours = found != rank_of_peer_qpn_.end() &&
                    packet.dst_ip == AddressOf(node_of_host(host_number)) &&
                    HostOf(found->second.second, found->second.first) == host_number;
  if (!ours || !peers(found->second.second, found->second.first).OnPacket(now_, packet))
    return void(++unclaimed_);
  RunPeers(found->second.first, found->second.second);
  RunNic(host_number);
}

// The NIC has a copy for each member before any of them does something. Where no member is the packet has
// been flooded.
void World::TakeMulticast(int host_number, const roce::Packet& packet) {
  std::vector<std::pair<int, int>> here = members_.at(packet.dst_ip).ranks;
  std::erase_if(here, [&](const auto& member) { return HostOf(member.second, member.first) != host_number; });
  for (const auto& [group, rank] : here) peers(rank, group).OnMulticast(packet);
  for (const auto& [group, rank] : here) RunPeers(group, rank);
  RunNic(host_number);
}

// Takes no time, but is not taken from within the call that sends.
void World::LoopBack(int host_number, const roce::Packet& packet) {
  std::vector<uint8_t> payload(packet.payload.begin(), packet.payload.end());
  events_.AddAction(clock_, [this, host_number, head = packet, payload = std::move(payload)] {
    if (IsDown(node_of_host(host_number))) return;
    roce::Packet whole = head;
    whole.payload = payload;
    TakeAtHost(host_number, whole);
  });
}

void World::RunPeers(int group, int rank) {
  RankPeers& of = Of(group).peers[static_cast<size_t>(rank)];
  if (of.peers == nullptr) return;
  of.peers->Run(now_, host(rank, group).stopped());
  const Nanos deadline = of.peers->next_deadline(now_);
  if (!IsNews(deadline, of.deadline)) return;
  of.deadline = deadline;
  At(RunsAt(deadline), [this, group, rank] { PollRank(group, rank); });
}

// Each in turn while the link is free: the next packet begins where the one before has ended, to the fraction
// of a picosecond.
void World::RunNic(int host_number) {
  Nic& nic = nics_[static_cast<size_t>(host_number)];
  const int node = node_of_host(host_number);
  while (nic.has_line() && !nic.waits_for_link && !IsDown(node)) {
    if (const Picos free_at = links_.free_at(node, 0); free_at > clock_) {
      nic.waits_for_link = true;
      events_.AddAction(free_at, [this, host_number] {
        nics_[static_cast<size_t>(host_number)].waits_for_link = false;
        RunNic(host_number);
      });
      return;
    }
    TurnTaker& first = nic.Next();
    NicSink sink(*this, host_number);
    first.TakeTurn(now_, sink);
    if (config_.ranks_take_turns) SettleRank(first.group, first.rank);
    RunPeers(first.group, first.rank);
  }
}

}  // namespace epic::sim
