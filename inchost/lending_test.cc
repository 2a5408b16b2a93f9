// A daemon that lends memory, as managers come and go.
#include "inchost/lending.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "inchost/servers/servers_testing.h"

namespace epic::host {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class FakeServers final : public ServerMaker {
 public:
  void Make(const proto::MakeServer& request) override {
    done.push_back("make " + std::to_string(request.group().group_id()));
  }
  void Remove(const proto::ServedGroup& group) override {
    done.push_back("remove " + std::to_string(group.group_id()));
  }
  void RemoveAll() override { done.emplace_back("remove all"); }
  proto::FallbackOffer Offer() const override {
    proto::FallbackOffer offer;
    offer.set_bytes(77);
    return offer;
  }

  std::vector<std::string> done;
};

class LendingTest : public testing::Test {
 protected:
  void Welcome(bool takes_servers) {
    proto::ToHost message;
    message.mutable_welcome()->set_takes_servers(takes_servers);
    lending.OnManager(message);
  }

  FakeServers servers;
  Lending lending{&servers};
};

TEST_F(LendingTest, WhatTheManagerAsksForIsDone) {
  Welcome(true);
  proto::ToHost message;
  *message.mutable_make_server() = ServerOf(3);
  lending.OnManager(message);
  *message.mutable_remove_server()->mutable_group() = ServerOf(3).group();
  lending.OnManager(message);
  message.mutable_told()->set_session(1);
  lending.OnManager(message);
  EXPECT_THAT(servers.done, ElementsAre("make 3", "remove 3"));
  proto::HostInfo info;
  lending.AddTo(&info);
  EXPECT_EQ(info.fallback().bytes(), 77u);
}

TEST_F(LendingTest, AManagerThatKnowsOfNoServersHasNoGroupThatIsServed) {
  Welcome(false);
  EXPECT_THAT(servers.done, ElementsAre("remove all"));
}

TEST_F(LendingTest, ServersEndWhenNoManagerHasComeForSoLong) {
  lending.Tick(100 * kSecond);
  Welcome(true);
  lending.OnStreamEnd(100 * kSecond);
  lending.OnStreamEnd(160 * kSecond);  // it was tried again
  lending.Tick(170 * kSecond - 1);
  EXPECT_THAT(servers.done, IsEmpty());
  lending.Tick(170 * kSecond);
  lending.Tick(171 * kSecond);
  EXPECT_THAT(servers.done, ElementsAre("remove all"));
}

TEST_F(LendingTest, ServersGoOnUnderAManagerThatIsBack) {
  lending.OnStreamEnd(0);
  Welcome(true);
  lending.Tick(200 * kSecond);
  EXPECT_THAT(servers.done, IsEmpty());
}

TEST_F(LendingTest, TheManagerIsToldTheMacOfThePortThatServes) {
  proto::HostInfo info;
  for (const uint32_t ip : {1, 2, 3}) {
    info.add_ports()->set_ip(ip);
    info.mutable_ports()->rbegin()->set_mac(std::string(6, static_cast<char>(ip)));
  }
  proto::ServerMade made;
  made.set_ip(2);
  EXPECT_EQ(Lending::ToManager(made, info).server_made().mac(), std::string(6, 2));
  proto::ServerEnded ended;
  ended.set_field("kind");
  EXPECT_EQ(Lending::ToManager(ended, info).server_ended().field(), "kind");
}

TEST_F(LendingTest, AHostThatLendsNothingSaysNothing) {
  Lending none(nullptr);
  proto::HostInfo info;
  none.AddTo(&info);
  EXPECT_FALSE(info.has_fallback());
  proto::ToHost message;
  *message.mutable_make_server() = ServerOf(3);
  none.OnManager(message);
  none.OnStreamEnd(0);
  none.Tick(100 * kSecond);
}

}  // namespace
}  // namespace epic::host
