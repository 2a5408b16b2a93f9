#include "incmanager/store/etcd_store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "incmanager/rpc/kept.h"
#include "incmanager/store/etcd_testing.h"
#include "incmanager/store/store_testing.h"

namespace epic::manager {
namespace {

using testing::FakeEtcd;
using ::testing::HasSubstr;

// Tests that wait for a lease's end have it soon; others never.
constexpr LeadTimes kLong{
    .lease = std::chrono::seconds(3600), .trusted = std::chrono::hours(1), .renewed = std::chrono::hours(1)};
constexpr LeadTimes kSoon{.lease = std::chrono::seconds(5),
                          .trusted = std::chrono::hours(1),
                          .renewed = std::chrono::milliseconds(1)};

class EtcdTest : public ::testing::Test {
 protected:
  std::shared_ptr<EtcdClient> Client() const {
    return std::make_shared<EtcdClient>(std::vector<std::string>{etcd_.address()});
  }
  StatusOr<std::unique_ptr<EtcdLead>> Try(const std::string& name, const LeadTimes& times = kLong) {
    return EtcdLead::Try(
        Client(), name, &leader_, [this](const std::string& why) { lost_.set_value(why); }, times);
  }
  std::unique_ptr<Store> Open(const LeadTimes& times = kLong) {
    auto lead = Try("a", times);
    EXPECT_TRUE(lead.ok() && *lead != nullptr) << lead.status();
    auto store = OpenEtcdStore(Client(), *std::move(lead));
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  Status Refused() {
    auto lead = Try("a");
    EXPECT_TRUE(lead.ok() && *lead != nullptr) << lead.status();
    return OpenEtcdStore(Client(), *std::move(lead)).status();
  }
  static Batch RowOf(const std::string& key, const std::string& value) {
    return {{{RowKind::kTenant, key}, value}};
  }

  FakeEtcd etcd_;
  std::string leader_;
  std::promise<std::string> lost_;
};

TEST_F(EtcdTest, OneLeads) {
  auto first = Try("a");
  ASSERT_TRUE(first.ok() && *first != nullptr) << first.status();
  auto second = Try("b");
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(*second, nullptr);
  EXPECT_EQ(leader_, "a");
  EXPECT_EQ(etcd_.leases(), 1u) << "who does not lead leaves nothing behind";
  const int64_t before = (*first)->revision();
  (*first)->Resign();
  EXPECT_FALSE((*first)->Holds());
  second = Try("b");
  ASSERT_TRUE(second.ok() && *second != nullptr) << second.status();
  EXPECT_GT((*second)->revision(), before);
}

TEST_F(EtcdTest, WhoWasNotToldThatHeLeadsFindsOut) {
  int answers = 0;
  etcd_.Disturb(nullptr, [&answers] {
    return answers++ == 0 ? grpc::Status(grpc::UNAVAILABLE, "gone") : grpc::Status::OK;
  });
  // The same server twice: the second one that is asked.
  const auto twice = std::make_shared<EtcdClient>(std::vector<std::string>{etcd_.address(), etcd_.address()});
  auto lead = EtcdLead::Try(
      twice, "a", &leader_, [](const std::string&) {}, kLong);
  ASSERT_TRUE(lead.ok() && *lead != nullptr) << lead.status();
  EXPECT_TRUE((*lead)->Holds());
  auto store = OpenEtcdStore(twice, *std::move(lead));
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_TRUE((*store)->Apply(RowOf("a", "1")).ok());
}

TEST_F(EtcdTest, ALeaseThatEtcdHasNoMoreIsLost) {
  auto lead = Try("a", kSoon);
  ASSERT_TRUE(lead.ok() && *lead != nullptr);
  etcd_.EndLeases();
  EXPECT_THAT(lost_.get_future().get(), HasSubstr("lease no more"));
  EXPECT_FALSE((*lead)->Holds());
}

TEST_F(EtcdTest, AKeyThatAnotherHasMadeIsLost) {
  auto lead = Try("a", kSoon);
  ASSERT_TRUE(lead.ok() && *lead != nullptr);
  etcd_.Put("/epic/leader", "");
  etcd_.Put("/epic/leader", "b");
  EXPECT_THAT(lost_.get_future().get(),
              ::testing::AnyOf(HasSubstr("b leads now"), HasSubstr("its key no more")));
}

TEST_F(EtcdTest, ALeadThatIsNotRenewedIsTrustedForItsTimeAndNeverAgain) {
  auto lead = Try("a", {.lease = std::chrono::seconds(5),
                        .trusted = std::chrono::nanoseconds(0),
                        .renewed = std::chrono::milliseconds(1)});
  ASSERT_TRUE(lead.ok() && *lead != nullptr);
  EXPECT_FALSE((*lead)->Holds());
  EXPECT_THAT(lost_.get_future().get(), HasSubstr("has not been renewed for 0 s: this process stood still"));
}

TEST_F(EtcdTest, WhatALeaderOfBeforeWritesIsRefused) {
  const auto store = Open();
  ASSERT_TRUE(store->Apply(RowOf("a", "1")).ok());
  etcd_.EndLeases();
  auto next = Try("b");
  ASSERT_TRUE(next.ok() && *next != nullptr) << next.status();
  EXPECT_TRUE(store->Holds()) << "it has not heard of it";
  ASSERT_EQ(store->Apply(RowOf("a", "2")).code(), StatusCode::kAborted);
  EXPECT_FALSE(store->Holds());
  EXPECT_THAT(lost_.get_future().get(), HasSubstr("etcd says so"));
  EXPECT_EQ(store->Apply(RowOf("a", "3")).code(), StatusCode::kAborted);
  EXPECT_EQ(ReadEtcd(Client().get())->begin()->second, "1");
}

TEST_F(EtcdTest, AWriteOfWhichNobodyKnowsIsTriedUntilItIsKnown) {
  const auto store = Open();
  std::atomic<int> before = 0, behind = 0;
  etcd_.Disturb(
      [&before] { return before++ == 0 ? grpc::Status(grpc::UNAVAILABLE, "no leader") : grpc::Status::OK; },
      [&behind] { return behind++ == 0 ? grpc::Status(grpc::UNAVAILABLE, "timed out") : grpc::Status::OK; });
  EXPECT_TRUE(store->Apply(RowOf("a", "1")).ok());
  EXPECT_EQ(before, 3);
  EXPECT_EQ(store->Load()->size(), 1u);
}

// As when the server that was asked first stood still, and the second one has done it meanwhile.
TEST_F(EtcdTest, ACopyOfAWriteThatComesLateChangesNothing) {
  const auto store = Open();
  std::vector<size_t> writes;
  for (const Batch& batch : {RowOf("a", "1"), RowOf("a", "2"), Batch{{{RowKind::kTenant, "a"}, {}}}}) {
    writes.push_back(etcd_.transactions());
    ASSERT_TRUE(store->Apply(batch).ok());
  }
  for (const size_t write : writes) EXPECT_FALSE(etcd_.DoAgain(write));
  EXPECT_TRUE(store->Load()->empty());
  EXPECT_TRUE(store->Apply(RowOf("b", "1")).ok());
  EXPECT_TRUE(store->Holds());
}

TEST_F(EtcdTest, WhatEtcdRefusesIsSaidInItsWords) {
  const auto store = Open();
  etcd_.Disturb(
      [] { return grpc::Status(grpc::RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded"); },
      nullptr);
  const Status status = store->Apply(RowOf("a", "1"));
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("database space exceeded"));
  EXPECT_TRUE(store->Holds());
}

TEST_F(EtcdTest, ABatchHasItsBounds) {
  const auto store = Open();
  const BatchBounds bounds = store->bounds();
  EXPECT_EQ(store->Apply(RowOf("a", std::string(bounds.bytes, 'x'))).code(), StatusCode::kInvalidArgument);
  Batch many;
  for (size_t i = 0; i < bounds.rows; ++i) many.push_back({{RowKind::kEvent, std::to_string(i)}, "1"});
  EXPECT_TRUE(store->Apply(many).ok());
  many.push_back({{RowKind::kEvent, "one more"}, "1"});
  EXPECT_EQ(store->Apply(many).code(), StatusCode::kInvalidArgument);
}

TEST_F(EtcdTest, IsReadInPages) {
  const auto store = Open();
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(store->Apply(RowOf(std::to_string(i), std::to_string(i))).ok());
  const size_t before = etcd_.ranges();
  EXPECT_EQ(store->Load()->size(), 300u);
  EXPECT_GT(etcd_.ranges() - before, 4u);
}

TEST_F(EtcdTest, WhatIsNoManagersIsNamedAndNothingIsChanged) {
  ASSERT_TRUE(Open()->Apply(RowOf("a", "1")).ok());
  const std::string row = etcd_.Get("/epic/row/tenant/a");
  ASSERT_EQ(row.size(), 9u);
  std::string other = row;
  other.back() = '2';
  const std::vector<std::tuple<std::string, std::string, StatusCode, std::string>> wrong = {
      {"/epic/row/tenant/a", other, StatusCode::kDataLoss, "key /epic/row/tenant/a is not what was written"},
      {"/epic/row/tenant/a", "short", StatusCode::kDataLoss, "is not what was written"},
      {"/epic/row/tenant/b", row, StatusCode::kDataLoss, "key /epic/row/tenant/b is not what was written"},
      {"/epic/row/hat/a", row, StatusCode::kDataLoss, "key /epic/row/hat/a is no manager's"},
      {"/epic/x\n", "1", StatusCode::kDataLoss, "key /epic/x? is no manager's"},
      {"/epic/format", "", StatusCode::kDataLoss, "key /epic/format is gone"},
      {"/epic/format", "2", StatusCode::kFailedPrecondition,
       "has format 2, and this version of incmanager knows format 1"}};
  for (const auto& [key, value, code, words] : wrong) {
    const std::string before = etcd_.Get(key);
    etcd_.Put(key, value);
    const Status status = Refused();
    EXPECT_EQ(status.code(), code) << key;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
    EXPECT_EQ(etcd_.Get(key), value);
    etcd_.Put(key, before);
  }
  EXPECT_EQ(Open()->Load()->size(), 1u);
}

TEST_F(EtcdTest, AnEpochIsTheRevisionAtWhichTheLeadBegan) {
  {
    const auto store = Open();
    const StatusOr<Kept> kept = BeginEpoch(store.get(), {});
    ASSERT_TRUE(kept.ok()) << kept.status();
    EXPECT_EQ(kept->epoch, *store->Epoch());
    EXPECT_EQ(kept->groups.first_id, *store->Epoch() << 32 | 1);
  }
  // As when it has been put back to what it was before.
  etcd_.SetRevision(0);
  EXPECT_THAT(std::string(BeginEpoch(Open().get(), {}).status().message()),
              HasSubstr("put back to what it was before"));
  etcd_.SetRevision(int64_t{1} << 32);
  EXPECT_EQ(BeginEpoch(Open().get(), {}).status().code(), StatusCode::kFailedPrecondition);
}

TEST(EtcdServersTest, ReadsAListOfServers) {
  EXPECT_EQ(*EtcdServers("etcd:http://a:2379,b:1,http://[2001:db8::1]:2379/"),
            (std::vector<std::string>{"a:2379", "b:1", "[2001:db8::1]:2379"}));
  for (const auto& [store, what] :
       std::vector<std::pair<std::string, std::string>>{{"etcd:", "no host"},
                                                        {"etcd:a", "no port"},
                                                        {"etcd:https://a:2379", "without TLS"},
                                                        {"etcd:http://a:2379,", "no host"},
                                                        {"etcd:http://0.0.0.0:2379", "stands for all"},
                                                        {"etcd:ftp://a:1", "no scheme"}}) {
    const Status status = EtcdServers(store).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << store;
    EXPECT_THAT(std::string(status.message()),
                ::testing::AllOf(HasSubstr("'" + store + "'"), HasSubstr(what)));
  }
}

TEST(EtcdClientTest, SaysWhoDoesNotAnswer) {
  EtcdClient nobody({"127.0.0.1:1", "127.0.0.1:2"});
  etcdserverpb::RangeResponse reply;
  const Status status = nobody.Range({}, &reply);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no etcd of 127.0.0.1:1, 127.0.0.1:2 answers"));
}

}  // namespace
}  // namespace epic::manager
