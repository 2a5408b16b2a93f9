#include "incmanager/cli/placement_options.h"

#include <string>
#include <string_view>
#include <vector>

#include "protocol/modes.h"
#include "protocol/quantise_word.h"

namespace epic::manager {
namespace {

// What is wrong with them, or nothing.
std::string AddSwitchModes(const std::vector<std::string>& texts, CreateOptions* create) {
  for (const std::string& text : texts) {
    const size_t equals = text.rfind('=');
    const auto mode = ModeNamed(equals == std::string::npos ? "" : std::string_view(text).substr(equals + 1));
    if (equals == 0 || !mode) {
      return text + " is not SWITCH=MODE, as leaf1=3, with one of the modes " + ModeChoice();
    }
    const int number = NumberOf(*mode);
    const auto [at, added] = create->switch_modes.emplace(text.substr(0, equals), number);
    if (!added && at->second != number) return at->first + " is given two modes";
  }
  return {};
}

}  // namespace

void AddPlacementOptions(const Command& command, CreateOptions* create) {
  command.Add("--mode", &create->mode, "how switches realise it, by any of its names: " + ModeChoice())
      .Changed(ModeToNumber)
      .ShowDefault();
  command
      .AddTaken(
          "--switch-mode",
          [create](const std::vector<std::string>& texts) { return AddSwitchModes(texts, create); },
          "SWITCH=MODE: another mode for one switch; repeated. Not all modes may share a tree")
      .OneValueEach();
  command
      .Add("--path", &create->path,
           "which way its data go: through switches (network), between the hosts (hosts), or through "
           "switches if they can and else between the hosts (auto)")
      .OneOf({"auto", "network", "hosts"})
      .ShowDefault();
  command.Add(
      "--policy", &create->policy,
      "which tree: shortest (the least deep), edt (no link in two trees), spatial (the widest "
      "in rate and memory) or temporal (the same, and groups share memory, of which one at a time has it); "
      "else the manager's default");
  command.Add(
      "--prefer", &create->prefer,
      "of policies spatial and temporal: the least deep tree (latency), the widest (bandwidth), or the "
      "first with the rate, without one the widest (auto)");
  command.Add("--rate", &create->rate_gbps,
              "of policies spatial and temporal: Gbit/s that are reserved on each link of the tree");
  command.Add("--duty", &create->duty,
              "of policy temporal: of the time that it has its memory in switches, as 0.3; of those "
              "that share memory it is 1 together at most. Else 1");
  command.Add("--job", &create->job, "of policy temporal: whose phases are declared by --phase");
  command.Add(
      "--phase", &create->phase,
      "of policy temporal: groups of one job in different phases never call at the same time, so that of "
      "their duties only those of the fullest phase count");
  command.Add("--tenant", &create->tenant, "whose it is: what that tenant may have is not exceeded");
  command.Add("--path-mtu", &create->path_mtu, "bytes; else the largest that the path carries");
  command.Add("-M,--message-packets", &create->message_packets,
              "packets per message; else the manager's choice");
  command.Add("-W,--window-messages", &create->window_messages,
              "messages in flight, always; else where ranks begin is the manager's choice, and they "
              "go on by what they measure");
  command
      .Add("--max-bytes", &create->max_bytes,
           "of the longest call that it is for, all ranks' shares together, as 4096 or 64K: its "
           "switches keep no more slots than that fills; longer ones work, and take longer")
      .Bytes();
  command
      .Add("--types", &create->types,
           "that the group needs, as float64,int32: it goes through switches that have them, else by the "
           "hosts; with --path network it is refused with the reason. Without float16 and bfloat16 among "
           "them its slots take less memory")
      .Delimiter(',');
  command
      .AddTaken(
          "--quantise",
          [create](const std::vector<std::string>& values) {
            return ReadQuantise(values.front(), &create->quantise, &create->quantise_int8);
          },
          "int8: sums of FP32, FP16 and BF16 travel as blocks of INT8 with a scale each, which is a fourth "
          "of "
          "FP32's bytes, and are rounded. A number: FP32 is summed as whole numbers, over switches that have "
          "integers alone: each element times this, as INT32 that stays at its limits, and divided again")
      .Expected(1);
  command.Add("--operations", &create->operations, "the same of operations, as product,bxor").Delimiter(',');
}

}  // namespace epic::manager
