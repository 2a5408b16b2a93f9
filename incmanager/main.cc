// incmanager: the manager and its command line in one program.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/address.h"
#include "base/command_line.h"
#include "base/path_mtu.h"
#include "base/psn.h"
#include "incmanager/cli/client.h"
#include "incmanager/cli/placement_options.h"
#include "incmanager/cli/serve.h"
#include "incmanager/cli/store.h"
#include "protocol/bounds.h"
#include "protocol/modes.h"

namespace epic::manager {
namespace {

// What is wrong with a word that must say something, or nothing.
std::string NotEmpty(std::string& text) { return text.empty() ? "it is empty" : ""; }

// "none" as a number of bytes or groups, or of Gbit/s.
std::string NoneToNoLimit(std::string& text) {
  if (text == "none") text = std::to_string(kNoLimit);
  return "";
}
std::string NoneToInfinity(std::string& text) {
  if (text == "none") text = "inf";
  return "";
}

// What is wrong with the text, or nothing; then it has a port.
std::string ToManagerAddress(std::string& text) {
  auto address = ManagerAddress(text);
  if (!address.ok()) return std::string(address.status().message());
  text = *std::move(address);
  return "";
}

class Commands {
 public:
  Commands()
      : line_(
            "The manager of EPIC groups, and its commands.\n"
            "Exit codes: 0 ok, 1 refused by the manager or output that cannot be written, 2 usage or a bad "
            "topology file, 3 no manager answers, or none of several leads: it has 5 s to connect, one of "
            "several 2 s, "
            "and 15 s to answer.",
            "incmanager") {
    line_.Version(EPIC_VERSION);
    line_.RequireCommand();
    // Not Env: all commands share the variable, and an unused command's would win over --manager.
    if (const char* manager = std::getenv("EPIC_MANAGER"); manager != nullptr && *manager != '\0')
      client_.manager = manager;
    AddServe();
    AddShows();
    AddGroup();
    AddExplain();
    AddPolicies();
    AddTenants();
    AddStore();
  }

  int Run(int argc, char** argv) {
    if (const auto exit_code = line_.Parse(argc, argv, kExitUsage)) return *exit_code;
    try {
      return action_();
    } catch (const std::system_error& error) {  // output that cannot be written (cli/client.cc)
      fmt::print(stderr, "incmanager: {}\n", error.what());
      return kExitRefused;
    }
  }

