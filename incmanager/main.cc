// incmanager: the manager and its command line in one program.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/option_range.h"
#include "incmanager/cli/client.h"
#include "incmanager/cli/serve.h"
#include "protocol/modes.h"
#include "protocol/types.h"

namespace epic::manager {
namespace {

constexpr uint32_t kMaxPsn = 0xffffff;
constexpr uint32_t kMaxWindowPackets = 4096;

// CLI11 reads -1 as the largest number of 64 bits.
std::string NotNegative(std::string& text) { return text.starts_with('-') ? text + " is less than 0" : ""; }

class CommandLine {
 public:
  CommandLine()
      : app_(
            "The manager of EPIC groups, and its commands.\n"
            "Exit codes: 0 ok, 1 refused by the manager, 2 usage or a bad topology file, 3 no manager "
            "answers.",
            "incmanager") {
    app_.set_version_flag("--version", EPIC_VERSION);
    app_.require_subcommand(1);
    // Not CLI11's envname: all commands share the variable, and an unused command's would win over --manager.
    if (const char* manager = std::getenv("EPIC_MANAGER"); manager != nullptr && *manager != '\0')
      client_.manager = manager;
    AddServe();
    AddShows();
    AddGroup();
    AddExplain();
    AddPolicies();
    AddTenants();
  }

  int Run(int argc, char** argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return app_.exit(error) == 0 ? kExitOk : kExitUsage;
    }
    return action_();
  }

