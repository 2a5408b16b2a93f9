// A switch in several shards, as the control plane sees it: real loops on threads of their own, no interfaces.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "incengine/daemon/shard.h"
#include "incengine/daemon/sharded_control.h"
#include "roce/frame.h"
#include "roce/frame_testing.h"

namespace epic::daemon {

inline constexpr size_t kShards = 3;
inline constexpr size_t kArena = 65536;  // of each
inline constexpr Ipv4 kAddress{0x0a00ff01};
inline constexpr roce::MacAddress kMac = {2, 0, 0, 0, 0, 9};
inline const PortNames kPorts = {"p0", "p1"};

class NoFrames final : public engine::FrameSink {
 public:
  void Send(PortId, std::span<const uint8_t>) override {}
  void SetTimer(engine::TimerId, Nanos) override {}
};

// What is one shard's own, and touched on its thread only.
struct OneShard {
  OneShard()
      : control({"s1", "1.2.3", 77}, kPorts, sw, [this] { return ports; }, nullptr,
                [this](const engine::ProbeTarget& target) {
                  return engine::ProbeAnswer{.asked = probed.insert(target.port).second};
                }) {
    for (const std::string& name : kPorts)
      ports.push_back({.name = name, .interface = {.exists = true, .up = true, .mtu = 4200}});
    thread = std::thread([this] { loop.Run(); });
  }
  ~OneShard() {
    loop.Post([this] { loop.Stop(); });
    thread.join();
  }

  io::EventLoop loop{0};
  engine::Switch sw{{.address = kAddress, .mac = kMac, .port_count = 2, .arena_bytes = kArena}};
  std::vector<PortState> ports;
  std::set<PortId> probed;
  SwitchControl control;
  std::thread thread;
};

class ShardsTest : public ::testing::Test {
 protected:
  // Does something on the shard's thread, and waits for it.
  template <typename Do>
  void On(size_t shard, const Do& what) {
    const auto done = std::make_shared<std::promise<void>>();
    shards_[shard].loop.Post([this, shard, &what, done] {
      what(shards_[shard]);
      done->set_value();
    });
    done->get_future().wait();
  }
  std::vector<uint64_t> GroupsOn(size_t shard) {
    std::vector<uint64_t> ids;
    On(shard, [&ids](OneShard& at) {
      for (const auto& [id, group] : at.sw.engine().groups()) ids.push_back(id);
    });
    return ids;
  }
  // A frame that has come to the shard by the port.
  void Receive(size_t shard, PortId port, Qpn qpn) {
    roce::Packet packet;
    packet.src_ip = Ipv4{0x0a000001};
    packet.dst_ip = kAddress;
    packet.bth.opcode = roce::Opcode::kRcSendOnly;
    packet.bth.dest_qp = qpn;
    std::vector<uint8_t> frame(roce::FrameBytes(packet));
    roce::WriteFrame({.dst = kMac, .src = {2, 0, 0, 0, 0, 1}, .ip_id = 0, .vlan = {}}, packet, frame);
    On(shard, [&](OneShard& at) {
      NoFrames sink;
      at.sw.OnFrame(kSecond, port, frame, sink);
    });
  }
  Status Install(const proto::GroupConfig& group) {
    proto::InstallRequest request;
    *request.mutable_group() = group;
    return control_.Install(request).status();
  }
  Status Remove(uint64_t id, uint32_t generation = 1) {
    proto::RemoveRequest request;
    request.set_group_id(id);
    request.set_generation(generation);
    return control_.Remove(request).status();
  }

  std::array<OneShard, kShards> shards_;
  ShardedControl control_{[this] {
    std::vector<ShardedControl::Shard> all;
    for (OneShard& shard : shards_) all.push_back({&shard.loop, &shard.control});
    return all;
  }()};
};

inline proto::EndpointConfig Endpoint(uint32_t qpn, uint32_t port) {
  proto::EndpointConfig endpoint;
  endpoint.set_local_qpn(qpn);
  endpoint.set_remote_ip(0x0a000001 + port);
  endpoint.set_remote_qpn(0x11);
  endpoint.set_remote_mac(std::string("\x02\0\0\0\0\1", 6));
  endpoint.set_port(kPorts[port]);
  return endpoint;
}

// Two hosts, whose QPNs have this low byte, under a root elsewhere. About 17 KB of an arena.
inline proto::GroupConfig Group(uint64_t id, uint32_t low_byte) {
  proto::GroupConfig group;
  group.set_group_id(id);
  group.set_generation(1);
  group.set_name("job");
  group.set_mode(proto::MODE_TRANSLATED);
  group.set_world_size(4);
  group.set_path_mtu(512);
  group.set_message_packets(2);
  group.set_window_messages(4);
  group.set_slots(16);
  group.set_accumulator_mtus(2);
  group.set_prompt_ns(20'000'000);
  const uint32_t first = static_cast<uint32_t>(id) << 16 | low_byte;
  for (uint32_t i = 0; i < 2; ++i) {
    *group.add_children() = Endpoint(first + (i << 8), i);
    group.mutable_children(static_cast<int>(i))->set_is_host(true);
    group.mutable_children(static_cast<int>(i))->add_ranks(i);
  }
  *group.mutable_parent() = Endpoint(first + 0x200, 1);
  return group;
}

}  // namespace epic::daemon
