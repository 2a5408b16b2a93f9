#include "incmanager/store/etcd_lead.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

namespace epic::manager {
namespace {

constexpr std::chrono::milliseconds kRenewAgain(100);

etcdserverpb::Compare MadeAt(int64_t revision) {
  etcdserverpb::Compare compare;
  compare.set_target(etcdserverpb::Compare::CREATE);
  compare.set_key(std::string(kLeaderKey));
  compare.set_create_revision(revision);
  return compare;
}

}  // namespace

BootClock::duration BootClock::Now() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

StatusOr<std::unique_ptr<EtcdLead>> EtcdLead::Try(std::shared_ptr<EtcdClient> etcd, const std::string& name,
                                                  std::string* leader, OnLost lost, const LeadTimes& times) {
  const auto read = [](const etcdserverpb::RangeResponse& range) {
    return range.kvs().empty() ? etcdserverpb::KeyValue() : range.kvs(0);
  };
  etcdserverpb::RangeRequest ask;
  ask.set_key(std::string(kLeaderKey));
  etcdserverpb::RangeResponse there;
  if (Status status = etcd->Range(ask, &there); !status.ok()) return status;
  *leader = read(there).value();
  // No lease is made that nobody needs.
  if (!there.kvs().empty()) return std::unique_ptr<EtcdLead>();
  const BootClock::duration sent = BootClock::Now();
  const StatusOr<int64_t> lease = etcd->Grant(times.lease.count());
  if (!lease.ok()) return lease.status();
  etcdserverpb::TxnRequest claim;
  *claim.add_compare() = MadeAt(0);
  etcdserverpb::PutRequest* const put = claim.add_success()->mutable_request_put();
  put->set_key(std::string(kLeaderKey));
  put->set_value(name);
  put->set_lease(*lease);
  *claim.add_failure()->mutable_request_range() = ask;
  etcdserverpb::TxnResponse reply;
  if (Status status = etcd->Txn(claim, &reply); !status.ok()) {
    static_cast<void>(etcd->Revoke(*lease));
    return status;
  }
  int64_t revision = reply.header().revision();
  if (!reply.succeeded()) {
    const etcdserverpb::KeyValue key =
        reply.responses().empty() ? etcdserverpb::KeyValue() : read(reply.responses(0).response_range());
    // One server may have done it and not answered, and the next one found it.
    if (key.lease() != *lease) {
      *leader = key.value();
      static_cast<void>(etcd->Revoke(*lease));
      return std::unique_ptr<EtcdLead>();
    }
    revision = key.create_revision();
  }
  return std::unique_ptr<EtcdLead>(
      new EtcdLead(std::move(etcd), *lease, revision, sent, std::move(lost), times));
}

EtcdLead::EtcdLead(std::shared_ptr<EtcdClient> etcd, int64_t lease, int64_t revision,
                   BootClock::duration sent, OnLost lost, const LeadTimes& times)
    : etcd_(std::move(etcd)),
      lease_(lease),
      revision_(revision),
      on_lost_(std::move(lost)),
      times_(times),
      trusted_until_((sent + times.trusted).count()),
      thread_([this] { Loop(); }) {}

EtcdLead::~EtcdLead() { Resign(); }

etcdserverpb::Compare EtcdLead::Fence() const { return MadeAt(revision_); }

Status EtcdLead::Renew() {
  if (Status status = etcd_->KeepAlive(lease_); !status.ok()) return status;
  // Its key may be gone all the same: an operator can delete it.
  etcdserverpb::RangeRequest ask;
  ask.set_key(std::string(kLeaderKey));
  etcdserverpb::RangeResponse reply;
  if (Status status = etcd_->Range(ask, &reply); !status.ok()) return status;
  if (!reply.kvs().empty() && reply.kvs(0).create_revision() == revision_) return absl::OkStatus();
  return MakeStatus(StatusCode::kNotFound, reply.kvs().empty()
                                               ? "etcd has its key no more"
                                               : fmt::format("{} leads now", reply.kvs(0).value()));
}

void EtcdLead::Loop() {
  std::unique_lock lock(mutex_);
  std::string trouble = "this process stood still";
  std::chrono::nanoseconds pause = times_.renewed;
  while (!changed_.wait_for(lock, pause, [this] { return stop_; })) {
    lock.unlock();
    const BootClock::duration sent = BootClock::Now();
    // Who has stood still may not ask whether he is still trusted: somebody else may have led meanwhile.
    Status status = Holds() ? Renew() : absl::OkStatus();
    if (status.ok() && Holds()) trusted_until_ = (sent + times_.trusted).count();
    if (!Holds()) {
      const auto after = std::chrono::duration_cast<std::chrono::seconds>(times_.trusted);
      return Lose(fmt::format("its lease at etcd has not been renewed for {} s: {}", after.count(),
                              status.ok() ? trouble : std::string(status.message())));
    }
    if (status.code() == StatusCode::kNotFound) return Lose(std::string(status.message()));
    trouble = status.ok() ? "this process stood still" : std::string(status.message());
    pause = status.ok() ? times_.renewed : std::chrono::nanoseconds(kRenewAgain);
    // Not later than it would be lost.
    pause = std::min(pause, std::max(std::chrono::nanoseconds(0),
                                     std::chrono::nanoseconds(trusted_until_) - BootClock::Now()));
    lock.lock();
  }
}

void EtcdLead::Lose(const std::string& why) {
  if (!lost_.exchange(true)) on_lost_(why);
}

void EtcdLead::Resign() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  const std::lock_guard resigning(resign_mutex_);
  if (!thread_.joinable()) return;
  thread_.join();
  if (!lost_.exchange(true)) static_cast<void>(etcd_->Revoke(lease_));
}

}  // namespace epic::manager
