// Replies of a manager, of another version perhaps, as the command line shows them: whatever is in them, each
// reply becomes a text of bounded length.
#include <string>

#include "base/check.h"
#include "incmanager/cli/render.h"
#include "tests/fuzz/message_testing.h"

namespace epic::manager {
namespace {

const fuzz::Words kWords = {"root", "leaf1", "leaf2", "", "swp1", "swp2"};

proto::EndpointConfig Endpoint(uint32_t local_qpn, uint32_t remote_qpn) {
  proto::EndpointConfig endpoint;
  endpoint.set_local_qpn(local_qpn);
  endpoint.set_remote_qpn(remote_qpn);
  endpoint.set_port("swp1");
  return endpoint;
}

// A root over two leaves with a host each.
proto::GroupState Group() {
  proto::GroupState group;
  group.set_name("g");
  group.set_world_size(2);
  (*group.mutable_switch_modes())["leaf1"] = proto::MODE_TERMINATED;
  group.set_slots(32);
  group.set_path(proto::PATH_AUTO);
  group.set_path_taken(proto::PATH_NETWORK);
  group.set_start_messages(2);
  (*group.mutable_windows())[1].set_messages(1);
  (*group.mutable_datagrams())[1].set_stale(1);
  proto::TreeNode& root = *group.add_tree();
  root.set_switch_name("root");
  for (uint32_t i = 0; i < 2; ++i) {
    group.add_joined_ranks(i);
    group.add_rank_hosts("h0");
    *root.mutable_config()->add_children() = Endpoint(0x100 + i, 0x200 + i);
    root.add_child_gbps(10);
    proto::TreeNode& leaf = *group.add_tree();
    leaf.set_switch_name("leaf1");
    leaf.set_parent("root");
    *leaf.mutable_config()->mutable_parent() = Endpoint(0x200 + i, 0x100 + i);
    proto::EndpointConfig& host = *leaf.mutable_config()->add_children();
    host = Endpoint(0x300, 0x11);
    host.set_is_host(true);
    host.add_ranks(i);
  }
  return group;
}

proto::DumpReply Tables() {
  proto::DumpReply reply;
  proto::PortInfo& port = *reply.mutable_info()->add_ports();
  port.set_name("swp1");
  port.add_neighbours()->set_name("leaf2");
  reply.mutable_forwarding()->add_entries()->set_port("swp1");
  proto::GroupDump& group = *reply.add_groups();
  *group.mutable_parent()->mutable_config() = Endpoint(1, 2);
  *group.add_children()->mutable_config() = Endpoint(3, 4);
  proto::Counter& counter = *group.add_counters();
  counter.set_name("results");
  counter.set_value(1);
  *reply.add_counters() = counter;
  return reply;
}

proto::ExplainReply Explanation() {
  proto::ExplainReply reply;
  proto::RootChoice& choice = *reply.add_roots();
  choice.set_root("root");
  choice.set_chosen(true);
  choice.set_depth_links(2);
  choice.set_rate_gbps(10);
  choice.set_delay_us(40);
  choice.set_width_gbps(5);
  choice.add_switches()->set_switch_name("root");
  choice.mutable_switches(0)->set_bytes(1 << 20);
  reply.add_roots()->set_why("its agent is lost");
  reply.set_path(proto::PATH_NETWORK);
  reply.set_root("root");
  return reply;
}

proto::TenantsReply Tenants() {
  proto::TenantsReply reply;
  proto::TenantState& state = *reply.add_tenants();
  state.mutable_tenant()->set_name("red");
  state.mutable_tenant()->set_limit_bytes(4096);
  (*state.mutable_bytes())["leaf1"] = 640;
  return reply;
}

template <typename Reply, typename Render>
void Show(FuzzInput& in, const Reply& valid, const Render& render) {
  const auto reply = fuzz::Received(in, kWords, valid);
  if (!reply) return;
  const std::string text = render(*reply);
  // Columns are as wide as their widest entry.
  const size_t bytes = reply->ByteSizeLong() + 200;
  EPIC_CHECK(!text.empty() && text.size() <= bytes * bytes);
}

void Run(const uint8_t* data, size_t size) {
  FuzzInput in(data, size);
  const uint8_t what = in.Next();
  if (what >= 0xf0) return Show(in, Explanation(), RenderExplanation);
  if (what >= 0xe8) return Show(in, Tenants(), RenderTenants);
  switch (what % 4) {
    case 0:
      return Show(in, Group(), RenderGroup);
    case 1:
      return Show(in, Tables(), RenderTables);
    case 2: {
      proto::ListGroupsReply reply;
      *reply.add_groups() = Group();
      return Show(in, reply, RenderGroups);
    }
    default: {
      proto::ListSwitchesReply reply;
      reply.add_switches()->set_name("leaf1");
      *reply.mutable_switches(0)->mutable_engine() = Tables().info();
      return Show(in, reply, RenderSwitches);
    }
  }
}

}  // namespace
}  // namespace epic::manager

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  epic::manager::Run(data, size);
  return 0;
}
