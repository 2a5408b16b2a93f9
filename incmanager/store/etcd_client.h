// Calls of etcd, at whichever of its servers answers. Thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "proto/etcd.grpc.pb.h"

namespace epic::manager {

// What a store's name begins with that is etcd's.
inline constexpr std::string_view kEtcd = "etcd:";

// The servers of "etcd:http://a:2379,b:2379". INVALID_ARGUMENT quotes it and says what is wrong with it.
StatusOr<std::vector<std::string>> EtcdServers(const std::string& store);

class EtcdClient {
 public:
  explicit EtcdClient(std::vector<std::string> servers);

  // Each call asks one server after the other, each for a second at most, until one answers. UNAVAILABLE if
  // none has: then nobody knows whether it has been done. With any other error it has not; the words are
  // etcd's. FAILED_PRECONDITION if what answers there is no etcd.
  Status Range(const etcdserverpb::RangeRequest& request, etcdserverpb::RangeResponse* reply);
  Status Txn(const etcdserverpb::TxnRequest& request, etcdserverpb::TxnResponse* reply);
  // A lease of so many seconds.
  StatusOr<int64_t> Grant(int64_t seconds);
  // NOT_FOUND if there is no such lease any more.
  Status KeepAlive(int64_t lease);
  Status Revoke(int64_t lease);

  // "a:2379, b:2379".
  std::string ToString() const;

 private:
  struct Server {
    std::string address;
    std::unique_ptr<etcdserverpb::KV::Stub> rows;
    std::unique_ptr<etcdserverpb::Lease::Stub> leases;
  };
  template <typename Call>
  Status AskAny(const Call& call);

  std::vector<Server> servers_;
  std::atomic<size_t> at_ = 0;  // who has answered last
};

}  // namespace epic::manager
