#include "incmanager/cli/serve.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "base/descriptors.h"
#include "base/end_signals.h"
#include "base/path_mtu.h"
#include "incmanager/cli/client.h"
#include "incmanager/cli/lead.h"
#include "incmanager/cli/store.h"
#include "incmanager/rpc/server.h"
#include "incmanager/store/etcd_client.h"
#include "incmanager/store/sqlite_store.h"
#include "incmanager/text.h"
#include "incmanager/topology.h"

namespace epic::manager {
namespace {

int Complain(const Status& status, int code) {
  fmt::print(stderr, "incmanager: {}\n", std::string(status.message().data(), status.message().size()));
  return code;
}

// At the start.
int RefuseStart(const Status& status) {
  return Complain(status, status.code() == StatusCode::kInvalidArgument ? kExitUsage : kExitRefused);
}

// Null if nothing is to be kept.
StatusOr<std::unique_ptr<Store>> StoreOf(const ServeOptions& options) {
  const bool is_default = options.store.empty() && std::filesystem::is_directory(kDefaultStore);
  if (options.store == "memory" || (options.store.empty() && !is_default)) return std::unique_ptr<Store>();
  StatusOr<std::unique_ptr<Store>> store = OpenStore(is_default ? kDefaultStore : options.store, true);
  if (store.ok() || !is_default) return store;
  return MakeStatus(store.status().code(), std::string(store.status().message()) +
                                               " (--store is not said, and this is its default; with --store memory "
                                               "nothing is kept)");
}

StatusOr<Leading> AloneWith(StatusOr<std::unique_ptr<Store>> store) {
  if (!store.ok()) return store.status();
  return Leading{nullptr, *std::move(store)};
}

// Orderly ends need threads that may be the ones that do not answer.
void EndSelf(const std::string& why) {
  spdlog::critical("manager ends: {}", why);
  spdlog::default_logger()->flush();
  std::_Exit(kExitRefused);
}

}  // namespace

int Serve(const ServeOptions& options) {
  StatusOr<Topology> topology = Topology{.name = "discovered", .path_mtu = kMaxPathMtu, .discovery = true};
  if (!options.topology.empty()) topology = LoadTopology(options.topology);
  if (!topology.ok()) return Complain(topology.status(), kExitUsage);
  spdlog::set_default_logger(spdlog::stderr_logger_mt("incmanager"));
  spdlog::set_level(spdlog::level::from_str(options.log_level));

  const EndSignals ends;
  RaiseDescriptorLimit();

  const bool is_one_of_several = options.store.starts_with(kEtcd);
  StatusOr<Leading> leading = is_one_of_several ? AwaitLead(options.store, options.listen, ends, &EndSelf)
                                                : AloneWith(StoreOf(options));
  if (!leading.ok()) return RefuseStart(leading.status());
  if (is_one_of_several && leading->store == nullptr) return kExitOk;
  const auto start = [&] {
    return ManagerServer::Start(*topology, options.groups, options.listen, options.links,
                                std::move(leading->store), &EndSelf);
  };
  auto started =
      is_one_of_several ? StartUnlessEnded(ends, leading->lead.get(), start) : std::optional(start());
  if (!started) return kExitOk;
  const auto server = *std::move(started);
  if (!server.ok()) return RefuseStart(server.status());
  spdlog::info("manager of {} ({}, {}{}) on {}, port {}", topology->name,
               Counted(topology->switches.size(), "switch", "switches"),
               Counted(topology->nodes.size() - topology->switches.size(), "host", "hosts"),
               topology->discovery ? ", and what is found" : "", options.listen, (*server)->port());
  const int signal =
      is_one_of_several ? AwaitEndOfLead(ends, [&server] { return (*server)->agents_heard(); }) : ends.Wait();
  if (signal == 0) {
    spdlog::critical("manager gives way: no agent has been heard for 6 s, and another manager may hear them");
    (*server)->GiveWay();
    ends.WaitFor(kGivesWayFor);
    EndSelf("it has given way");
  }
  spdlog::info("manager ends on signal {}", signal);
  if (!(*server)->End())
    EndSelf("its store hangs; of what it could not write only events were told to anybody");
  return kExitOk;
}

}  // namespace epic::manager
