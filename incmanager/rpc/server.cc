#include "incmanager/rpc/server.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/address.h"
#include "base/grpc/acceptor.h"
#include "base/grpc/listener.h"
#include "base/grpc/peer_address.h"
#include "base/grpc/questions.h"
#include "base/grpc/self_check.h"
#include "base/grpc/standing_by.h"
#include "incmanager/rpc/convert.h"
#include "incmanager/rpc/convert_policy.h"
#include "incmanager/rpc/kept.h"
#include "incmanager/rpc/manager_core.h"
#include "incmanager/rpc/rank_waits.h"
#include "incmanager/rpc/status.h"
#include "incmanager/rpc/waits.h"
#include "proto/manager.grpc.pb.h"

namespace epic::manager {
namespace {

// A rank whose process is stopped is late, not lost, but would not answer gRPC's pings: they are sent next to
// never. Their time-out still is TCP_USER_TIMEOUT of every connection, in which the peer's kernel must
// acknowledge what is sent: the signs of life.
constexpr int kPingPeriodMs = 2'000'000'000;
constexpr int kPeerTimeoutMs = 10'000;
constexpr int kMinPingIntervalMs = 5'000;
// Connections without a session or call, as those of an agent whose host is gone, are given back.
constexpr int kIdleMs = 60'000;
constexpr auto kShutdownGrace = std::chrono::milliseconds(200);

// Sessions live as long as their ranks and hosts, so they are not to hold a thread each; and what agents say is
// to be heard also when others have taken all threads that answer calls. These use the callback API.
using CallbackService = proto::Manager::WithCallbackMethod_Session<
    proto::Manager::WithCallbackMethod_HostSession<proto::Manager::WithCallbackMethod_Register<
        proto::Manager::WithCallbackMethod_Heartbeat<
            proto::Manager::WithCallbackMethod_ListSwitches<proto::Manager::Service>>>>>;

class Service : public CallbackService {
 public:
  explicit Service(ManagerCore* core) : core_(core) {}