 private:
  void AddServe() {
    const Command serve = line_.AddCommand("serve", "run the manager until SIGTERM or SIGINT",
                                           [this] { action_ = [this] { return RunManager(); }; });
    serve
        .Add("--topology", &serve_.topology,
             "YAML file that describes switches, hosts and links; without it they are discovered")
        .Changed(NotEmpty);
    serve
        .Add("--link-rate", &serve_.links.rate_gbps,
             "of discovered links whose interfaces state none, in Gbit/s")
        .From(0.001, 10'000.0, "Gbit/s")
        .ShowDefault();
    serve.Add("--link-delay", &serve_.links.delay_us, "of discovered links, one way, in microseconds")
        .From(0.0, 1e6, "microseconds")
        .ShowDefault();
    serve.Add("--listen", &serve_.listen, "HOST:PORT for agents, hosts and commands (port 0: any)").ShowDefault();
    serve.Add("--max-reserved", &serve_.groups.max_reserved, "groups that are reserved at once, at most")
        .From(1u, 10'000'000u, "groups")
        .ShowDefault();
    serve.Add("--max-tenants", &serve_.groups.max_tenants, "tenants, at most").From(1u, 1'000'000u, "tenants").ShowDefault();
    serve.Add("--max-waiting", &serve_.groups.max_waiting, "ranks of one address that wait for others, at most")
        .From(1u, 1'000'000u, "ranks")
        .ShowDefault();
    serve.Add("--max-refusals", &serve_.groups.refusals_a_second, "refused joins of one peer that a second tells")
        .From(1u, 1'000'000u, "refusals")
        .ShowDefault();
    serve.Add("--join-timeout", &join_timeout_s_, "how long ranks wait for each other")
        .Units({{"s", 1}, {"ms", 1e-3}, {"m", 60}})
        .From(0.001, 86400.0, "seconds; 500ms is 0.5, 2m is 120")
        .ShowDefault();
    serve.Add("--path-mtu", &serve_.groups.max_path_mtu, "upper bound of every group's path MTU, in bytes")
        .OneOf(kPathMtus)
        .ShowDefault();
    serve
        .Add("--window-packets", &serve_.groups.window_packets,
             "upper bound of M*W, in packets; NICs may have a lower one")
        .From(1u, kMaxWindowPackets, "packets")
        .ShowDefault();
    serve
        .Add("--inline-bytes", &serve_.groups.inline_bytes,
             "of groups that ask for none: calls with at most so many bytes of data, all ranks' shares "
             "together, are one message; 0: none")
        .From(0u, kMaxInlineBytes, "bytes; 0: none")
        .ShowDefault();
    serve.Add("--prompt-ms", &prompt_ms_, "how long a switch waits before it prompts a silent child")
        .From(1u, 60'000u, "milliseconds")
        .ShowDefault();
    serve
        .Add("--multicast", &multicast_,
             "range of IPv4 addresses for the multicast groups of ranks that ask for one; none: no group has "
             "multicast")
        .Changed([this](std::string& text) { return ReadMulticast(text); })
        .ShowDefault();
    serve
        .Add("--store", &serve_.store,
             "folder of what outlives the manager, as DEPLOY.md says; memory: nothing does; "
             "etcd:http://HOST:2379,http://HOST:2379,...: of several managers with this etcd one leads")
        .Changed(NotEmpty)
        .ShowDefault(std::string(kDefaultStore) + " if it is there, else memory");
    serve.Add("--start-psn", &serve_.groups.start_psn, "for tests: first PSN of every endpoint; else random")
        .From(0u, Psn::kMask, "a PSN has 24 bits");
    serve.Add("--log-level", &serve_.log_level, "trace, debug, info, warn or error")
        .OneOf({"trace", "debug", "info", "warn", "error"})
        .ShowDefault();
  }

  // What is wrong with the text, or nothing.
  std::string ReadMulticast(const std::string& text) {
    const auto range = ParseMulticastRange(text);
    if (!range.ok()) return std::string(range.status().message());
    serve_.groups.multicast = *range;
    return {};
  }

  int RunManager() {
    serve_.groups.join_timeout = static_cast<Nanos>(join_timeout_s_ * static_cast<double>(kSecond));
    serve_.groups.prompt_ns = uint64_t{prompt_ms_} * kMillisecond;
    return Serve(serve_);
  }

  // What EPIC_MANAGER says, where --manager does not.
  int AskManager(const std::function<int()>& action) {
    if (const std::string wrong = ToManagerAddress(client_.manager); !wrong.empty()) {
      fmt::print(stderr, "incmanager: EPIC_MANAGER: {}\n", wrong);
      return kExitUsage;
    }
    return action();
  }

  // A command that asks the manager.
  Command AddClient(const Command& parent, const char* name, const char* help, std::function<int()> action) {
    const Command command = parent.AddCommand(name, help, [this, action = std::move(action)] {
      action_ = [this, action] { return AskManager(action); };
    });
    command
        .Add("--manager", &client_.manager,
             "HOST:PORT of the manager (without a port: 7400), or of several, of which one leads, with "
             "commas between; default: "
             "EPIC_MANAGER, else this")
        .Changed(ToManagerAddress)
        .ShowDefault("127.0.0.1:7400");
    command.AddFlag("--json", &client_.json, "print JSON");
    return command;
  }

  void AddShows() {
    AddClient(line_, "topology",
              "the network: the file that the manager serves, or with discovery what is known now",
              [this] { return ShowTopology(client_); });
    AddClient(line_, "switches", "switches and their agents", [this] { return ListSwitches(client_); });
    AddClient(line_, "hosts", "hosts with a daemon (inchost), their RoCE ports and their ranks' sessions",
              [this] { return ListHosts(client_); });
    AddClient(line_, "tables", "forwarding, groups, endpoints and counters of a switch",
              [this] { return ShowTables(client_, name_); })
        .Add("switch", &name_, "name of the switch")
        .Changed(NotEmpty)
        .Required();
    AddClient(line_, "adopt",
              "makes a switch this manager's that has contexts of another one; that one's groups there end",
              [this] { return Adopt(client_, name_); })
        .Add("switch", &name_, "name of the switch")
        .Changed(NotEmpty)
        .Required();
    AddClient(line_, "why", "whom a group waits for, or how it ended", [this] { return Why(client_, name_); })
        .Add("name", &name_, "name of the group")
        .Changed(NotEmpty)
        .Required();
    const Command events = AddClient(
        line_, "events",
        "what has happened: joins, placements, refusals with their reasons, losses; "
        "the manager keeps the last 10,000, with a store those before its start, and how the last 10,000 groups ended",
        [this] { return ShowEvents(client_, events_); });
    events.Add("--last", &events_.last, "the newest so many of them; 0: all that are kept").ShowDefault();
    const Option of_group = events.Add("--group", &events_.group, "of this group alone").Changed(NotEmpty);
    events.Add("--switch", &events_.switch_name, "of this switch alone").Changed(NotEmpty).Excludes(of_group);
    events.AddFlag("--follow", &events_.follow, "go on with what happens, until Ctrl-C")
        .Excludes(events.Get("--json"));
  }

  void AddGroup() {
    const Command group = line_.AddCommand("group", "list, show, create and destroy groups");
    group.RequireCommand();
    AddClient(group, "list", "all groups", [this] { return ListGroups(client_); });
    AddClient(group, "show", "a group's parameters and tree, or how it ended",
              [this] { return ShowGroup(client_, name_); })
        .Add("name", &name_, "name of the group")
        .Changed(NotEmpty)
        .Required();
    const Command destroy = AddClient(group, "destroy", "end a group and remove it from all switches",
                                      [this] { return DestroyGroup(client_, name_, force_); });
    destroy.Add("name", &name_, "name of the group").Changed(NotEmpty).Required();
    destroy.AddFlag("--force", &force_, "also when ranks are in it; they end with an error");
    const Command create = AddClient(group, "create", "reserve a group that ranks join later",
                                     [this] { return CreateGroup(client_, create_); });
    create.Add("name", &create_.name, "name of the group").Changed(NotEmpty).Required();
    create.Add("--size", &create_.size, "number of ranks").Required();
    create.Add("--host", &create_.hosts,
               "host of each rank, by name or address, in order; else learned when they join");
    AddPlacementOptions(create, &create_);
    create.AddFlag("--reproducible", &create_.reproducible,
                   "sums in the order of children, the same bits each time; takes more switch memory");
    create.Add(
        "--priority-limit", &create_.priority_limit,
        "of mode pooled: the most that the priority of a call counts, from 2^-16 to 65535; else there is "
        "no limit");
    create
        .Add("--inline-bytes", &create_.inline_bytes,
             "calls with at most so many bytes of data, all ranks' shares together, are one message; "
             "0: none; else the manager's choice")
        .From(0u, kMaxInlineBytes, "bytes; 0: none");
    create.Add("--start-psn", &create_.start_psn, "for tests: first PSN of every endpoint; else random")
        .From(0u, Psn::kMask, "a PSN has 24 bits");
  }

  void AddExplain() {
    const Command explain = AddClient(
        line_, "explain",
        "what a group of these hosts would get if its ranks joined now: each switch as the root of its tree, "
        "why it is that one, and by which path it would go. Nothing is changed. Exit code 1 also if the "
        "group "
        "would fail",
        [this] { return Explain(client_, create_); });
    explain
        .Add("--hosts", &create_.hosts,
             "host of each rank, in order, as h0,h1,h2; one that has several ranks so many times")
        .Delimiter(',')
        .Required();
    AddPlacementOptions(explain, &create_);
  }

  void AddPolicies() {
    const Command policy = line_.AddCommand("policy", "which policy places groups that ask for none");
    policy.RequireCommand();
    AddClient(policy, "show", "the default policy", [this] { return DefaultPolicy(client_, ""); });
    AddClient(policy, "set", "another one, of groups made from now on",
              [this] { return DefaultPolicy(client_, create_.policy); })
        .Add("policy", &create_.policy, "shortest, edt, spatial or temporal")
        .Changed(NotEmpty)
        .Required();
  }

  void AddTenants() {
    const Command tenant = line_.AddCommand("tenant", "what all groups of a tenant may have together");
    tenant.RequireCommand();
    AddClient(tenant, "show", "all tenants, and what they have", [this] { return ListTenants(client_); });
    AddClient(tenant, "remove", "a tenant without groups", [this] { return RemoveTenant(client_, name_); })
        .Add("name", &name_, "name of the tenant")
        .Changed(NotEmpty)
        .Required();
    const Command set = AddClient(
        tenant, "set", "make a tenant, or change it: what is not named stays, and of a new one is no limit",
        [this] { return SetTenant(client_, tenant_); });
    set.Add("name", &tenant_.name, "name of the tenant").Changed(NotEmpty).Required();
    set.Add("--limit-bytes", &tenant_.limit_bytes, "of each switch's memory, as 4M; none: no limit, as of the next two")
        .Bytes()
        .Changed(NoneToNoLimit);
    set.Add("--limit-groups", &tenant_.limit_groups, "groups that go through switches").Changed(NoneToNoLimit);
    set.Add("--limit-gbps", &tenant_.limit_gbps, "that its groups reserve (--rate), together")
        .Changed(NoneToInfinity);
    set.Add("--guarantee-bytes", &tenant_.guarantee_bytes,
            "of each switch's memory: so much no other group gets; 0: nothing is kept")
        .Bytes();
  }

  void AddStore() {
    const Command store = line_.AddCommand("store",
                                           "a manager's store, while no manager holds it: is it whole, what "
                                           "is in it, copies of it; etcd's at any time, but for copies");
    store.RequireCommand();
    const auto add = [&](const char* name, const char* help, std::function<int()> action) {
      const Command command =
          store.AddCommand(name, help, [this, action = std::move(action)] { action_ = action; });
      command.Add("--store", &store_, "its folder, or etcd:http://HOST:2379,...")
          .Changed(NotEmpty)
          .ShowDefault();
      return command;
    };
    add("check", "whether it can be read whole, and how much is in it", [this] { return CheckStore(store_); });
    add("dump", "each row as a line of JSON", [this] { return DumpStore(store_); });
    add("backup", "a copy in one file", [this] { return BackUpStoreTo(store_, name_); })
        .Add("file", &name_, "that is made; it must not be there yet")
        .Changed(NotEmpty)
        .Required();
    add("restore", "makes a backup the folder's store; what was there stays beside it",
        [this] { return RestoreStoreFrom(store_, name_); })
        .Add("file", &name_, "a backup")
        .Changed(NotEmpty)
        .Required();
  }

  CommandLine line_;
  std::function<int()> action_;
  ServeOptions serve_;
  double join_timeout_s_ = 120;
  uint32_t prompt_ms_ = 20;
  std::string multicast_ = MulticastRange{}.ToString();
  ClientOptions client_;
  std::string name_;
  std::string store_ = kDefaultStore;
  bool force_ = false;
  CreateOptions create_;
  TenantOptions tenant_;
  EventsOptions events_;
};

}  // namespace
}  // namespace epic::manager

int main(int argc, char** argv) {
  // gRPC's own messages would bury ours, which say the same; the user's setting wins.
  setenv("GRPC_VERBOSITY", "NONE", 0);
  return epic::manager::Commands().Run(argc, argv);
}