 private:
  void AddServe() {
    CLI::App* serve = app_.add_subcommand("serve", "run the manager until SIGTERM or SIGINT");
    serve->add_option("--topology", serve_.topology,
                      "YAML file that describes switches, hosts and links; without it they are discovered");
    serve
        ->add_option("--link-rate", serve_.links.rate_gbps,
                     "of discovered links whose interfaces state none, in Gbit/s")
        ->check(InRange(0.001, 10'000.0, "Gbit/s"))
        ->capture_default_str();
    serve->add_option("--link-delay", serve_.links.delay_us, "of discovered links, one way, in microseconds")
        ->check(InRange(0.0, 1e6, "microseconds"))
        ->capture_default_str();
    serve->add_option("--listen", serve_.listen, "IP:PORT for agents, hosts and commands")
        ->capture_default_str();
    serve->add_option("--join-timeout", join_timeout_s_, "how long ranks wait for each other")
        ->transform(CLI::AsNumberWithUnit(std::map<std::string, double>{{"s", 1}, {"ms", 1e-3}, {"m", 60}}))
        ->check(InRange(0.001, 86400.0, "seconds; 500ms is 0.5, 2m is 120"))
        ->capture_default_str();
    serve
        ->add_option("--path-mtu", serve_.groups.max_path_mtu,
                     "upper bound of every group's path MTU, in bytes")
        ->check(CLI::IsMember({256, 512, 1024, 2048, 4096}))
        ->capture_default_str();
    serve
        ->add_option("--window-packets", serve_.groups.window_packets,
                     "upper bound of M*W, in packets; NICs may have a lower one")
        ->check(InRange(1u, kMaxWindowPackets, "packets"))
        ->capture_default_str();
    serve
        ->add_option(
            "--inline-bytes", serve_.groups.inline_bytes,
            "of groups that ask for none: calls with at most so many bytes of data, all ranks' shares "
            "together, are one message; 0: none")
        ->check(InRange(0u, kMostInlineBytes, "bytes; 0: none"))
        ->capture_default_str();
    serve->add_option("--prompt-ms", prompt_ms_, "how long a switch waits before it prompts a silent child")
        ->check(InRange(1u, 60'000u, "milliseconds"))
        ->capture_default_str();
    serve
        ->add_option("--start-psn", serve_.groups.start_psn,
                     "for tests: first PSN of every endpoint; else random")
        ->check(InRange(0u, kMaxPsn, "a PSN has 24 bits"));
    serve->add_option("--log-level", serve_.log_level, "trace, debug, info, warn or error")
        ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error"}))
        ->capture_default_str();
    serve->callback([this] {
      action_ = [this] {
        serve_.groups.join_timeout = static_cast<Nanos>(join_timeout_s_ * static_cast<double>(kSecond));
        serve_.groups.prompt_ns = uint64_t{prompt_ms_} * kMillisecond;
        return Serve(serve_);
      };
    });
  }

  // A command that asks the manager.
  CLI::App* AddClient(CLI::App* parent, const char* name, const char* help, std::function<int()> action) {
    CLI::App* command = parent->add_subcommand(name, help);
    command
        ->add_option("--manager", client_.manager, "IP:PORT of the manager; default: EPIC_MANAGER, else this")
        ->default_str("127.0.0.1:7400");
    command->add_flag("--json", client_.json, "print JSON");
    command->callback([this, action = std::move(action)] { action_ = action; });
    return command;
  }

  void AddShows() {
    AddClient(&app_, "topology",
              "the network: the file that the manager serves, or with discovery what is known now",
              [this] { return ShowTopology(client_); });
    AddClient(&app_, "switches", "switches and their agents", [this] { return ListSwitches(client_); });
    AddClient(&app_, "hosts", "hosts with a daemon (inchost), their RoCE ports and their ranks' sessions",
              [this] { return ListHosts(client_); });
    AddClient(&app_, "tables", "forwarding, groups, endpoints and counters of a switch",
              [this] { return ShowTables(client_, name_); })
        ->add_option("switch", name_, "name of the switch")
        ->required();
    CLI::App* events = AddClient(&app_, "events",
                                 "what has happened: joins, placements, refusals with their reasons, losses; "
                                 "the manager keeps the last 10,000 since it was started",
                                 [this] { return ShowEvents(client_, events_); });
    events->add_option("--last", events_.last, "the newest so many of them; 0: all that are kept")
        ->capture_default_str();
    CLI::Option* of_group = events->add_option("--group", events_.group, "of this group alone");
    events->add_option("--switch", events_.switch_name, "of this switch alone")->excludes(of_group);
    events->add_flag("--follow", events_.follow, "go on with what happens, until Ctrl-C")
        ->excludes(events->get_option("--json"));
  }

  void AddGroup() {
    CLI::App* group = app_.add_subcommand("group", "list, show, create and destroy groups");
    group->require_subcommand(1);
    AddClient(group, "list", "all groups", [this] { return ListGroups(client_); });
    AddClient(group, "show", "a group's parameters and tree", [this] { return ShowGroup(client_, name_); })
        ->add_option("name", name_, "name of the group")
        ->required();
    CLI::App* destroy = AddClient(group, "destroy", "end a group and remove it from all switches",
                                  [this] { return DestroyGroup(client_, name_, force_); });
    destroy->add_option("name", name_, "name of the group")->required();
    destroy->add_flag("--force", force_, "also when ranks are in it; they end with an error");
    CLI::App* create = AddClient(group, "create", "reserve a group that ranks join later",
                                 [this] { return CreateGroup(client_, create_); });
    create->add_option("name", create_.name, "name of the group")->required();
    create->add_option("--size", create_.size, "number of ranks")->required();
    create->add_option("--host", create_.hosts,
                       "host of each rank, by name or address, in order; else learned when they join");
    AddPlacement(create);
    create->add_flag("--reproducible", create_.reproducible,
                     "sums in the order of children, the same bits each time; takes more switch memory");
    create
        ->add_option("--inline-bytes", create_.inline_bytes,
                     "calls with at most so many bytes of data, all ranks' shares together, are one message; "
                     "0: none; else the manager's choice")
        ->check(InRange(0u, kMostInlineBytes, "bytes; 0: none"));
    create
        ->add_option("--start-psn", create_.start_psn, "for tests: first PSN of every endpoint; else random")
        ->check(InRange(0u, kMaxPsn, "a PSN has 24 bits"));
  }

  void AddExplain() {
    CLI::App* explain = AddClient(
        &app_, "explain",
        "what a group of these hosts would get if its ranks joined now: each switch as the root of its tree, "
        "why it is that one, and by which path it would go. Nothing is changed. Exit code 1 also if the "
        "group "
        "would fail",
        [this] { return Explain(client_, create_); });
    explain
        ->add_option("--hosts", create_.hosts,
                     "host of each rank, in order, as h0,h1,h2; one that has several ranks so many times")
        ->delimiter(',')
        ->required();
    AddPlacement(explain);
  }

  void AddPolicies() {
    CLI::App* policy = app_.add_subcommand("policy", "which policy places groups that ask for none");
    policy->require_subcommand(1);
    AddClient(policy, "show", "the default policy", [this] { return DefaultPolicy(client_, ""); });
    AddClient(policy, "set", "another one, of groups made from now on",
              [this] { return DefaultPolicy(client_, create_.policy); })
        ->add_option("policy", create_.policy, "shortest, edt, spatial or temporal")
        ->required();
  }

  void AddTenants() {
    CLI::App* tenant = app_.add_subcommand("tenant", "what all groups of a tenant may have together");
    tenant->require_subcommand(1);
    AddClient(tenant, "show", "all tenants, and what they have", [this] { return ListTenants(client_); });
    AddClient(tenant, "remove", "a tenant without groups", [this] { return RemoveTenant(client_, name_); })
        ->add_option("name", name_, "name of the tenant")
        ->required();
    CLI::App* set = AddClient(tenant, "set", "make a tenant, or change it: what is not given is no limit",
                              [this] { return SetTenant(client_, tenant_); });
    set->add_option("name", tenant_.name, "name of the tenant")->required();
    set->add_option("--limit-bytes", tenant_.limit_bytes, "of each switch's memory, as 4M")
        ->transform(CLI::AsSizeValue(false))
        ->transform(CLI::Validator(NotNegative, ""));
    set->add_option("--limit-groups", tenant_.limit_groups, "groups that go through switches")
        ->transform(CLI::Validator(NotNegative, ""));
    set->add_option("--limit-gbps", tenant_.limit_gbps, "that its groups reserve (--rate), together");
    set->add_option("--guarantee-bytes", tenant_.guarantee_bytes,
                    "of each switch's memory: so much no other group gets")
        ->transform(CLI::AsSizeValue(false))
        ->transform(CLI::Validator(NotNegative, ""));
  }

  // Options that decide where a group is placed, and by which path it goes.
  void AddPlacement(CLI::App* command) {
    command
        ->add_option("--mode", create_.mode, "how switches realise it, by any of its names: " + ModeChoice())
        ->transform(CLI::Validator(ModeToNumber, ""))
        ->capture_default_str();
    command
        ->add_option_function<std::vector<std::string>>(
            "--switch-mode", [this](const std::vector<std::string>& texts) { AddSwitchModes(texts); },
            "SWITCH=MODE: another mode for one switch; repeated. Not all modes may share a tree")
        ->allow_extra_args(false);
    command
        ->add_option(
            "--path", create_.path,
            "which way its data go: through switches (network), between the hosts (hosts), or through "
            "switches if they can and else between the hosts (auto)")
        ->check(CLI::IsMember({"auto", "network", "hosts"}))
        ->capture_default_str();
    command->add_option(
        "--policy", create_.policy,
        "which tree: shortest (the least deep), edt (no link in two trees), spatial (the widest "
        "in rate and memory) or temporal (the same, and groups share memory, of which one at a time has it); "
        "else the manager's default");
    command->add_option(
        "--prefer", create_.prefer,
        "of policies spatial and temporal: the least deep tree (latency), the widest (bandwidth), or the "
        "first with the rate, without one the widest (auto)");
    command->add_option(
        "--rate", create_.rate_gbps,
        "of policies spatial and temporal: Gbit/s that are reserved on each link of the tree");
    command->add_option(
        "--duty", create_.duty,
        "of policy temporal: of the time that it has its memory in switches, as 0.3; of those "
        "that share memory it is 1 together at most. Else 1");
    command->add_option("--job", create_.job, "of policy temporal: whose phases are declared by --phase");
    command->add_option(
        "--phase", create_.phase,
        "of policy temporal: groups of one job in different phases never call at the same time, so that of "
        "their duties only those of the fullest phase count");
    command->add_option("--tenant", create_.tenant, "whose it is: what that tenant may have is not exceeded");
    command->add_option("--path-mtu", create_.path_mtu, "bytes; else the largest that the path carries");
    command->add_option("-M,--message-packets", create_.message_packets,
                        "packets per message; else the manager's choice");
    command->add_option(
        "-W,--window-messages", create_.window_messages,
        "messages in flight, always; else where ranks begin is the manager's choice, and they "
        "go on by what they measure");
    command
        ->add_option("--max-bytes", create_.max_bytes,
                     "of the longest call that it is for, all ranks' shares together, as 4096 or 64K: its "
                     "switches keep no more slots than that fills; longer ones work, and take longer")
        ->transform(CLI::AsSizeValue(false))
        ->transform(CLI::Validator(NotNegative, ""));
    command
        ->add_option(
            "--types", create_.types,
            "that the group needs, as float64,int32: it goes through switches that have them, else by the "
            "hosts; with --path network it is refused with the reason. Without float16 and bfloat16 among "
            "them its slots take less memory")
        ->delimiter(',');
    command
        ->add_option(
            "--quantise", create_.quantise,
            "FP32 is summed as whole numbers, over switches that have integers alone: each element times "
            "this, rounded, as INT32 that stays at its limits, and divided again")
        ->check(InRange(kLeastScale, kLargestScale, "a scale"));
    command->add_option("--operations", create_.operations, "the same of operations, as product,bxor")
        ->delimiter(',');
  }

  void AddSwitchModes(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      const size_t equals = text.rfind('=');
      const auto mode =
          ModeNamed(equals == std::string::npos ? "" : std::string_view(text).substr(equals + 1));
      if (equals == 0 || !mode) {
        throw CLI::ValidationError(
            "--switch-mode", text + " is not SWITCH=MODE, as leaf1=3, with one of the modes " + ModeChoice());
      }
      const int number = NumberOf(*mode);
      const auto [at, added] = create_.switch_modes.emplace(text.substr(0, equals), number);
      if (!added && at->second != number)
        throw CLI::ValidationError("--switch-mode", at->first + " is given two modes");
    }
  }

  CLI::App app_;
  std::function<int()> action_;
  ServeOptions serve_;
  double join_timeout_s_ = 120;
  uint32_t prompt_ms_ = 20;
  ClientOptions client_;
  std::string name_;
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
  return epic::manager::CommandLine().Run(argc, argv);
}
