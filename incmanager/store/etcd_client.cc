#include "incmanager/store/etcd_client.h"

#include <absl/strings/str_split.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "base/address.h"
#include "base/grpc/channel.h"

namespace epic::manager {
namespace {

constexpr std::chrono::seconds kEach(1);

// Nobody knows whether it has been done. UNKNOWN and the others are of a server that ends.
bool IsUndecided(grpc::StatusCode code) {
  return code == grpc::UNAVAILABLE || code == grpc::DEADLINE_EXCEEDED || code == grpc::CANCELLED ||
         code == grpc::UNKNOWN || code == grpc::INTERNAL || code == grpc::ABORTED;
}

}  // namespace

StatusOr<std::vector<std::string>> EtcdServers(const std::string& store) {
  const auto wrong = [&store](const std::string& what) {
    return MakeStatus(StatusCode::kInvalidArgument,
                      fmt::format("'{}' is no store: {}; etcd:http://HOST:PORT would be right, with more "
                                  "servers behind commas",
                                  store, what));
  };
  std::vector<std::string> servers;
  for (std::string one : std::vector<std::string>(absl::StrSplit(store.substr(kEtcd.size()), ','))) {
    if (one.starts_with("https://")) return wrong("etcd is spoken to without TLS, by http://");
    if (one.starts_with("http://")) one.erase(0, std::string_view("http://").size());
    if (one.ends_with('/')) one.pop_back();
    const StatusOr<Address> address = CallableAddress(one);
    if (!address.ok()) return wrong(std::string(address.status().message()));
    servers.push_back(address->ToString());
  }
  return servers;
}

EtcdClient::EtcdClient(std::vector<std::string> servers) {
  for (std::string& address : servers) {
    grpc::ChannelArguments args;
    args.SetMaxReceiveMessageSize(-1);
    args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
    args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
    const auto channel = ChannelTo(address, args);
    servers_.push_back({.address = std::move(address),
                        .rows = etcdserverpb::KV::NewStub(channel),
                        .leases = etcdserverpb::Lease::NewStub(channel)});
  }
}

std::string EtcdClient::ToString() const {
  std::vector<std::string> all;
  for (const Server& server : servers_) all.push_back(server.address);
  return fmt::format("{}", fmt::join(all, ", "));
}

template <typename Call>
Status EtcdClient::AskAny(const Call& call) {
  std::string last;
  const size_t first = at_;
  for (size_t i = 0; i < servers_.size(); ++i) {
    const size_t at = (first + i) % servers_.size();
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kEach);
    const grpc::Status status = call(servers_[at], &context);
    if (status.ok()) {
      at_ = at;
      return absl::OkStatus();
    }
    const auto words = fmt::format("etcd at {}: {}", servers_[at].address, status.error_message());
    if (status.error_code() == grpc::UNIMPLEMENTED)
      return MakeStatus(StatusCode::kFailedPrecondition, words + " (it is no etcd of version 3)");
    if (!IsUndecided(status.error_code())) {
      at_ = at;
      return MakeStatus(static_cast<StatusCode>(status.error_code()), words);
    }
    last = words;
  }
  return MakeStatus(StatusCode::kUnavailable,
                    servers_.size() == 1 ? last : fmt::format("no etcd of {} answers; {}", ToString(), last));
}

Status EtcdClient::Range(const etcdserverpb::RangeRequest& request, etcdserverpb::RangeResponse* reply) {
  return AskAny([&](Server& server, grpc::ClientContext* context) {
    return server.rows->Range(context, request, reply);
  });
}

Status EtcdClient::Txn(const etcdserverpb::TxnRequest& request, etcdserverpb::TxnResponse* reply) {
  return AskAny([&](Server& server, grpc::ClientContext* context) {
    return server.rows->Txn(context, request, reply);
  });
}

StatusOr<int64_t> EtcdClient::Grant(int64_t seconds) {
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl(seconds);
  etcdserverpb::LeaseGrantResponse reply;
  Status status = AskAny([&](Server& server, grpc::ClientContext* context) {
    return server.leases->LeaseGrant(context, request, &reply);
  });
  if (!status.ok()) return status;
  return reply.id();
}

Status EtcdClient::KeepAlive(int64_t lease) {
  etcdserverpb::LeaseKeepAliveRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseKeepAliveResponse reply;
  Status status = AskAny([&](Server& server, grpc::ClientContext* context) -> grpc::Status {
    const auto stream = server.leases->LeaseKeepAlive(context);
    const bool answered = stream->Write(request) && stream->Read(&reply);
    if (!answered) return stream->Finish();
    stream->WritesDone();
    context->TryCancel();
    static_cast<void>(stream->Finish());
    return grpc::Status::OK;
  });
  if (!status.ok()) return status;
  if (reply.ttl() > 0) return absl::OkStatus();
  return MakeStatus(StatusCode::kNotFound, "etcd has this lease no more");
}

Status EtcdClient::Revoke(int64_t lease) {
  etcdserverpb::LeaseRevokeRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseRevokeResponse reply;
  return AskAny([&](Server& server, grpc::ClientContext* context) {
    return server.leases->LeaseRevoke(context, request, &reply);
  });
}

}  // namespace epic::manager
