// A switch on softnic's virtual network, and what a manager tells its ranks, for tests that run the host
// library, softnic and a switch's engine in one process.
#pragma once

#include <gtest/gtest.h>

#include <map>

#include "commlib/session_state.h"
#include "incengine/core/engine.h"
#include "incengine/modes/table.h"
#include "softnic/port/virtual_network.h"

namespace epic::softnic {

inline constexpr Ipv4 kHostIp{0x0a000001}, kSwitchIp{0x0a00ff01};
inline constexpr uint32_t kPathMtu = 1024, kMessagePackets = 4, kWindowMessages = 4;
inline constexpr uint32_t kUpPsn = 0xfffff0, kDownPsn = 77;  // the first wraps

// The switch's queue pair for a rank.
inline uint32_t SwitchQpn(uint64_t group, uint32_t rank) {
  return static_cast<uint32_t>(0x100 * group) + rank;
}

// A switch on the network, which ends before it: that has the switch's timers.
class VirtualSwitch final : public engine::Effects {
 public:
  explicit VirtualSwitch(VirtualNetwork* network) : network_(network) {
    network_->AddNode(kSwitchIp, [this](Nanos now, const roce::Packet& packet) {
      engine_.OnPacket(now, /*port=*/0, packet, *this);
    });
  }
  // Once the queue pair numbers of the ranks are known. in_block: its memory is the switch's one block, of
  // all groups of which that is said.
  void Install(uint64_t group, engine::Mode mode, const std::map<uint32_t, uint32_t>& qpn_of_rank,
               const Abilities& abilities = Abilities::All(), bool in_block = false) {
    engine::GroupConfig config{{.group_id = group,
                                .mode = mode,
                                .world_size = static_cast<uint32_t>(qpn_of_rank.size()),
                                .path_mtu = kPathMtu,
                                .message_packets = kMessagePackets,
                                .window_messages = kWindowMessages,
                                .slots = 2 * kMessagePackets * kWindowMessages,
                                .accumulator_mtus = abilities.Has(DataType::kBlock8) ? 4u : 2u,
                                .prompt_ns = kMillisecond}};
    config.abilities = abilities;
    for (const auto& [rank, qpn] : qpn_of_rank) {
      config.children.push_back({.local_qpn = Qpn{SwitchQpn(group, rank)},
                                 .remote_ip = kHostIp,
                                 .remote_qpn = Qpn{qpn},
                                 .port = 0,
                                 .in_psn = Psn(kUpPsn),
                                 .out_psn = Psn(kDownPsn),
                                 .is_host = true,
                                 .ranks = {rank}});
    }
    if (in_block) {
      config.block = 1;
      config.block_bytes = engine::ArenaBytes(config);
    }
    network_->Do([&] { ASSERT_TRUE(engine_.Install(config).ok()); });
  }
  // Whether a group has the block now, if there is one.
  bool IsBlockHeld() {
    bool held = false;
    network_->Do([&] { held = engine_.blocks().contains(1) && engine_.blocks().at(1).holder; });
    return held;
  }

  void Send(PortId, const engine::OutPacket& packet) override {
    network_->SendFrom(kSwitchIp, packet.packet);
  }
  void SetTimer(engine::TimerId id, Nanos deadline) override {
    deadlines_[id] = deadline;
    const auto fire = [this, id](Nanos now) {
      deadlines_[id] = kNever;
      engine_.OnTimer(now, id, *this);
    };
    network_->At(deadline, fire, [this, id, deadline] { return deadlines_[id] == deadline; });
  }
  void Drop(PortId, engine::DropReason) override {}

 private:
  VirtualNetwork* network_;
  engine::Engine engine_{kSwitchIp, 1, 1 << 20};
  std::map<engine::TimerId, Nanos> deadlines_;
};

// What a rank of such a group is told when it has joined.
inline internal::JoinedInfo JoinedAt(uint64_t group, engine::Mode mode, uint32_t rank) {
  return {.group_id = group,
          .mode = static_cast<int>(mode),
          .connect = {.remote_ip = kSwitchIp,
                      .remote_qpn = SwitchQpn(group, rank),
                      .send_psn = kUpPsn,
                      .recv_psn = kDownPsn,
                      .path_mtu = kPathMtu,
                      .timeout = 18,
                      .retry_cnt = 7,
                      .rnr_retry = 7,
                      .min_rnr_timer = 1,
                      .super_frames = true},  // where the network has them
          .message_packets = kMessagePackets,
          .window_messages = kWindowMessages,
          .inline_bytes = kMessagePackets * kPathMtu - 64};
}

// The same of a group that goes by the hosts.
inline internal::JoinedInfo JoinedByHosts(uint64_t group) {
  return {
      .group_id = group,
      .path = PathChoice::kHosts,
      .path_reason = "asked for",
      .connect = {.path_mtu = kPathMtu, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1}};
}

}  // namespace epic::softnic
