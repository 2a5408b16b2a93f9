// Which of several managers leads: the one whose key etcd has, with a lease that it renews. State table:
// PROTOCOL-CONTROL.md, 16.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/status.h"
#include "incmanager/store/etcd_client.h"

namespace epic::manager {

// All keys of a cluster's begin so.
inline constexpr std::string_view kEtcdPrefix = "/epic/";
inline constexpr std::string_view kLeaderKey = "/epic/leader";

// It runs on while the process is stopped, and its machine asleep.
class BootClock {
 public:
  using duration = std::chrono::nanoseconds;
  static duration Now();
};

struct LeadTimes {
  std::chrono::seconds lease{5};
  std::chrono::nanoseconds trusted =
      std::chrono::seconds(4);  // since what renewed it was sent; less than the lease
  std::chrono::nanoseconds renewed = std::chrono::seconds(1);  // each
};

// Of a process that leads. Thread-safe.
class EtcdLead {
 public:
  // Called once, on any thread, when this process has ceased to lead; need not return.
  using OnLost = std::function<void(const std::string& why)>;

  // Tries once to become the leader, under this name. Null if somebody leads already, whose name *leader
  // gets. Errors: as EtcdClient's.
  static StatusOr<std::unique_ptr<EtcdLead>> Try(std::shared_ptr<EtcdClient> etcd, const std::string& name,
                                                 std::string* leader, OnLost lost,
                                                 const LeadTimes& times = {});
  // As Resign.
  ~EtcdLead();
  EtcdLead(const EtcdLead&) = delete;
  EtcdLead& operator=(const EtcdLead&) = delete;

  // At which the key was made: no other leader, before or after, has the same.
  int64_t revision() const { return revision_; }
  // That what this compares is so; a transaction that has it is this leader's alone.
  etcdserverpb::Compare Fence() const;

  // Whether it may still be believed to lead, at this moment. Once it may not, it never may again.
  bool Holds() const {
    if (BootClock::Now().count() >= trusted_until_) expired_ = true;
    return !lost_ && !expired_;
  }
  // Somebody has found out that it does not.
  void Lose(const std::string& why);
  // Gives the key back, if etcd answers; not lost by that, but it holds nothing any more.
  void Resign();

 private:
  EtcdLead(std::shared_ptr<EtcdClient> etcd, int64_t lease, int64_t revision, BootClock::duration sent,
           OnLost lost, const LeadTimes& times);
  void Loop();
  // Whether etcd has the key still; errors as EtcdClient's, NOT_FOUND if it has not.
  Status Renew();

  const std::shared_ptr<EtcdClient> etcd_;
  const int64_t lease_, revision_;
  const OnLost on_lost_;
  const LeadTimes times_;
  std::atomic<int64_t> trusted_until_;
  std::atomic<bool> lost_ = false;             // or given back
  mutable std::atomic<bool> expired_ = false;  // somebody has found it so
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::mutex resign_mutex_;  // of who waits for the thread
  std::thread thread_;
};

}  // namespace epic::manager
