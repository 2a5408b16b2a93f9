#include "incagent/agent.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/address.h"
#include "base/grpc/acceptor.h"
#include "base/grpc/host_name.h"
#include "base/grpc/in_turn.h"
#include "base/grpc/listener.h"
#include "base/grpc/not_a_manager.h"
#include "base/grpc/self_check.h"
#include "base/printable.h"
#include "base/system_random.h"
#include "incagent/engine_client.h"
#include "incagent/engine_signs.h"
#include "incagent/leftovers.h"
#include "incagent/manager_stub.h"
#include "incagent/table_service.h"
#include "proto/manager.grpc.pb.h"

namespace epic::agent {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRetry{1000};
// Until an engine that cannot be watched is asked again: another one may have taken its place.
constexpr milliseconds kRetryWatch{10000};
// That the manager's host is known is looked up at the start, and no more than said.
constexpr std::chrono::seconds kFindHostTimeout{2};
// An engine whose machine is overloaded is not down yet; meanwhile the manager must hear of its agent.
constexpr milliseconds kEngineTimeout{1000};
// Of what an engine has, so many at once.
constexpr uint32_t kGroupsPerPage = 100;
constexpr size_t kMostMemory = size_t{64} << 20;
constexpr int kExitDeaf = 1;

// Of this agent, so that the manager tells it from any other one; not 0.
uint64_t RandomInstance() { return SystemRandom().value_or(1); }

}  // namespace

