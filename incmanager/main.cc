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
#include "incmanager/cli/client.h"
#include "incmanager/cli/serve.h"
#include "incmanager/cli/store.h"
#include "protocol/modes.h"
#include "protocol/quantise_word.h"

namespace epic::manager {
namespace {

constexpr uint32_t kMaxPsn = 0xffffff;
constexpr uint32_t kMaxWindowPackets = 4096;

// The command line reads -1 as the largest number of 64 bits.
std::string NotNegative(std::string& text) { return text.starts_with('-') ? text + " is less than 0" : ""; }

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
            "topology file, 3 no manager answers: it has 5 s to connect and 15 s to answer.",
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
    serve.Add("--topology", &serve_.topology,
              "YAML file that describes switches, hosts and links; without it they are discovered");
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
    serve.Add("--store", &serve_.store, "folder of what outlives the manager, as DEPLOY.md says; memory: nothing does")
        .ShowDefault(std::string(kDefaultStore) + " if it is there, else memory");
    serve.Add("--start-psn", &serve_.groups.start_psn, "for tests: first PSN of every endpoint; else random")
        .From(0u, kMaxPsn, "a PSN has 24 bits");
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
             "HOST:PORT of the manager (without a port: 7400); default: EPIC_MANAGER, else this")
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
        .Required();
    AddClient(line_, "why", "whom a group waits for, or how it ended", [this] { return Why(client_, name_); })
        .Add("name", &name_, "name of the group")
        .Required();
    const Command events = AddClient(
        line_, "events",
        "what has happened: joins, placements, refusals with their reasons, losses; "
        "the manager keeps the last 10,000 since it was started, and how the last 10,000 groups ended",
        [this] { return ShowEvents(client_, events_); });
    events.Add("--last", &events_.last, "the newest so many of them; 0: all that are kept").ShowDefault();
    const Option of_group = events.Add("--group", &events_.group, "of this group alone");
    events.Add("--switch", &events_.switch_name, "of this switch alone").Excludes(of_group);
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
        .Required();
    const Command destroy = AddClient(group, "destroy", "end a group and remove it from all switches",
                                      [this] { return DestroyGroup(client_, name_, force_); });
    destroy.Add("name", &name_, "name of the group").Required();
    destroy.AddFlag("--force", &force_, "also when ranks are in it; they end with an error");
    const Command create = AddClient(group, "create", "reserve a group that ranks join later",
                                     [this] { return CreateGroup(client_, create_); });
    create.Add("name", &create_.name, "name of the group").Required();
    create.Add("--size", &create_.size, "number of ranks").Required();
    create.Add("--host", &create_.hosts,
               "host of each rank, by name or address, in order; else learned when they join");
    AddPlacement(create);
    create.AddFlag("--reproducible", &create_.reproducible,
                   "sums in the order of children, the same bits each time; takes more switch memory");
    create
        .Add("--inline-bytes", &create_.inline_bytes,
             "calls with at most so many bytes of data, all ranks' shares together, are one message; "
             "0: none; else the manager's choice")
        .From(0u, kMaxInlineBytes, "bytes; 0: none");
    create.Add("--start-psn", &create_.start_psn, "for tests: first PSN of every endpoint; else random")
        .From(0u, kMaxPsn, "a PSN has 24 bits");
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
    AddPlacement(explain);
  }

  void AddPolicies() {
    const Command policy = line_.AddCommand("policy", "which policy places groups that ask for none");
    policy.RequireCommand();
    AddClient(policy, "show", "the default policy", [this] { return DefaultPolicy(client_, ""); });
    AddClient(policy, "set", "another one, of groups made from now on",
              [this] { return DefaultPolicy(client_, create_.policy); })
        .Add("policy", &create_.policy, "shortest, edt, spatial or temporal")
        .Required();
  }

  void AddTenants() {
    const Command tenant = line_.AddCommand("tenant", "what all groups of a tenant may have together");
    tenant.RequireCommand();
    AddClient(tenant, "show", "all tenants, and what they have", [this] { return ListTenants(client_); });
    AddClient(tenant, "remove", "a tenant without groups", [this] { return RemoveTenant(client_, name_); })
        .Add("name", &name_, "name of the tenant")
        .Required();
    const Command set = AddClient(tenant, "set", "make a tenant, or change it: what is not given is no limit",
                                  [this] { return SetTenant(client_, tenant_); });
    set.Add("name", &tenant_.name, "name of the tenant").Required();
    set.Add("--limit-bytes", &tenant_.limit_bytes, "of each switch's memory, as 4M")
        .Bytes()
        .Changed(NotNegative);
    set.Add("--limit-groups", &tenant_.limit_groups, "groups that go through switches").Changed(NotNegative);
    set.Add("--limit-gbps", &tenant_.limit_gbps, "that its groups reserve (--rate), together");
    set.Add("--guarantee-bytes", &tenant_.guarantee_bytes,
            "of each switch's memory: so much no other group gets")
        .Bytes()
        .Changed(NotNegative);
  }

  void AddStore() {
    const Command store = line_.AddCommand(
        "store", "a manager's store, while no manager holds it: is it whole, what is in it, copies of it");
    store.RequireCommand();
    const auto add = [&](const char* name, const char* help, std::function<int()> action) {
      const Command command =
          store.AddCommand(name, help, [this, action = std::move(action)] { action_ = action; });
      command.Add("--store", &store_, "its folder").ShowDefault();
      return command;
    };
    add("check", "whether it can be read whole, and how much is in it", [this] { return CheckStore(store_); });
    add("dump", "each row as a line of JSON", [this] { return DumpStore(store_); });
    add("backup", "a copy in one file", [this] { return BackUpStoreTo(store_, name_); })
        .Add("file", &name_, "that is made; it must not be there yet")
        .Required();
    add("restore", "makes a backup the folder's store; what was there stays beside it",
        [this] { return RestoreStoreFrom(store_, name_); })
        .Add("file", &name_, "a backup")
        .Required();
  }

  // Options that decide where a group is placed, and by which path it goes.
  void AddPlacement(const Command& command) {
    command.Add("--mode", &create_.mode, "how switches realise it, by any of its names: " + ModeChoice())
        .Changed(ModeToNumber)
        .ShowDefault();
    command
        .AddTaken(
            "--switch-mode", [this](const std::vector<std::string>& texts) { return AddSwitchModes(texts); },
            "SWITCH=MODE: another mode for one switch; repeated. Not all modes may share a tree")
        .OneValueEach();
    command
        .Add("--path", &create_.path,
             "which way its data go: through switches (network), between the hosts (hosts), or through "
             "switches if they can and else between the hosts (auto)")
        .OneOf({"auto", "network", "hosts"})
        .ShowDefault();
    command.Add(
        "--policy", &create_.policy,
        "which tree: shortest (the least deep), edt (no link in two trees), spatial (the widest "
        "in rate and memory) or temporal (the same, and groups share memory, of which one at a time has it); "
        "else the manager's default");
    command.Add(
        "--prefer", &create_.prefer,
        "of policies spatial and temporal: the least deep tree (latency), the widest (bandwidth), or the "
        "first with the rate, without one the widest (auto)");
    command.Add("--rate", &create_.rate_gbps,
                "of policies spatial and temporal: Gbit/s that are reserved on each link of the tree");
    command.Add("--duty", &create_.duty,
                "of policy temporal: of the time that it has its memory in switches, as 0.3; of those "
                "that share memory it is 1 together at most. Else 1");
    command.Add("--job", &create_.job, "of policy temporal: whose phases are declared by --phase");
    command.Add(
        "--phase", &create_.phase,
        "of policy temporal: groups of one job in different phases never call at the same time, so that of "
        "their duties only those of the fullest phase count");
    command.Add("--tenant", &create_.tenant, "whose it is: what that tenant may have is not exceeded");
    command.Add("--path-mtu", &create_.path_mtu, "bytes; else the largest that the path carries");
    command.Add("-M,--message-packets", &create_.message_packets,
                "packets per message; else the manager's choice");
    command.Add("-W,--window-messages", &create_.window_messages,
                "messages in flight, always; else where ranks begin is the manager's choice, and they "
                "go on by what they measure");
    command
        .Add("--max-bytes", &create_.max_bytes,
             "of the longest call that it is for, all ranks' shares together, as 4096 or 64K: its "
             "switches keep no more slots than that fills; longer ones work, and take longer")
        .Bytes()
        .Changed(NotNegative);
    command
        .Add("--types", &create_.types,
             "that the group needs, as float64,int32: it goes through switches that have them, else by the "
             "hosts; with --path network it is refused with the reason. Without float16 and bfloat16 among "
             "them its slots take less memory")
        .Delimiter(',');
    command
        .AddTaken(
            "--quantise",
            [this](const std::vector<std::string>& values) {
              return ReadQuantise(values.back(), &create_.quantise, &create_.quantise_int8);
            },
            "int8: sums of FP32, FP16 and BF16 travel as blocks of INT8 with a scale each, which is a fourth of "
            "FP32's bytes, and are rounded. A number: FP32 is summed as whole numbers, over switches that have "
            "integers alone: each element times this, as INT32 that stays at its limits, and divided again")
        .OneValueEach();
    command.Add("--operations", &create_.operations, "the same of operations, as product,bxor")
        .Delimiter(',');
  }

  // What is wrong with them, or nothing.
  std::string AddSwitchModes(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      const size_t equals = text.rfind('=');
      const auto mode =
          ModeNamed(equals == std::string::npos ? "" : std::string_view(text).substr(equals + 1));
      if (equals == 0 || !mode) {
        return text + " is not SWITCH=MODE, as leaf1=3, with one of the modes " + ModeChoice();
      }
      const int number = NumberOf(*mode);
      const auto [at, added] = create_.switch_modes.emplace(text.substr(0, equals), number);
      if (!added && at->second != number) return at->first + " is given two modes";
    }
    return {};
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
