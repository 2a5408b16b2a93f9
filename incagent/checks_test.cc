#include "incagent/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace epic::agent {
namespace {

proto::EngineInfo Engine() {
  proto::EngineInfo info;
  info.set_name("leaf1");
  info.mutable_capability()->add_modes(proto::MODE_TRANSLATED);
  info.mutable_capability()->set_max_path_mtu(4096);
  info.mutable_capability()->set_max_children(64);
  for (const char* name : {"swp1", "swp2", "swp3"}) info.add_ports()->set_name(name);
  return info;
}

void Fill(proto::EndpointConfig* endpoint, uint32_t number, bool is_host) {
  endpoint->set_local_qpn(0x100000 + number);
  endpoint->set_remote_ip(0x0a000001 + number);
  endpoint->set_remote_qpn(0x11);
  endpoint->set_remote_mac("\x52\x54\x01\x02\x03\x04");
  endpoint->set_port("swp" + std::to_string(number));
  endpoint->set_in_psn(0xffffff);
  endpoint->set_out_psn(0);
  endpoint->set_is_host(is_host);
  endpoint->add_ranks(number - 1);
}

proto::GroupConfig Good() {
  proto::GroupConfig group;
  group.set_group_id(7);
  group.set_mode(proto::MODE_TRANSLATED);
  group.set_world_size(4);
  group.set_path_mtu(1024);
  group.set_message_packets(8);
  group.set_window_messages(8);
  group.set_slots(128);
  group.set_prompt_ns(1);
  Fill(group.add_children(), 1, true);
  Fill(group.add_children(), 2, true);
  Fill(group.mutable_parent(), 3, false);
  return group;
}

TEST(CheckGroup, TakesAGoodOne) { EXPECT_TRUE(CheckGroup(Good(), Engine()).ok()); }

struct BadCase {
  const char* field;  // how the message starts
  std::function<void(proto::GroupConfig*)> spoil;
};

TEST(CheckGroup, NamesTheFieldThatIsBad) {
  const BadCase cases[] = {
      {"group_id:", [](auto* g) { g->set_group_id(0); }},
      {"mode:", [](auto* g) { g->clear_mode(); }},
      {"mode:", [](auto* g) { g->set_mode(proto::MODE_AUGMENTED); }},
      {"world_size:", [](auto* g) { g->set_world_size(1); }},
      {"path_mtu:", [](auto* g) { g->set_path_mtu(1000); }},
      {"path_mtu:", [](auto* g) { g->set_path_mtu(8192); }},
      {"message_packets:", [](auto* g) { g->set_message_packets(0); }},
      {"window_messages:", [](auto* g) { g->set_window_messages(0); }},
      {"slots:", [](auto* g) { g->set_slots(130); }},
      {"slots:", [](auto* g) { g->set_slots(64); }},
      {"prompt_ns:", [](auto* g) { g->set_prompt_ns(0); }},
      {"children:", [](auto* g) { g->clear_children(); }},
      {"children[0].local_qpn:", [](auto* g) { g->mutable_children(0)->set_local_qpn(1 << 24); }},
      {"children[1].local_qpn:", [](auto* g) { g->mutable_children(1)->set_local_qpn(0x100001); }},
      {"children[0].remote_qpn:", [](auto* g) { g->mutable_children(0)->set_remote_qpn(0); }},
      {"children[0].remote_ip:", [](auto* g) { g->mutable_children(0)->set_remote_ip(0); }},
      {"children[0].remote_mac:", [](auto* g) { g->mutable_children(0)->set_remote_mac("12345"); }},
      {"children[1].in_psn:", [](auto* g) { g->mutable_children(1)->set_in_psn(1 << 24); }},
      {"children[1].out_psn:", [](auto* g) { g->mutable_children(1)->set_out_psn(1 << 24); }},
      {"children[1].port:", [](auto* g) { g->mutable_children(1)->set_port("swp9"); }},
      {"children[1].ingress_port:", [](auto* g) { g->mutable_children(1)->set_ingress_port("swp9"); }},
      {"children[1].ranks:", [](auto* g) { g->mutable_children(1)->set_ranks(0, 4); }},
      {"children[1].ranks:", [](auto* g) { g->mutable_children(1)->clear_ranks(); }},
      {"children[1].ranks:", [](auto* g) { g->mutable_children(1)->add_ranks(0); }},
      {"children[1].ranks:", [](auto* g) { g->mutable_children(1)->set_ranks(0, 0); }},
      {"parent.is_host:", [](auto* g) { g->mutable_parent()->set_is_host(true); }},
      {"parent.port:", [](auto* g) { g->mutable_parent()->set_port(""); }},
  };
  for (const BadCase& bad : cases) {
    proto::GroupConfig group = Good();
    bad.spoil(&group);
    const Status status = CheckGroup(group, Engine());
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << bad.field;
    EXPECT_THAT(std::string(status.message()), testing::StartsWith(bad.field));
  }
}

TEST(CheckForwarding, NamesTheEntryThatIsBad) {
  proto::ForwardingTable good;
  for (const char last : {'1', '2'}) {
    proto::ForwardingEntry* entry = good.add_entries();
    entry->set_mac(std::string("\x52\x54\x01\x02\x03", 5) + last);
    entry->set_ip(static_cast<uint32_t>(last));
    entry->set_port("swp1");
  }
  good.add_flood_ports("swp2");
  for (const char last : {'1', '2'}) {
    proto::GroupPorts* group = good.add_groups();
    group->set_mac(std::string("\x01\x00\x5e\x40\x00", 5) + last);
    group->add_ports("swp1");
    group->add_ports("swp2");
  }
  EXPECT_TRUE(CheckForwarding(good, Engine()).ok());

  const auto message = [&good](const std::function<void(proto::ForwardingTable*)>& spoil) {
    proto::ForwardingTable table = good;
    spoil(&table);
    return std::string(CheckForwarding(table, Engine()).message());
  };
  EXPECT_THAT(message([](auto* t) { t->mutable_entries(1)->set_mac(""); }),
              testing::StartsWith("entries[1].mac:"));
  EXPECT_THAT(message([](auto* t) { t->mutable_entries(1)->set_mac(t->entries(0).mac()); }),
              testing::StartsWith("entries[1].mac:"));
  EXPECT_THAT(message([](auto* t) { t->mutable_entries(1)->set_ip('1'); }),
              testing::StartsWith("entries[1].ip:"));
  EXPECT_THAT(message([](auto* t) { t->mutable_entries(0)->set_port("eth0"); }),
              testing::StartsWith("entries[0].port:"));
  EXPECT_THAT(message([](auto* t) { t->set_flood_ports(0, "eth0"); }),
              testing::StartsWith("flood_ports[0]:"));
  EXPECT_THAT(message([](auto* t) { t->mutable_groups(1)->set_mac("1"); }),
              testing::StartsWith("groups[1].mac: not 6 bytes"));
  EXPECT_THAT(message([](auto* t) { t->mutable_groups(1)->set_mac(t->groups(0).mac()); }),
              testing::StartsWith("groups[1].mac: occurs twice"));
  EXPECT_THAT(message([](auto* t) { t->mutable_groups(0)->set_ports(1, "eth0"); }),
              testing::StartsWith("groups[0].ports[1]:"));
}

TEST(CheckLocate, AnAddressMustBeThere) {
  proto::LocateRequest locate;
  EXPECT_EQ(CheckLocate(locate).message(), "ip: missing");
  locate.set_ip(0x0a000001);
  EXPECT_TRUE(CheckLocate(locate).ok());
}

TEST(CheckProbe, NamesTheFieldThatIsBad) {
  proto::ProbeRequest good;
  good.set_ip(1);
  good.set_mac("\x52\x54\x01\x02\x03\x04");
  good.set_port("swp3");
  EXPECT_TRUE(CheckProbe(good, Engine()).ok());
  const auto message = [&good](const std::function<void(proto::ProbeRequest*)>& spoil) {
    proto::ProbeRequest probe = good;
    spoil(&probe);
    return std::string(CheckProbe(probe, Engine()).message());
  };
  EXPECT_THAT(message([](auto* p) { p->clear_ip(); }), testing::StartsWith("ip:"));
  EXPECT_THAT(message([](auto* p) { p->set_mac("12345"); }), testing::StartsWith("mac:"));
  EXPECT_THAT(message([](auto* p) { p->set_port("eth0"); }), testing::StartsWith("port:"));
}

}  // namespace
}  // namespace epic::agent
