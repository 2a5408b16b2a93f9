// What one switch of a virtual-time world received and sent, to be changed and judged again.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "check/conform/world_testing.h"
#include "sim/faults.h"

namespace epic::conform {

struct Event {
  enum class Kind { kIn, kOut, kInstall, kRemove, kFail } kind = Kind::kIn;
  PortId port = kNoPort;
  roce::Packet packet;  // without payload
  PacketBytes payload;
  engine::GroupConfig group;
  bool step_known = false;  // of kIn: all up to the next event in is because of it

  bool IsSend() const { return packet.bth.opcode <= roce::Opcode::kRcSendOnlyImm; }
  bool IsControl() const { return packet.bth.opcode == roce::Opcode::kRcSendOnlyImm; }
  bool IsData() const { return IsSend() && !IsControl(); }
  bool IsAeth() const { return packet.bth.opcode == roce::Opcode::kRcAck; }
  bool IsAck() const { return IsAeth() && roce::IsAck(packet.aeth.syndrome); }
  bool in() const { return kind == Kind::kIn; }
  bool out() const { return kind == Kind::kOut; }
};

struct Recording {
  Ipv4 address{};
  std::vector<Event> events;

  // The first event at or after `from` for which is() holds; a test failure and the first event if none.
  size_t Find(const std::function<bool(const Event&)>& is, size_t from = 0) const {
    for (size_t i = from; i < events.size(); ++i) {
      if (is(events[i])) return i;
    }
    ADD_FAILURE() << "the recording has no such event";
    return 0;
  }
  const engine::GroupConfig& group() const { return events[0].group; }
  // The packet of an event in comes from the parent, or that of an event out goes there.
  bool Above(const Event& e) const {
    const auto& parent = group().parent;
    if (!parent) return false;
    return e.in() ? e.packet.bth.dest_qp == parent->local_qpn : e.packet.bth.dest_qp == parent->remote_qpn;
  }
  // Inserts it before the event at `at`; with a packet taken from elsewhere.
  void Insert(size_t at, Event event) { events.insert(events.begin() + static_cast<int64_t>(at), event); }
  void Move(size_t from, size_t to) {
    const Event event = events[from];
    events.erase(events.begin() + static_cast<int64_t>(from));
    Insert(to, event);
  }
};

// Judges it; events are numbered from 0.
inline Verdict Play(const Recording& recording) {
  Monitor monitor(recording.address);
  for (size_t i = 0; i < recording.events.size(); ++i) {
    const Event& e = recording.events[i];
    roce::Packet packet = e.packet;
    packet.payload = e.payload;
    switch (e.kind) {
      case Event::Kind::kIn:
        monitor.OnPacketIn(e.port, packet);
        if (!e.step_known) monitor.OnUnknownStep();
        break;
      case Event::Kind::kOut:
        monitor.OnPacketOut(i, e.port, packet);
        break;
      case Event::Kind::kInstall:
        monitor.OnInstall(e.group);
        break;
      case Event::Kind::kRemove:
        monitor.OnRemove(e.group.group_id, e.group.generation);
        break;
      case Event::Kind::kFail:
        monitor.OnFail(e.group.group_id, e.group.generation);
        break;
    }
  }
  return monitor.verdict();
}

// Runs one call of each header on all ranks, in order, and records the switch `node`.
inline Recording Record(const sim::WorldConfig& config, int node, const std::vector<ControlHeader>& headers,
                        const sim::FaultRates& faults = {}, const std::vector<sim::GroupSpec>& others = {}) {
  sim::World world(config, 5);
  for (const sim::GroupSpec& other : others) world.AddGroup(other);
  Recording recording;
  recording.address = sim::AddressOf(node);
  for (int g = 0; g < world.groups(); ++g) {
    if (!world.HasContext(node, g)) continue;
    recording.events.push_back(
        {.kind = Event::Kind::kInstall, .packet = {}, .payload = {}, .group = world.context(node, g).config});
  }
  Watch(
      world, [&](const sim::LinkPacket& p) { return sim::RandomFate(faults, p.packets, world.choices()); },
      [&](const Crossing& c) {
        if (c.node != node) return;
        Event& e = recording.events.emplace_back();
        e.kind = c.in ? Event::Kind::kIn : Event::Kind::kOut;
        e.port = c.port;
        e.packet = *c.packet;
        e.payload.assign(c.packet->payload.begin(), c.packet->payload.end());
        e.packet.payload = {};
      });
  std::vector<sim::Calls> by_group(static_cast<size_t>(world.groups()));
  for (int g = 0; g < world.groups(); ++g) {
    for (const ControlHeader& header : headers) {
      auto& calls = by_group[static_cast<size_t>(g)];
      calls.emplace_back(header, world.ranks(g), static_cast<int>(calls.size()));
    }
    for (int r = 0; r < world.ranks(g); ++r)
      sim::StartCalls(world, g, r, by_group[static_cast<size_t>(g)], 0, 0);
  }
  const auto done = [&] {
    for (int g = 0; g < world.groups(); ++g) {
      if (!sim::Finished(world, g, by_group[static_cast<size_t>(g)])) return false;
    }
    return true;
  };
  EXPECT_TRUE(world.RunUntil(done, 100 * kSecond));
  return recording;
}

}  // namespace epic::conform
