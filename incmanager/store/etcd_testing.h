// A server of what managers use of etcd, in memory; its leases end when the test says so.
#pragma once

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/etcd.grpc.pb.h"

namespace epic::manager::testing {

// Thread-safe.
class FakeEtcd {
 public:
  FakeEtcd() : rows_(this), leases_service_(this) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&rows_);
    builder.RegisterService(&leases_service_);
    server_ = builder.BuildAndStart();
  }
  ~FakeEtcd() { server_->Shutdown(std::chrono::system_clock::now()); }
  FakeEtcd(const FakeEtcd&) = delete;
  FakeEtcd& operator=(const FakeEtcd&) = delete;

  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }

  // All leases are over, and what was put with them is gone.
  void EndLeases() {
    const std::lock_guard lock(mutex_);
    leases_.clear();
    std::erase_if(pairs_, [](const auto& pair) { return pair.second.lease() != 0; });
  }
  // As somebody else does; an empty value takes the key away.
  void Put(const std::string& key, const std::string& value) {
    const std::lock_guard lock(mutex_);
    value.empty() ? Drop(key) : PutLocked(key, value, 0);
  }
  std::string Get(const std::string& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = pairs_.find(key);
    return found == pairs_.end() ? "" : found->second.value();
  }
  // Next revisions are above this.
  void SetRevision(int64_t revision) {
    const std::lock_guard lock(mutex_);
    revision_ = revision;
  }
  // Each transaction from now on: `before`, and its status if that is not OK, without doing it; then it is
  // done; then the status of `behind`.
  using Trouble = std::function<grpc::Status()>;
  void Disturb(Trouble before, Trouble behind) {
    const std::lock_guard lock(mutex_);
    before_ = std::move(before);
    behind_ = std::move(behind);
  }
  // A copy of this transaction, of all that have come, is done by another server, now.
  bool DoAgain(size_t index) {
    const std::lock_guard lock(mutex_);
    etcdserverpb::TxnResponse reply;
    const etcdserverpb::TxnRequest request = done_.at(index);
    return Do(request, &reply).ok() && reply.succeeded();
  }
  size_t transactions() const {
    const std::lock_guard lock(mutex_);
    return done_.size();
  }
  size_t ranges() const {
    const std::lock_guard lock(mutex_);
    return ranges_;
  }
  size_t leases() const {
    const std::lock_guard lock(mutex_);
    return leases_.size();
  }

 private:
  struct Rows : etcdserverpb::KV::Service {
    explicit Rows(FakeEtcd* etcd) : of(etcd) {}
    grpc::Status Range(grpc::ServerContext*, const etcdserverpb::RangeRequest* request,
                       etcdserverpb::RangeResponse* reply) override {
      const std::lock_guard lock(of->mutex_);
      ++of->ranges_;
      *reply = of->RangeOf(*request);
      return grpc::Status::OK;
    }
    grpc::Status Txn(grpc::ServerContext*, const etcdserverpb::TxnRequest* request,
                     etcdserverpb::TxnResponse* reply) override {
      Trouble before, behind;
      {
        const std::lock_guard lock(of->mutex_);
        before = of->before_;
        behind = of->behind_;
      }
      if (before) {
        if (const grpc::Status status = before(); !status.ok()) return status;
      }
      {
        const std::lock_guard lock(of->mutex_);
        if (const grpc::Status status = of->Do(*request, reply); !status.ok()) return status;
      }
      return behind ? behind() : grpc::Status::OK;
    }
    FakeEtcd* const of;
  };
  struct Leases : etcdserverpb::Lease::Service {
    explicit Leases(FakeEtcd* etcd) : of(etcd) {}
    grpc::Status LeaseGrant(grpc::ServerContext*, const etcdserverpb::LeaseGrantRequest*,
                            etcdserverpb::LeaseGrantResponse* reply) override {
      const std::lock_guard lock(of->mutex_);
      reply->set_id(++of->last_lease_);
      of->leases_.insert(reply->id());
      return grpc::Status::OK;
    }
    grpc::Status LeaseRevoke(grpc::ServerContext*, const etcdserverpb::LeaseRevokeRequest* request,
                             etcdserverpb::LeaseRevokeResponse*) override {
      const std::lock_guard lock(of->mutex_);
      of->leases_.erase(request->id());
      std::erase_if(of->pairs_, [&](const auto& pair) { return pair.second.lease() == request->id(); });
      return grpc::Status::OK;
    }
    grpc::Status LeaseKeepAlive(
        grpc::ServerContext*,
        grpc::ServerReaderWriter<etcdserverpb::LeaseKeepAliveResponse, etcdserverpb::LeaseKeepAliveRequest>*
            stream) override {
      etcdserverpb::LeaseKeepAliveRequest request;
      while (stream->Read(&request)) {
        etcdserverpb::LeaseKeepAliveResponse reply;
        {
          const std::lock_guard lock(of->mutex_);
          reply.set_id(request.id());
          reply.set_ttl(of->leases_.contains(request.id()) ? 5 : 0);
        }
        stream->Write(reply);
      }
      return grpc::Status::OK;
    }
    FakeEtcd* const of;
  };

  // With the lock.
  void PutLocked(const std::string& key, const std::string& value, int64_t lease) {
    etcdserverpb::KeyValue& pair = pairs_[key];
    ++revision_;
    if (pair.create_revision() == 0) pair.set_create_revision(revision_);
    pair.set_key(key);
    pair.set_value(value);
    pair.set_lease(lease);
  }
  void Drop(const std::string& key) {
    ++revision_;
    pairs_.erase(key);
  }
  etcdserverpb::RangeResponse RangeOf(const etcdserverpb::RangeRequest& request) const {
    etcdserverpb::RangeResponse reply;
    reply.mutable_header()->set_revision(revision_);
    const auto end = request.range_end().empty() ? pairs_.upper_bound(request.key())
                                                 : pairs_.lower_bound(request.range_end());
    for (auto at = pairs_.lower_bound(request.key()); at != end; ++at) {
      reply.set_more(request.limit() != 0 && reply.kvs_size() == request.limit());
      if (reply.more()) break;
      *reply.add_kvs() = at->second;
    }
    return reply;
  }
  grpc::Status Do(const etcdserverpb::TxnRequest& request, etcdserverpb::TxnResponse* reply) {
    done_.push_back(request);
    const bool holds = std::ranges::all_of(request.compare(), [this](const etcdserverpb::Compare& compare) {
      const auto found = pairs_.find(compare.key());
      if (compare.target() == etcdserverpb::Compare::VALUE)
        return found != pairs_.end() && found->second.value() == compare.value();
      return (found == pairs_.end() ? 0 : found->second.create_revision()) == compare.create_revision();
    });
    reply->set_succeeded(holds);
    std::set<std::string> keys;
    for (const etcdserverpb::RequestOp& op : holds ? request.success() : request.failure()) {
      etcdserverpb::ResponseOp& answer = *reply->add_responses();
      if (op.has_request_range()) *answer.mutable_response_range() = RangeOf(op.request_range());
      const std::string key = op.has_request_put() ? op.request_put().key() : op.request_delete_range().key();
      if (!op.has_request_range() && !keys.insert(key).second)
        return {grpc::StatusCode::INVALID_ARGUMENT, "etcdserver: duplicate key given in txn request"};
      if (op.has_request_put()) PutLocked(key, op.request_put().value(), op.request_put().lease());
      if (op.has_request_delete_range()) Drop(key);
    }
    reply->mutable_header()->set_revision(revision_);
    return grpc::Status::OK;
  }

  mutable std::mutex mutex_;
  std::map<std::string, etcdserverpb::KeyValue> pairs_;
  std::vector<etcdserverpb::TxnRequest> done_;  // or refused by what they compare
  std::set<int64_t> leases_;
  int64_t revision_ = 1, last_lease_ = 0;
  size_t ranges_ = 0;
  Trouble before_, behind_;
  Rows rows_;
  Leases leases_service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace epic::manager::testing
