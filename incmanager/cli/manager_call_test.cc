#include "incmanager/cli/manager_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "base/grpc/not_a_manager.h"
#include "incmanager/rpc/standby.h"

namespace epic::manager {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class LeadingService : public proto::Manager::Service {
 public:
  LeadingService() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~LeadingService() override { server_->Shutdown(std::chrono::system_clock::now()); }
  grpc::Status ListTenants(grpc::ServerContext*, const proto::ListTenantsRequest*,
                           proto::TenantsReply*) override {
    ++asked;
    return {fails_with, fails_with == grpc::OK ? "" : "as the test wants it"};
  }
  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }

  std::atomic<int> asked = 0;
  std::atomic<grpc::StatusCode> fails_with = grpc::OK;

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

std::unique_ptr<Standby> StandbyOf(const std::string& words) {
  auto standby = Standby::Start(
      "127.0.0.1:0", [words] { return words; }, [](const std::string&) {});
  EXPECT_TRUE(standby.ok()) << standby.status();
  return *std::move(standby);
}
std::string AddressOf(const Standby& standby) { return fmt::format("127.0.0.1:{}", standby.port()); }

grpc::Status AskFor(ManagerCalls* calls) {
  proto::TenantsReply reply;
  return calls->Call(&ManagerCalls::Stub::ListTenants, proto::ListTenantsRequest(), &reply);
}

TEST(ManagerCalls, OfSeveralTheOneThatLeadsIsAsked) {
  const auto standby = StandbyOf("stands by: b leads");
  LeadingService leads;
  ManagerCalls calls("127.0.0.1:1," + AddressOf(*standby) + "," + leads.address());
  EXPECT_TRUE(AskFor(&calls).ok());
  EXPECT_TRUE(AskFor(&calls).ok());
  EXPECT_EQ(leads.asked, 2);
}

TEST(ManagerCalls, WhereNobodyLeadsEachIsQuoted) {
  const auto standby = StandbyOf("stands by: b leads");
  ManagerCalls several("127.0.0.1:1," + AddressOf(*standby));
  grpc::Status status = AskFor(&several);
  EXPECT_EQ(status.error_code(), grpc::ABORTED);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("127.0.0.1:1: nothing listens there"),
                                            HasSubstr(AddressOf(*standby) + ": stands by: b leads")));
  ManagerCalls one(AddressOf(*standby));
  status = AskFor(&one);
  EXPECT_EQ(status.error_code(), grpc::ABORTED);
  EXPECT_EQ(status.error_message(), "stands by: b leads");
  ManagerCalls nobody("127.0.0.1:1,127.0.0.1:2");
  EXPECT_EQ(AskFor(&nobody).error_code(), grpc::UNAVAILABLE);
}

TEST(ManagerCalls, WhoIsNoManagerIsPassedOverAndNamedOnce) {
  LeadingService leads;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  NotAManager other(proto::RegisterRequest::descriptor()->file()->FindServiceByName("Manager"), "a test");
  builder.RegisterService(&other);
  const auto server = builder.BuildAndStart();
  const std::string at = fmt::format("127.0.0.1:{}", port);
  ::testing::internal::CaptureStderr();
  ManagerCalls calls("nosuch.invalid:7400," + at + "," + leads.address());
  EXPECT_TRUE(AskFor(&calls).ok());
  EXPECT_EQ(leads.asked, 1);
  ManagerCalls nobody(at + ",127.0.0.1:1");
  EXPECT_EQ(AskFor(&nobody).error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(AskFor(&nobody).error_code(), grpc::UNAVAILABLE);
  const std::string said = "incmanager: warning: what answers at " + at +
                           " is no manager, and is passed over: this is a test, not the manager\n";
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), said + said) << "once by each command";
}

// Whether it has done what it was asked nobody knows.
TEST(ManagerCalls, WhoBreaksOffIsNotFollowedByAnother) {
  LeadingService breaks, other;
  breaks.fails_with = grpc::UNAVAILABLE;
  ManagerCalls calls(breaks.address() + "," + other.address());
  EXPECT_EQ(AskFor(&calls).error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(other.asked, 0);
}

TEST(ManagerCalls, WhatTheLeaderRefusesIsItsAnswer) {
  LeadingService refuses, other;
  refuses.fails_with = grpc::NOT_FOUND;
  ManagerCalls calls(refuses.address() + "," + other.address());
  EXPECT_EQ(AskFor(&calls).error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(other.asked, 0);
}

}  // namespace
}  // namespace epic::manager