class Agent::Impl {
 public:
  explicit Impl(const AgentOptions& options)
      : options_(options),
        engine_(options.engine),
        engine_watch_(options.engine),
        service_(&engine_),
        not_a_manager_(proto::RegisterRequest::descriptor()->file()->FindServiceByName("Manager"),
                       "the agent of switch " + options.name),
        manager_(options.manager, ManagerArguments()) {}

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      if (watch_ != nullptr) watch_->TryCancel();
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
    if (watcher_.joinable()) watcher_.join();
    check_.reset();
    if (acceptor_) acceptor_->Stop();
    if (server_ != nullptr) {
      server_->Shutdown(std::chrono::system_clock::now() + milliseconds(200));
      server_->Wait();
    }
  }

  // Errors: as Agent::Start.
  Status Serve(const Address& listen, const std::optional<Address>& advertise) {
    StatusOr<Listener> listener = Listener::At(listen);
    if (!listener.ok())
      return MakeStatus(listener.status().code(), fmt::format("listen (--listen): {}", std::string(listener.status().message())));
    const Address told = advertise.value_or(listener->bound());
    if (told.IsLoopback() && std::ranges::any_of(AddressesOf(options_.manager), &IsElsewhere)) {
      return MakeStatus(StatusCode::kInvalidArgument,
                        fmt::format("advertise (--advertise): the manager at {} is on another machine, and cannot call back on {}; "
                                    "say under which HOST:PORT it can",
                                    options_.manager, told.ToString()));
    }
    address_ = told.ToString();
    acceptor_.emplace(*std::move(listener), AcceptorOptions{.say = [name = options_.name](const std::string& line) {
                        spdlog::warn("{}: {}", name, line);
                      }});
    grpc::ServerBuilder builder;
    acceptor_->AddTo(&builder, {.streams = 256, .memory = kMostMemory});
    builder.RegisterService(&service_);
    builder.RegisterService(&not_a_manager_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr)
      return MakeStatus(StatusCode::kUnavailable, fmt::format("listen (--listen): cannot serve on {}", listen.ToString()));
    acceptor_->Start();
    check_.emplace(&*acceptor_, [name = options_.name](const std::string& why) {
      spdlog::critical("{}: ends: {}", name, why);
      std::_Exit(kExitDeaf);
    });
    thread_ = std::thread([this] { Loop(); });
    watcher_ = std::thread([this] { WatchEngine(); });
    return absl::OkStatus();
  }

  const std::string& address() const { return address_; }

 private:
  void Loop() {
    bool registered = false;
    while (Wait(pause_)) {
      if (!registered) {
        pause_ = kRetry;
        registered = Register();
        if (registered) pause_ = heartbeat_;
      } else {
        registered = Heartbeat();
        pause_ = registered ? heartbeat_ : milliseconds(0);
      }
    }
  }

  // Until then, or until the engine tells of its ports. False when the agent is to stop.
  bool Wait(milliseconds time) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, time, [this] { return stop_ || told_; });
    told_ = false;
    return !stop_;
  }

  // Ends each wait of the loop when something has changed at the switch's ports. An engine of an earlier
  // version does not tell: then there is the heartbeat.
  void WatchEngine() {
    for (;;) {
      grpc::ClientContext context;
      {
        const std::lock_guard lock(mutex_);
        if (stop_) return;
        watch_ = &context;
      }
      const grpc::Status ended = engine_.Watch(&context, [this] {
        const std::lock_guard lock(mutex_);
        told_ = true;
        changed_.notify_all();
      });
      std::unique_lock lock(mutex_);
      watch_ = nullptr;
      const milliseconds pause = ended.error_code() == grpc::UNIMPLEMENTED ? kRetryWatch : kRetry;
      if (changed_.wait_for(lock, pause, [this] { return stop_; })) return;
    }
  }

  // One line per change of state, however often the same thing is tried.
  void Say(const std::string& state, bool good) {
    if (state == said_) return;
    said_ = state;
    const std::string line = Printable(fmt::format("{}: {}", options_.name, state));
    good ? spdlog::info("{}", line) : spdlog::warn("{}", line);
  }

  bool Register() {
    proto::RegisterRequest request;
    request.set_name(options_.name);
    request.set_agent_address(address_);
    request.set_instance(instance_);
    request.set_follows(follows_);
    proto::EngineInfo& engine = *request.mutable_engine();
    if (const grpc::Status status = engine_.Describe(&engine); !status.ok()) {
      Say(fmt::format("waiting for {}", EngineTrouble()), false);
      return false;
    }
    proto::RegisterReply reply;
    grpc::ClientContext context;
    SetDeadline(&context);
    const grpc::Status status = manager_->Register(&context, request, &reply);
    if (!status.ok()) {
      const auto warn = [this](const std::string& line) {
        spdlog::warn("{}: {}", options_.name, Printable(line));
      };
      const bool away = IsAway(status) || manager_.IsPassedOver(status, warn);
      if (away && manager_.NextConnected(IsSilent(status))) pause_ = milliseconds(0);
      const bool no_manager = status.error_code() == grpc::UNIMPLEMENTED;
      Say(away         ? fmt::format("waiting for the manager at {}", options_.manager)
          : no_manager ? fmt::format("what answers at {} is no manager{}{} (--manager, EPIC_MANAGER)", options_.manager,
                                     status.error_message().empty() ? "" : ": ", status.error_message())
                       : fmt::format("the manager at {} refuses this switch: {}", manager_.address(),
                                     status.error_message()),
          false);
      return false;
    }
    epoch_ = reply.epoch();
    as_of_ = reply.time();
    question_ = nullptr;  // what it is answered is of before this
    heartbeat_ = HeartbeatInterval(reply);
    verdict_.Answered();
    engine_watch_.Look();
    asked_ = std::chrono::steady_clock::now();
    own_wait_ = OwnWait();
    if (!Hold(reply) || !RemoveLeftovers(engine, reply)) return false;
    Say(fmt::format("registered at the manager {}", manager_.address()), true);
    return true;
  }

  std::string EngineTrouble() const { return fmt::format("the engine at {}", options_.engine); }

  // The switch is that manager's from now on.
  bool Hold(const proto::RegisterReply& reply) {
    heard_.reset();
    told_of_ = true;
    if (!reply.has_fence()) return true;
    const grpc::Status status = engine_.Hold(reply.fence(), reply.takes_over());
    if (!status.ok()) {
      Say(fmt::format("the engine refuses the manager at {}: {}", options_.manager, status.error_message()),
          false);
      return false;
    }
    follows_ = reply.fence().cluster();
    heard_ = reply.fence();
    return true;
  }

  // Contexts of groups that ended while this agent was away.
  bool RemoveLeftovers(const proto::EngineInfo& engine, const proto::RegisterReply& reply) {
    if (!HasLeftovers(engine, reply)) return true;
    proto::DumpReply dump;
    proto::DumpRequest page;
    page.set_most_groups(kGroupsPerPage);
    do {
      if (!engine_.Call(&EngineClient::Stub::Dump, page, &dump).ok()) return false;
      for (const proto::GroupConfig* group : Leftovers(engine, reply, dump)) {
        proto::RemoveRequest remove;
        remove.set_group_id(group->group_id());
        remove.set_generation(group->generation());
        if (reply.has_fence()) *remove.mutable_fence() = reply.fence();
        proto::RemoveReply removed;
        if (!engine_.Call(&EngineClient::Stub::Remove, remove, &removed).ok()) return false;
        spdlog::info("{}: removed group {} ({:#x}), which the manager does not know", options_.name,
                     Printable(group->name()), group->group_id());
      }
      if (dump.more()) page.set_after_group(dump.groups(dump.groups_size() - 1).config().group_id());
    } while (dump.more());
    return true;
  }

  // Asks the engine who it is; whether it has answered. Why it has not is logged until it is down, with what is seen of it.
  bool DescribeEngine(proto::EngineInfo* info) {
    if (question_ == nullptr) {
      question_ = std::make_unique<EngineQuestion>(&engine_, EngineVerdict::kLongest,
                                                   told_of_ ? heard_ : std::nullopt);
      asked_as_of_ = as_of_;
    }
    const std::optional<grpc::Status> ended = question_->WaitFor(kEngineTimeout);
    const grpc::Status status =
        ended.value_or(grpc::Status(grpc::DEADLINE_EXCEEDED, fmt::format("{} has not answered yet", EngineTrouble())));
    if (status.ok()) *info = question_->info();
    if (ended) question_ = nullptr;
    const auto now = std::chrono::steady_clock::now();
    const Nanos waited = OwnWait();
    const Nanos passed = std::chrono::nanoseconds(now - asked_).count(), own = waited - own_wait_;
    asked_ = now;
    own_wait_ = waited;
    if (status.ok()) {
      verdict_.Answered();
      engine_watch_.Answered();
      return true;
    }
    const EngineSigns signs = engine_watch_.Look();
    const bool was_down = verdict_.down();
    verdict_.Failed(signs, passed, own);
    if (was_down) return false;
    const auto ms = [](Nanos time) { return time / kMillisecond; };
    spdlog::warn("{}: {} (status {}); its socket {}; of the last {} ms it has waited {} ms for a processor, this agent {} ms",
                 options_.name, status.error_message(), static_cast<int>(status.error_code()),
                 signs.refuses    ? "takes no connections"
                 : signs.replaced ? "is another process' now"
                                  : "takes connections",
                 ms(passed), ms(signs.waited), ms(own));
    return false;
  }

  // False when the agent has to register again.
  bool Heartbeat() {
    proto::HeartbeatRequest request;
    request.set_name(options_.name);
    request.set_epoch(epoch_);
    request.set_instance(instance_);
    const bool answers = DescribeEngine(request.mutable_engine());
    const bool slow = !answers && !verdict_.down();
    request.set_engine_up(answers || slow);
    request.set_engine_slow(slow);
    if (answers) request.set_as_of(asked_as_of_);
    if (slow) {
      *request.mutable_engine() = engine_.info();  // as it was
    } else if (!answers) {
      request.clear_engine();
    }
    proto::HeartbeatReply reply;
    grpc::ClientContext context;
    SetDeadline(&context);
    const grpc::Status status = manager_->Heartbeat(&context, request, &reply);
    told_of_ = status.ok() && !reply.register_again();
    if (!status.ok()) {
      const bool away = IsAway(status);
      Say(fmt::format("{} the manager at {}{}", away ? "lost" : "refused by", options_.manager,
                      away ? "" : ": " + status.error_message()),
          false);
      // Another one may lead now.
      if (away && manager_.are_many()) return manager_.NextConnected(IsSilent(status)), false;
      return true;
    }
    if (reply.register_again()) return false;
    as_of_ = reply.time();
    if (request.engine_up()) {
      Say(fmt::format("registered at the manager {}", manager_.address()), true);
    } else {
      Say(fmt::format("{} is down", EngineTrouble()), false);
    }
    return true;
  }

  const AgentOptions options_;
  EngineClient engine_;
  EngineWatch engine_watch_;                  // of the loop's thread
  std::unique_ptr<EngineQuestion> question_;  // the same: while it is open
  TableService service_;
  NotAManager not_a_manager_;
  InTurn<proto::Manager> manager_;
  std::optional<Acceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::optional<SelfCheck> check_;
  std::string address_;

  // Of the loop's thread.
  const uint64_t instance_ = RandomInstance();
  uint64_t epoch_ = 0;
  uint64_t as_of_ = 0;        // the time in the manager's last reply
  uint64_t asked_as_of_ = 0;  // and when the question was asked that is open, or was last
  milliseconds heartbeat_{kRetry};
  milliseconds pause_{0};
  std::string follows_;                // the cluster of the manager that this agent was registered with last
  std::optional<proto::Fence> heard_;  // of that manager
  bool told_of_ = false;               // it has answered the last call
  EngineVerdict verdict_;
  std::chrono::steady_clock::time_point asked_{};  // when the last call had ended
  Nanos own_wait_ = 0;                             // until then
  std::string said_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;                     // these, too, are guarded by mutex_
  bool told_ = false;                     // the engine has, since the loop looked last
  grpc::ClientContext* watch_ = nullptr;  // of the watcher's call
  std::thread thread_;
  std::thread watcher_;
};

