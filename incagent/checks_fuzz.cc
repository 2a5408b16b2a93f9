// What the manager sends to an agent, against what its engine says of itself: a refusal is INVALID_ARGUMENT
// and names the field, and what an honest engine's agent lets through satisfies what the checks promise.
#include <array>
#include <string>

#include "base/check.h"
#include "incagent/checks.h"
#include "tests/fuzz/message_testing.h"

namespace epic::agent {
namespace {

const std::string kMac("\x02\0\0\0\0\1", 6);
const fuzz::Words kWords = {"swp1", "swp2", "swp3", "leaf1", kMac, ""};

proto::EngineInfo Engine() {
  proto::EngineInfo info;
  info.set_name("leaf1");
  for (int mode = proto::Mode_MIN + 1; mode <= proto::Mode_MAX; ++mode)
    info.mutable_capability()->add_modes(static_cast<proto::Mode>(mode));
  info.mutable_capability()->set_max_path_mtu(4096);
  info.mutable_capability()->set_max_children(64);
  for (const char* name : {"swp1", "swp2", "swp3"}) info.add_ports()->set_name(name);
  return info;
}

void Fill(proto::EndpointConfig* endpoint, uint32_t number, bool is_host) {
  endpoint->set_local_qpn(0x100000 + number);
  endpoint->set_remote_ip(0x0a000001 + number);
  endpoint->set_remote_qpn(0x11);
  endpoint->set_remote_mac(kMac);
  endpoint->set_port("swp" + std::to_string(number));
  endpoint->set_is_host(is_host);
}

proto::GroupConfig Group() {
  proto::GroupConfig group;
  group.set_group_id(7);
  group.set_mode(proto::MODE_TRANSLATED);
  group.set_world_size(4);
  group.set_path_mtu(1024);
  group.set_message_packets(8);
  group.set_window_messages(8);
  group.set_slots(128);
  group.set_prompt_ns(1);
  for (const uint32_t number : {1u, 2u}) {
    Fill(group.add_children(), number, true);
    group.mutable_children(static_cast<int>(number - 1))->add_ranks(number - 1);
  }
  Fill(group.mutable_parent(), 3, false);
  return group;
}

proto::ForwardingTable Forwarding() {
  proto::ForwardingTable table;
  for (uint8_t i = 0; i < 3; ++i) {
    proto::ForwardingEntry* entry = table.add_entries();
    entry->set_mac(kMac.substr(0, 5) + static_cast<char>(i));
    entry->set_ip(1u + i);
    entry->set_port("swp1");
    table.add_flood_ports("swp2");
    proto::GroupPorts* group = table.add_groups();
    group->set_mac(std::string("\x01\x00\x5e\x40\x00", 5) + static_cast<char>(i));
    group->add_ports("swp3");
  }
  return table;
}

proto::ProbeRequest Probe() {
  proto::ProbeRequest probe;
  probe.set_ip(1);
  probe.set_mac(kMac);
  probe.set_port("swp3");
  return probe;
}

void CheckStatus(const Status& status) {
  if (status.ok()) return;
  EPIC_CHECK(status.code() == StatusCode::kInvalidArgument);
  const std::string message(status.message());
  const size_t colon = message.find(": ");
  EPIC_CHECK(colon != std::string::npos && colon > 0);
  // A field of GroupConfig, ForwardingTable or ProbeRequest, perhaps with its place in lists.
  const std::string field = message.substr(0, message.find_first_of("[.:"));
  EPIC_CHECK(proto::GroupConfig::descriptor()->FindFieldByName(field) != nullptr ||
             proto::ForwardingTable::descriptor()->FindFieldByName(field) != nullptr ||
             proto::ProbeRequest::descriptor()->FindFieldByName(field) != nullptr);
}

void CheckAccepted(const proto::GroupConfig& group, const proto::EngineInfo& engine) {
  EPIC_CHECK(group.children_size() >= 1 &&
             static_cast<uint32_t>(group.children_size()) <= engine.capability().max_children());
  EPIC_CHECK(group.path_mtu() <= engine.capability().max_path_mtu());
  EPIC_CHECK(group.slots() / 2 / group.message_packets() >= group.window_messages());
  for (const proto::EndpointConfig& child : group.children()) {
    EPIC_CHECK(child.local_qpn() < 1u << 24 && child.remote_mac().size() == 6 && !child.ranks().empty());
    EPIC_CHECK(child.ranks(child.ranks_size() - 1) < group.world_size());
  }
}

void Run(const uint8_t* data, size_t size) {
  FuzzInput in(data, size);
  const auto engine = fuzz::Received(in, kWords, Engine());
  if (!engine) return;
  const uint8_t what = in.Next();
  if ((what & 0x80) != 0) {
    const auto probe = fuzz::Received(in, kWords, Probe());
    if (probe) CheckStatus(CheckProbe(*probe, *engine));
    return;
  }
  if ((what & 1) != 0) {
    const auto table = fuzz::Received(in, kWords, Forwarding());
    if (table) CheckStatus(CheckForwarding(*table, *engine));
    return;
  }
  const auto group = fuzz::Received(in, kWords, Group());
  if (!group) return;
  const Status status = CheckGroup(*group, *engine);
  CheckStatus(status);
  if (status.ok()) CheckAccepted(*group, *engine);
}

}  // namespace
}  // namespace epic::agent

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  epic::agent::Run(data, size);
  return 0;
}
