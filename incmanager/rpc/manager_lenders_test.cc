// What daemons of hosts that lend memory are told, and what is shown of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "incmanager/cli/render.h"
#include "incmanager/rpc/manager_state.h"
#include "incmanager/rpc/manager_world_testing.h"
#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class LendersWorld : public testing::IdleWorld {
 public:
  void SendToHost(HostId host, const proto::ToHost& message) override { to_hosts[host].push_back(message); }
  void EndHost(HostId host, const Status& status) override { ended[host] = status; }

  std::map<HostId, std::vector<proto::ToHost>> to_hosts;
  std::map<HostId, Status> ended;
};

class ManagerLenders : public ::testing::Test {
 protected:
  static proto::FromHost InfoOf(const std::string& name, uint32_t ip) {
    proto::FromHost message;
    proto::HostInfo& info = *message.mutable_info();
    info.set_name(name);
    proto::HostPort& port = *info.add_ports();
    port.set_ifname("vec0");
    port.set_mac(std::string(6, 2));
    port.set_ip(ip);
    return message;
  }
  // Of a host that lends 3 MiB, with servers of these groups.
  static proto::FromHost LenderOf(const std::string& name, uint32_t ip,
                                  const std::vector<uint64_t>& served = {}) {
    proto::FromHost message = InfoOf(name, ip);
    proto::FallbackOffer& offer = *message.mutable_info()->mutable_fallback();
    offer.set_bytes(3 << 20);
    offer.set_ip(ip);
    for (const uint64_t id : served) {
      offer.add_served()->set_group_id(id);
      offer.mutable_served()->rbegin()->set_generation(7);
    }
    return message;
  }
  // The groups whose servers the daemon is told to remove.
  std::vector<uint64_t> Removed(HostId host) {
    std::vector<uint64_t> ids;
    for (const proto::ToHost& message : world_.to_hosts[host]) {
      if (!message.has_remove_server()) continue;
      EXPECT_EQ(message.remove_server().group().generation(), 7u);
      ids.push_back(message.remove_server().group().group_id());
    }
    return ids;
  }

  const Topology topology_ = testing::Star(3).Build();
  LendersWorld world_;
  ManagerState state_{topology_, {}, 1, 1, &world_};
};

TEST_F(ManagerLenders, DaemonsAreToldThatServersAreKnownAndWhichOfTheirsNobodyWants) {
  state_.OnHostMessage(kSecond, 5, LenderOf("h0", 1, {11, 12}));
  ASSERT_FALSE(world_.to_hosts[5].empty());
  EXPECT_TRUE(world_.to_hosts[5].back().welcome().takes_servers());
  EXPECT_THAT(Removed(5), ::testing::ElementsAre(11, 12));
}

TEST_F(ManagerLenders, AServerThatNobodyHasAskedForIsRemoved) {
  state_.OnHostMessage(kSecond, 5, LenderOf("h0", 1));
  proto::FromHost made;
  made.mutable_server_made()->mutable_group()->set_group_id(13);
  made.mutable_server_made()->mutable_group()->set_generation(7);
  state_.OnHostMessage(kSecond, 5, made);
  EXPECT_THAT(Removed(5), ::testing::ElementsAre(13));
  made.mutable_server_made()->set_outcome(proto::ServerMade::OUTCOME_NO_MEMORY);
  state_.OnHostMessage(kSecond, 5, made);
  EXPECT_EQ(Removed(5).size(), 1u) << "there is none";
  proto::FromHost ended;
  *ended.mutable_server_ended()->mutable_group() = made.server_made().group();
  state_.OnHostMessage(kSecond, 5, ended);
  EXPECT_FALSE(world_.ended.contains(5)) << "it may have been wanted once";
}

TEST_F(ManagerLenders, WhoLendsByAnAddressThatItDoesNotHaveIsRefused) {
  proto::FromHost bad = LenderOf("h0", 0x0a000001);
  bad.mutable_info()->mutable_fallback()->set_ip(0x0a000002);
  state_.OnHostMessage(kSecond, 5, bad);
  EXPECT_EQ(world_.ended[5].message(), "fallback: 10.0.0.2 is the address of none of its ports");
}

TEST_F(ManagerLenders, OperatorsSeeWhoLendsAndWhatIsLeft) {
  state_.OnHostMessage(kSecond, 5, LenderOf("h0", 0x0a000001));
  state_.OnHostMessage(kSecond, 6, InfoOf("h1", 0x0a000002));
  const proto::ListHostsReply reply = state_.ListHosts(kSecond);
  ASSERT_EQ(reply.hosts_size(), 2);
  EXPECT_EQ(reply.hosts(0).info().fallback().bytes(), 3u << 20);
  EXPECT_EQ(reply.hosts(0).fallback_left_bytes(), 3u << 20);
  EXPECT_FALSE(reply.hosts(1).info().has_fallback());
  EXPECT_THAT(RenderHosts(reply), HasSubstr("lends memory  by        MiB  left  groups\n"
                                            "h0            10.0.0.1  3.0  3.0   -\n"));
  proto::ListHostsReply served = reply;
  served.mutable_hosts(0)->set_fallback_left_bytes(1 << 20);
  for (const char* group : {"train", "eval"}) served.mutable_hosts(0)->add_fallback_groups(group);
  EXPECT_THAT(RenderHosts(served), HasSubstr("3.0  1.0   train, eval\n"));
  state_.OnHostClosed(kSecond, 5);
  EXPECT_THAT(RenderHosts(state_.ListHosts(kSecond)), Not(HasSubstr("lends")));
}

}  // namespace
}  // namespace epic::manager