StatusOr<std::unique_ptr<Agent>> Agent::Start(const AgentOptions& options) {
  const auto invalid = [](const std::string& message) {
    return MakeStatus(StatusCode::kInvalidArgument, message);
  };
  if (options.name.empty()) return invalid("name: missing");
  AgentOptions checked = options;
  const auto manager = ManagerAddress(options.manager);
  if (!manager.ok()) return invalid("manager (--manager, EPIC_MANAGER): " + std::string(manager.status().message()));
  // A name that is not known yet may be in a moment: its owner may start later.
  if (const Status host = FindHosts(*manager, kFindHostTimeout); !host.ok())
    spdlog::warn("manager (--manager, EPIC_MANAGER): {}; trying again", std::string(host.message()));
  checked.manager = *manager;
  const auto listen = ListenAddress(options.listen);
  if (!listen.ok()) return invalid("listen (--listen): " + std::string(listen.status().message()));
  std::optional<Address> advertise;
  if (!options.advertise.empty()) {
    const auto read = CallableAddress(options.advertise);
    if (!read.ok()) return invalid("advertise (--advertise): " + std::string(read.status().message()));
    advertise = *read;
  } else if (listen->IsAny()) {
    return invalid(fmt::format("advertise (--advertise): the manager cannot call back on {}; say under which HOST:PORT it can",
                               listen->ToString()));
  }
  auto impl = std::make_unique<Impl>(checked);
  if (const Status status = impl->Serve(*listen, advertise); !status.ok()) return status;
  return std::unique_ptr<Agent>(new Agent(std::move(impl)));
}

Agent::Agent(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Agent::~Agent() = default;

std::string Agent::address() const { return impl_->address(); }

}  // namespace epic::agent
