#include "incmanager/cli/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "proto/manager.pb.h"

namespace epic::manager {
namespace {

using nlohmann::json;

constexpr int64_t kNow = 1'700'000'000'500;  // 2023-11-14T22:13:20.500Z

json Read(const google::protobuf::Message& reply) { return json::parse(ToJson(reply, kNow)); }

// What docs/JSON.md promises: whoever changes it says so there.
TEST(Json, AddressesAreTextAndNumbersAreNumbers) {
  proto::ListHostsReply reply;
  proto::HostState& host = *reply.add_hosts();
  host.set_last_heard_ms_ago(-1);
  proto::HostPort& port = *host.mutable_info()->add_ports();
  port.set_ip(0x0a0a0001);
  port.set_mac(std::string("\x02\x01\x00\x00\x00\xfe", 6));
  const json told = Read(reply);
  EXPECT_EQ(told["json_version"], kJsonVersion);
  EXPECT_EQ(told["hosts"][0]["last_heard_ms_ago"], -1);
  const json& shown = told["hosts"][0]["info"]["ports"][0];
  EXPECT_EQ(shown["ip"], "10.10.0.1");
  EXPECT_EQ(shown["mac"], "02:01:00:00:00:fe");
  EXPECT_EQ(shown["rate_mbps"], 0);
  proto::ListHostsReply none;
  none.add_hosts()->mutable_info()->add_ports();
  EXPECT_EQ(Read(none)["hosts"][0]["info"]["ports"][0]["ip"], "");
  EXPECT_EQ(Read(none)["hosts"][0]["info"]["ports"][0]["mac"], "");
}

TEST(Json, LargeNumbersStayWhole) {
  proto::GroupState group;
  group.set_group_id(UINT64_MAX);
  group.set_max_bytes(1ull << 60);
  (*group.mutable_switch_modes())["leaf1"] = proto::Mode(3);
  const json told = Read(group);
  EXPECT_EQ(told["group_id"].get<uint64_t>(), UINT64_MAX);
  EXPECT_EQ(told["max_bytes"].get<uint64_t>(), 1ull << 60);
  EXPECT_TRUE(told["switch_modes"]["leaf1"].is_string());
  EXPECT_FALSE(told.contains("failure")) << "a message that is not there";
}

TEST(Json, EventsHaveATimeAndAType) {
  const struct {
    const char *about, *text, *type;
  } events[] = {
      {"switch leaf1", "up", "switch_up"},
      {"switch leaf1", "agent registered at 10.0.0.1:7401, engine 0.1.0", "agent_registered"},
      {"switch leaf1", "agent at 10.0.0.2:7401 refused: leaf1 has an agent", "agent_refused"},
      {"switch leaf1", "agent lost: nothing heard for 8 s; its groups go on", "agent_lost"},
      {"switch leaf1", "engine stopped", "engine_stopped"},
      {"switch leaf1", "lost: why", "switch_lost"},
      {"switch leaf1", "not awaited when a manager starts, until it registers: why", "switch_not_awaited"},
      {"host h0", "lost, with 1 session: why", "host_lost"},
      {"group g", "reserved for 2 ranks", "group_reserved"},
      {"group g", "rank 0 of 10.0.0.1 refused: joined from elsewhere", "rank_refused"},
      {"group g", "rank 0 of 2 joined from h0 at 10.0.0.1", "rank_joined"},
      {"group g", "running with 2 ranks over 1 switch, root s1", "group_running"},
      {"group g", "failed: why", "group_failed"},
      {"network", "link between s1:p1 and h0 is down", "link"},
      {"network", "link between s1:p1 and h0 has a carrier, and nobody has been heard there yet", "link"},
      {"network", "t.yaml:9: links h1 to s1:p1, but it is heard at s1:p2", "host_misplaced"},
      {"group g", "s1 refuses all that comes from rank 0 on h0: wrong_port", "group_refused"},
      {"policy", "edt from now on, of groups that ask for none", "policy_set"},
      {"tenant red", "removed", "tenant_removed"},
      {"switch leaf1", "what a later manager says", "other"},
  };
  proto::EventsReply reply;
  for (const auto& event : events) {
    reply.add_events()->set_about(event.about);
    reply.mutable_events()->rbegin()->set_text(event.text);
    reply.mutable_events()->rbegin()->set_ms_ago(1500);
  }
  const json told = Read(reply);
  for (size_t i = 0; i < std::size(events); ++i) {
    EXPECT_EQ(told["events"][i]["type"], events[i].type) << events[i].text;
    EXPECT_EQ(told["events"][i]["time"], "2023-11-14T22:13:19.000Z");
  }
}

}  // namespace
}  // namespace epic::manager