  grpc::ServerUnaryReactor* Register(grpc::CallbackServerContext* context, const proto::RegisterRequest* request,
                                     proto::RegisterReply* reply) override {
    const std::string peer = PeerAddress(context->peer());
    return Finish(context, OfAgent(Answer(core_->Ask([&](ManagerState& state, Nanos now) {
                    return state.Register(now, *request, peer);
                  }),
                                          reply)));
  }
  grpc::ServerUnaryReactor* Heartbeat(grpc::CallbackServerContext* context, const proto::HeartbeatRequest* request,
                                      proto::HeartbeatReply* reply) override {
    return Finish(context, OfAgent(Answer(core_->Ask([&](ManagerState& state, Nanos now) {
                    return state.Heartbeat(now, *request);
                  }),
                                          reply)));
  }
  grpc::ServerBidiReactor<proto::ClientMessage, proto::ServerMessage>* Session(
      grpc::CallbackServerContext* context) override {
    return core_->NewSession(PeerAddress(context->peer()));
  }
  grpc::ServerBidiReactor<proto::FromHost, proto::ToHost>* HostSession(
      grpc::CallbackServerContext*) override {
    return core_->NewHost();
  }
  grpc::Status ListHosts(grpc::ServerContext*, const proto::ListHostsRequest*,
                         proto::ListHostsReply* reply) override {
    *reply = core_->Ask([](ManagerState& state, Nanos now) { return state.ListHosts(now); });
    return grpc::Status::OK;
  }
  grpc::Status Topology(grpc::ServerContext*, const proto::TopologyRequest*,
                        proto::TopologyReply* reply) override {
    *reply = core_->Ask([](ManagerState& state, Nanos) { return state.DescribeTopology(); });
    return grpc::Status::OK;
  }
  grpc::ServerUnaryReactor* ListSwitches(grpc::CallbackServerContext* context, const proto::ListSwitchesRequest*,
                                         proto::ListSwitchesReply* reply) override {
    *reply = core_->Ask([](ManagerState& state, Nanos now) { return state.ListSwitches(now); });
    return Finish(context, grpc::Status::OK);
  }
  grpc::Status Tables(grpc::ServerContext*, const proto::TablesRequest* request,
                      proto::DumpReply* reply) override {
    const Questions::One question(&questions_);
    if (!question.status().ok()) return ToGrpc(question.status());
    return Answer(core_->Tables(*request), reply);
  }
  grpc::Status CreateGroup(grpc::ServerContext*, const proto::CreateGroupRequest* request,
                           proto::GroupState* reply) override {
    return Answer(core_->Change(*request, [&](ManagerState& state, Nanos) { return state.CreateGroup(*request); }),
                  reply);
  }
  grpc::Status ListGroups(grpc::ServerContext*, const proto::ListGroupsRequest* page,
                          proto::ListGroupsReply* reply) override {
    *reply = core_->Ask([&](ManagerState& state, Nanos) { return state.ListGroups(*page); });
    return grpc::Status::OK;
  }
  grpc::Status ShowGroup(grpc::ServerContext* context, const proto::ShowGroupRequest* request,
                         proto::GroupState* reply) override {
    const auto shown = core_->Ask([&](ManagerState& state, Nanos now) {
      return state.ShowGroup(request->name(), request->ended(), now);
    });
    if (const grpc::Status status = Answer(shown, reply); !status.ok()) return status;
    const Questions::One question(&questions_);
    if (!question.status().ok()) return ToGrpc(question.status());
    const std::map<std::string, proto::DumpReply> dumps =
        core_->DumpsOf(*reply, request->recent(), context->deadline());
    for (proto::TreeNode& node : *reply->mutable_tree()) {
      const auto dump = dumps.find(node.switch_name());
      if (dump == dumps.end()) continue;
      AddTrouble(dump->second, reply->group_id(), &node);
      if (node.parent().empty()) AddRequests(dump->second, reply->group_id(), reply->mutable_placement());
    }
    AddWait(dumps, reply);
    if (request->ask_ranks()) AskRanks(context, request->recent(), reply);
    return grpc::Status::OK;
  }
  grpc::Status DestroyGroup(grpc::ServerContext*, const proto::DestroyGroupRequest* request,
                            proto::DestroyGroupReply*) override {
    const Questions::One question(&questions_);
    if (!question.status().ok()) return ToGrpc(question.status());
    return ToGrpc(core_->DestroyGroup(request->name(), request->force()));
  }
  grpc::Status Explain(grpc::ServerContext*, const proto::ExplainRequest* request,
                       proto::ExplainReply* reply) override {
    return Answer(core_->Ask([&](ManagerState& state, Nanos) { return state.Explain(*request); }), reply);
  }
  grpc::Status Events(grpc::ServerContext*, const proto::EventsRequest* request,
                      proto::EventsReply* reply) override {
    *reply = core_->Ask([&](ManagerState& state, Nanos now) { return state.Events(now, *request); });
    return grpc::Status::OK;
  }
  grpc::Status Adopt(grpc::ServerContext*, const proto::AdoptRequest* request, proto::AdoptReply*) override {
    return ToGrpc(
        core_->Ask([&](ManagerState& state, Nanos now) { return state.Adopt(now, request->switch_name()); }));
  }
  grpc::Status Policy(grpc::ServerContext*, const proto::PolicyRequest* request,
                      proto::PolicyReply* reply) override {
    return Answer(
        core_->Change(*request, [&](ManagerState& state, Nanos now) { return state.DefaultPolicy(now, *request); }),
        reply);
  }
  grpc::Status SetTenant(grpc::ServerContext*, const proto::SetTenantRequest* request,
                         proto::TenantsReply* reply) override {
    return Answer(
        core_->Change(*request, [&](ManagerState& state, Nanos now) { return state.SetTenant(now, *request); }),
        reply);
  }
  grpc::Status RemoveTenant(grpc::ServerContext*, const proto::RemoveTenantRequest* request,
                            proto::TenantsReply* reply) override {
    return Answer(
        core_->Change(*request, [&](ManagerState& state, Nanos now) { return state.RemoveTenant(now, *request); }),
        reply);
  }
  grpc::Status ListTenants(grpc::ServerContext*, const proto::ListTenantsRequest*,
                           proto::TenantsReply* reply) override {
    *reply = core_->Ask([](ManagerState& state, Nanos) { return state.ListTenants(); });
    return grpc::Status::OK;
  }

  uint64_t agents_heard() const { return agents_heard_; }

 private:
  grpc::Status OfAgent(const grpc::Status& status) {
    if (status.ok()) ++agents_heard_;
    return status;
  }
  static grpc::ServerUnaryReactor* Finish(grpc::CallbackServerContext* context, const grpc::Status& status) {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(status);
    return reactor;
  }
  template <typename T>
  static grpc::Status Answer(const StatusOr<T>& result, T* reply) {
    if (!result.ok()) return ToGrpc(result.status());
    *reply = *result;
    return grpc::Status::OK;
  }

