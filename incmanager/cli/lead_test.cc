#include "incmanager/cli/lead.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <csignal>
#include <string>

#include "incmanager/store/etcd_testing.h"

namespace epic::manager {
namespace {

// It leads, and etcd does not do what makes the store one: that is tried for as long as it leads.
TEST(Lead, ASignalEndsAStartThatWaitsForEtcd) {
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, nullptr, &before);
  const EndSignals signals;
  const pthread_t waits = pthread_self();
  testing::FakeEtcd etcd;
  std::atomic<int> asked = 0;
  const auto disturb = [&] {
    if (++asked == 1) return grpc::Status::OK;
    if (asked == 2) pthread_kill(waits, SIGTERM);
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "no leader");
  };
  etcd.Disturb(disturb, nullptr);
  const auto leading = AwaitLead("etcd:http://" + etcd.address(), "127.0.0.1:0", signals,
                                 [](const std::string& why) { ADD_FAILURE() << why; });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ASSERT_TRUE(leading.ok()) << leading.status();
  EXPECT_EQ(leading->store, nullptr);
  EXPECT_EQ(etcd.leases(), 0u) << "another one leads at once";
}

}  // namespace
}  // namespace epic::manager