  // Of a group by the hosts all ranks know whom it waits for, of another one those that it waits for know why.
  void AskRanks(grpc::ServerContext* context, bool recent, proto::GroupState* group) {
    const bool by_hosts = group->path_taken() == proto::PATH_HOSTS;
    const std::set<uint32_t> whom = by_hosts ? std::set<uint32_t>() : RanksToAsk(*group);
    if (!by_hosts && whom.empty()) return;
    std::set<uint32_t> asked;
    const std::map<uint32_t, proto::CallsMade> calls =
        core_->CallsOf(*group, whom, recent, context->deadline(), &asked);
    by_hosts ? AddHostsWait(calls, asked, group) : AddDoing(calls, asked, group);
  }

  ManagerCore* const core_;
  Questions questions_;
  std::atomic<uint64_t> agents_heard_ = 0;
};

Status OfListen(const Status& status) {
  return MakeStatus(status.code(), "--listen: " + std::string(status.message()));
}

}  // namespace

struct ManagerServer::Impl {
  Impl(const Topology& topology, const GroupOptions& options, const LinkDefaults& defaults,
       std::unique_ptr<Store> kept_in, const Kept& kept, const CommitTimes& times)
      : store(std::move(kept_in)),
        core(topology, options, defaults, store.get(), kept, times),
        service(&core) {}
  const std::unique_ptr<Store> store;
  ManagerCore core;
  Service service;
  std::unique_ptr<Acceptor> acceptor;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<SelfCheck> check;
  std::optional<bool> ended;  // what End has given
};

ManagerServer::ManagerServer() = default;

StatusOr<std::unique_ptr<ManagerServer>> ManagerServer::Start(
    const Topology& topology, const GroupOptions& options, const std::string& listen,
    const LinkDefaults& defaults, std::unique_ptr<Store> store, OnDeaf deaf, const CommitTimes& times) {
  const StatusOr<Address> address = ListenAddress(listen);
  if (!address.ok()) return OfListen(address.status());
  StatusOr<Listener> listener = Listener::At(*address);
  if (!listener.ok()) return OfListen(listener.status());
  Kept kept;
  if (store != nullptr) {
    StatusOr<Kept> found = BeginEpoch(store.get(), ManagerCore::At());
    if (!found.ok()) return found.status();
    kept = *std::move(found);
  }
  std::unique_ptr<ManagerServer> result(new ManagerServer());
  result->impl_ = std::make_unique<Impl>(topology, options, defaults, std::move(store), kept, times);
  result->port_ = listener->bound().port;
  Acceptor& acceptor = *(result->impl_->acceptor = std::make_unique<Acceptor>(
                             *std::move(listener),
                             AcceptorOptions{.user_timeout = std::chrono::milliseconds(kPeerTimeoutMs),
                                             .say = [](const std::string& line) { spdlog::warn("{}", line); }}));
  grpc::ServerBuilder builder;
  acceptor.AddTo(&builder, {});
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPingPeriodMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPeerTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kMinPingIntervalMs);
  builder.RegisterService(&result->impl_->service);
  if (result->impl_->store != nullptr) {
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> ends;
    ends.push_back(std::make_unique<StandingByOnceItIsOver>(
        [core = &result->impl_->core] { return core->MayTell(); }, "stands by: its lead is over"));
    builder.experimental().SetInterceptorCreators(std::move(ends));
  }
  result->impl_->server = builder.BuildAndStart();
  if (result->impl_->server == nullptr)
    return MakeStatus(StatusCode::kUnavailable, fmt::format("cannot serve on {}", listen));
  acceptor.Start();
  result->impl_->check = std::make_unique<SelfCheck>(&acceptor, std::move(deaf));
  return result;
}

uint64_t ManagerServer::agents_heard() const { return impl_->service.agents_heard(); }

void ManagerServer::GiveWay() { impl_->store->Close(); }

bool ManagerServer::End() {
  if (impl_->server == nullptr || impl_->ended) return impl_->ended.value_or(true);
  impl_->check.reset();
  impl_->acceptor->Stop();
  impl_->core.Stop();
  impl_->server->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
  impl_->server->Wait();
  return *(impl_->ended = impl_->core.End());
}

ManagerServer::~ManagerServer() { static_cast<void>(End()); }

}  // namespace epic::manager
