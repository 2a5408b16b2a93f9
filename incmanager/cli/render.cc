#include "incmanager/cli/render.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "incmanager/cli/table.h"
#include "incmanager/cli/why.h"
#include "incmanager/text.h"

namespace epic::manager {
namespace {

std::string Bytes(uint64_t bytes) {
  if (bytes >= 1u << 20) return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1u << 20));
  if (bytes >= 1u << 10) return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / (1u << 10));
  return fmt::format("{} B", bytes);
}

// ", but I (terminated) on leaf1"; nothing where all switches have the group's.
std::string ModesText(const proto::GroupState& group) {
  // Protobuf's maps have no order.
  const std::map<std::string, proto::Mode> sorted(group.switch_modes().begin(), group.switch_modes().end());
  std::string out;
  for (const auto& [name, mode] : sorted)
    out += fmt::format("{}{} on {}", out.empty() ? ", but " : ", ", ModeName(mode), name);
  return out;
}

// "lacks       operation product, operation bxor: leaf1 (version 0.1.0)", a line for each switch.
std::string Lacks(const proto::GroupState& group) {
  std::vector<std::pair<std::string, std::string>> by_switch;
  for (const proto::Lack& lack : group.lacks()) {
    if (by_switch.empty() || by_switch.back().first != lack.where()) by_switch.emplace_back(lack.where(), "");
    std::string& what = by_switch.back().second;
    what += (what.empty() ? "" : ", ") + lack.what();
  }
  std::string out;
  for (const auto& [where, what] : by_switch) out += fmt::format("lacks       {}: {}\n", what, where);
  return out;
}

std::string PathName(proto::Path path) {
  if (path == proto::PATH_AUTO) return "auto";
  if (path == proto::PATH_NETWORK) return "network";
  return path == proto::PATH_HOSTS ? "hosts" : "-";
}

// By what is decided, else by what was asked for. Such a group has no mode, window nor slots.
bool GoesByHosts(const proto::GroupState& group) {
  return (group.path_taken() == proto::PATH_UNSPECIFIED ? group.path() : group.path_taken()) ==
         proto::PATH_HOSTS;
}

// "hosts: leaf3 has 0.2 of 1.0 MiB free, 0.5 needed", or what was asked for as long as nothing is decided.
std::string PathOf(const proto::GroupState& group) {
  if (group.path_taken() != proto::PATH_HOSTS)
    return PathName(group.path_taken() == proto::PATH_UNSPECIFIED ? group.path() : group.path_taken());
  return fmt::format("hosts: {}", group.path_reason());
}

// "path        network, of auto; calls that its switches lack go by the hosts".
std::string PathLine(const proto::GroupState& group) {
  std::string out = "path        " + PathOf(group);
  if (group.path_taken() == proto::PATH_UNSPECIFIED) return out + "\n";
  if (group.path_taken() == proto::PATH_NETWORK) {
    out += group.path_reason().empty()
               ? "; calls that its switches lack go by the hosts"
               : fmt::format("; calls that its switches lack are refused: {}", group.path_reason());
  }
  return fmt::format("{} ({} was asked for)\n", out, PathName(group.path()));
}

std::string CounterLines(const google::protobuf::RepeatedPtrField<proto::Counter>& counters,
                         const std::string& indent) {
  std::string out;
  for (const proto::Counter& counter : counters) {
    if (counter.value() != 0) out += fmt::format("{}{} {}\n", indent, counter.name(), counter.value());
  }
  return out;
}

std::string CounterWords(const google::protobuf::RepeatedPtrField<proto::Counter>& counters) {
  std::vector<std::string> words;
  for (const proto::Counter& counter : counters) {
    if (counter.value() != 0) words.push_back(fmt::format("{}={}", counter.name(), counter.value()));
  }
  return fmt::format("{}", fmt::join(words, " "));
}

// Under whose address the switch speaks there, if not under its own.
std::string BorneWords(const proto::EndpointConfig& endpoint) {
  return endpoint.borne_ip() == 0 ? "" : fmt::format(", as {}", Ip(endpoint.borne_ip()));
}

void AddEndpoint(const proto::EndpointDump& endpoint, const std::string& who,
                 std::vector<std::vector<std::string>>* rows) {
  const proto::EndpointConfig& config = endpoint.config();
  const bool one_port = config.ingress_port().empty() || config.ingress_port() == config.port();
  const std::string frames = config.super_frames() ? ", super-frames" : "";
  rows->push_back(
      {who,
       (one_port ? config.port() : fmt::format("{}, in {}", config.port(), config.ingress_port())) + frames,
       fmt::format("{:#08x}", config.local_qpn()),
       fmt::format("{} {:#08x}", Ip(config.remote_ip()), config.remote_qpn()) + BorneWords(config),
       fmt::format("{}", config.in_psn()), fmt::format("{}", config.out_psn()),
       fmt::format("{}", endpoint.up_epsn()), fmt::format("{}", endpoint.last_down_acked()),
       CounterWords(endpoint.counters())});
}

std::string RenderGroupDump(const proto::GroupDump& group) {
  const proto::GroupConfig& config = group.config();
  std::string out = fmt::format(
      "  {} (id {:#x}, generation {}): mode {}, {}, path MTU {}, M {}, W {}, N {}, {} {}, {}{}{}\n",
      config.name(), config.group_id(), config.generation(), ModeName(config.mode()),
      Counted(config.world_size(), "rank"), config.path_mtu(), config.message_packets(),
      config.window_messages(), config.slots(),
      config.block() == 0 ? "arena" : fmt::format("block {} of", config.block()), Bytes(group.arena_bytes()),
      Counted(group.invocations(), "invocation"), group.holds_block() ? ", has the block" : "",
      group.failed() ? ", FAILED" : "");
  std::vector<std::vector<std::string>> rows{
      {"endpoint", "port", "local QPN", "remote", "in PSN", "out PSN", "up_epsn", "acked", "counters"}};
  if (group.has_parent()) AddEndpoint(group.parent(), "parent", &rows);
  if (group.has_server()) AddEndpoint(group.server(), "fallback server", &rows);
  for (const proto::EndpointDump& child : group.children()) {
    AddEndpoint(child,
                fmt::format("{} {}", child.config().is_host() ? "rank" : "switch, ranks",
                            fmt::join(child.config().ranks(), " ")),
                &rows);
  }
  return out + Table(rows, "    ") + CounterLines(group.counters(), "    ");
}

// What was sent again, and what was refused, of all switches that answered: "repeated    repeats 0, ...".
// Packets that are lost and hosts that are late are repaired by repetitions: on a busy machine there are
// always some. What is refused does not go with a right host and a right network.
std::string Trouble(const proto::GroupState& group) {
  constexpr std::string_view kRepeated[] = {"repeats", "drop_duplicate", "drop_gap", "rnr_naks_received",
                                            "rnr_naks_sent"};
  std::vector<std::pair<std::string, uint64_t>> sums;
  for (const proto::TreeNode& node : group.tree()) {
    for (const proto::Counter& counter : node.trouble()) {
      const auto it = std::ranges::find(sums, counter.name(), &std::pair<std::string, uint64_t>::first);
      it == sums.end() ? void(sums.emplace_back(counter.name(), counter.value()))
                       : void(it->second += counter.value());
    }
  }
  std::vector<std::string> repeated, refused;
  for (const auto& [name, count] : sums) {
    const bool repeats = std::ranges::find(kRepeated, name) != std::end(kRepeated);
    (repeats ? repeated : refused).push_back(fmt::format("{} {}", name, count));
  }
  std::string out;
  if (!repeated.empty()) out += fmt::format("repeated    {}\n", fmt::join(repeated, ", "));
  if (!refused.empty()) out += fmt::format("refused     {}\n", fmt::join(refused, ", "));
  return out;
}

// "8 messages at most, 7 to begin with (why 7)".
std::string WindowText(const proto::GroupState& group) {
  if (group.window_messages() == 0) return "chosen when all have joined";
  std::string out = Counted(group.window_messages(), "message");
  if (group.start_messages() != 0) out += fmt::format(" at most, {} to begin with", group.start_messages());
  return out + (group.window_reason().empty() ? "" : " (" + group.window_reason() + ")");
}

// The send windows that ranks use now, with the least and the greatest of those that trials have led to.
std::string WindowsInUse(const proto::GroupState& group) {
  if (group.start_messages() == 0)
    return fmt::format("in use      {}: ranks try no others\n", Counted(group.window_messages(), "message"));
  if (group.windows().empty())
    return fmt::format("in use      {}: no trials yet\n", Counted(group.start_messages(), "message"));
  // Protobuf's maps have no order.
  const std::map<uint32_t, proto::WindowInUse> by_rank(group.windows().begin(), group.windows().end());
  const auto [least, most] =
      std::ranges::minmax_element(by_rank, {}, [](const auto& of_rank) { return of_rank.second.messages(); });
  uint32_t from = least->second.messages();
  uint32_t to = most->second.messages();
  if (by_rank.size() < group.world_size()) {
    from = std::min(from, group.start_messages());
    to = std::max(to, group.start_messages());
  }
  std::string out = fmt::format("in use      {}{}; {} of {} ranks {} tried others\n",
                                from == to ? "" : fmt::format("{} to ", from), Counted(to, "message"),
                                by_rank.size(), group.world_size(), by_rank.size() == 1 ? "has" : "have");
  const auto add = [&out](const auto& of_rank) {
    const auto& [rank, window] = of_rank;
    out += fmt::format("            {} at rank {}: {} ns per packet", window.messages(), rank,
                       window.ns_per_packet());
    if (window.before_messages() != window.messages())
      out += fmt::format(", {} with {}", window.before_ns_per_packet(), window.before_messages());
    out += "\n";
  };
  add(*least);
  if (least->second.messages() != most->second.messages()) add(*most);
  return out;
}

// Why it has failed, and how it or the last group of its name has ended.
std::string EndLines(const proto::GroupState& group) {
  const proto::GroupEnd& end = group.last_end();
  const bool its_own =
      group.has_last_end() && end.group_id() == group.group_id() && group.state() != "reserved";
  const proto::Failure* failure = group.has_failure() ? &group.failure() : nullptr;
  if (its_own && end.has_failure()) failure = &end.failure();
  std::string out;
  if (failure != nullptr)
    out += fmt::format("failure     {}: {}\n", ErrorWords(failure->code()), failure->message());
  if (!group.has_last_end()) return out;
  out += fmt::format("{} {} ago: {}\n", its_own ? "ended      " : "before     ", Duration(end.ms_ago()),
                     end.how());
  if (group.state() == "ended")
    out += fmt::format("ranks       {} of {} joined\n", end.joined(), group.world_size());
  return out;
}

class TreeDrawing {
 public:
  explicit TreeDrawing(const proto::GroupState& group) : group_(group) {
    for (const proto::TreeNode& node : group.tree()) {
      below_[node.parent()].push_back(&node);
    }
  }

  std::string Draw() {
    for (const proto::TreeNode* root : below_[""]) {
      if (!drawn_.insert(root).second) continue;
      out_ += Head(*root) + "\n";
      Children(*root, "");
    }
    return out_;
  }

 private:
  std::string Head(const proto::TreeNode& node) const {
    return fmt::format("{}  mode {}  {}, paper {} = {} bytes", node.switch_name(),
                       ModeName(node.config().mode()), Memory(node), node.paper_formula(),
                       node.paper_bytes());
  }

  // "arena 1052672 bytes", or "block 2 of 1.0 MiB, duty 0.3 of 0.8".
  std::string Memory(const proto::TreeNode& node) const {
    if (node.config().block() == 0) return fmt::format("arena {} bytes", node.arena_bytes());
    return fmt::format("block {} of {}, duty {} of {}", node.config().block(),
                       Bytes(node.config().block_bytes()), group_.placement().duty(), node.block_duty());
  }

  // An earlier manager says nothing of rates.
  static std::string Edge(const proto::TreeNode& node, int child) {
    const proto::EndpointConfig& down = node.config().children(child);
    const std::string rate =
        child < node.child_gbps_size() ? fmt::format(", {} Gbit/s", node.child_gbps(child)) : "";
    return fmt::format("{} QPN {:#08x}, PSN up {} down {}{}", down.port(), down.local_qpn(), down.in_psn(),
                       down.out_psn(), rate);
  }

  void Children(const proto::TreeNode& node, const std::string& indent) {
    const auto& children = node.config().children();
    for (int i = 0; i < children.size(); ++i) {
      const proto::EndpointConfig& child = children[i];
      const bool last = i + 1 == children.size();
      out_ += fmt::format("{}{}-- [{}] ", indent, last ? "`" : "|", Edge(node, i));
      const std::string deeper = indent + (last ? "    " : "|   ");
      if (child.is_host()) {
        const uint32_t rank = child.ranks().empty() ? 0 : child.ranks(0);
        const bool known = rank < static_cast<uint32_t>(group_.rank_hosts_size());
        const std::string host = known ? group_.rank_hosts(static_cast<int>(rank)) : "";
        out_ +=
            fmt::format("rank {} {} {} QPN {:#08x}{}\n", rank, host, Ip(child.remote_ip()), child.remote_qpn(),
                        BorneWords(child));
        continue;
      }
      for (const proto::TreeNode* inner : below_[node.switch_name()]) {
        if (inner->config().parent().local_qpn() != child.remote_qpn()) continue;
        if (inner->config().parent().remote_qpn() != child.local_qpn()) continue;
        // Each once, also in what is no tree.
        if (!drawn_.insert(inner).second) continue;
        out_ += fmt::format("{} ({} QPN {:#08x})\n", Head(*inner), inner->config().parent().port(),
                            child.remote_qpn());
        Children(*inner, deeper);
      }
    }
  }

  const proto::GroupState& group_;
  std::map<std::string, std::vector<const proto::TreeNode*>> below_;
  std::set<const proto::TreeNode*> drawn_;
  std::string out_;
};

}  // namespace

std::string RenderSwitches(const proto::ListSwitchesReply& reply) {
  std::vector<std::vector<std::string>> rows{
      {"switch", "state", "address", "agent", "heard", "ports", "groups", "arena free"}};
  for (const proto::SwitchState& state : reply.switches()) {
    const bool seen = state.last_heartbeat_ms_ago() >= 0;
    const proto::EngineInfo& engine = state.engine();
    const proto::Capability& capability = engine.capability();
    rows.push_back(
        {state.name(), state.state(), seen ? Ip(engine.address()) : "-", seen ? state.agent_address() : "-",
         seen ? fmt::format("{} ms ago", state.last_heartbeat_ms_ago()) : "-",
         fmt::format("{}", engine.ports_size()), fmt::format("{}", engine.group_ids_size()),
         fmt::format("{} of {}", Bytes(capability.arena_free_bytes()), Bytes(capability.arena_bytes()))});
  }
  std::string out = Table(rows);
  for (const std::string& warning : reply.warnings()) out += fmt::format("warning: {}\n", warning);
  return out;
}

std::string RenderTables(const proto::DumpReply& reply) {
  const proto::EngineInfo& info = reply.info();
  std::string out = fmt::format("{}  {}  {}  boot {:#x}  version {}\n", info.name(), Ip(info.address()),
                                MacText(info.mac()), info.boot_id(), info.version());
  std::vector<std::vector<std::string>> entries{{"MAC", "IP", "port", "source"}};
  for (const proto::ForwardingEntry& entry : reply.forwarding().entries()) {
    entries.push_back({MacText(entry.mac()), entry.ip() == 0 ? "-" : Ip(entry.ip()), entry.port(),
                       entry.source_guard() ? "guarded" : "-"});
  }
  out += PoolLine(info) + RenderPorts(info) + "forwarding\n" + Table(entries, "  ");
  out += fmt::format("  flood: {}\n", fmt::join(reply.forwarding().flood_ports(), " ")) +
         GroupPortLines(reply.forwarding());
  out += fmt::format("groups: {}\n", reply.groups_size());
  for (const proto::GroupDump& group : reply.groups()) out += RenderGroupDump(group);
  return out + "counters\n" + CounterLines(reply.counters(), "  ");
}

std::string RenderGroups(const proto::ListGroupsReply& reply) {
  if (reply.groups().empty()) return "no groups\n";
  std::vector<std::vector<std::string>> rows{
      {"group", "state", "ranks", "mode", "path MTU", "M", "W", "switches", "path", "failure"}};
  for (const proto::GroupState& group : reply.groups()) {
    const bool by_hosts = GoesByHosts(group);
    const auto of_switches = [by_hosts](auto value) { return by_hosts ? "-" : fmt::format("{}", value); };
    rows.push_back({group.name(), group.state(),
                    fmt::format("{} of {}", group.joined_ranks_size(), group.world_size()),
                    of_switches(ModeName(group.mode())), fmt::format("{}", group.path_mtu()),
                    of_switches(group.message_packets()), of_switches(group.window_messages()),
                    of_switches(group.tree_size()), PathOf(group),
                    group.has_failure() ? group.failure().message() : "-"});
  }
  return Table(rows);
}

std::string RenderGroup(const proto::GroupState& group) {
  const auto chosen = [](uint32_t value, const char* unit) {
    return value == 0 ? std::string("chosen when all have joined") : fmt::format("{}{}", value, unit);
  };
  std::string out = fmt::format("group       {} (id {:#x}, generation {})\n", group.name(), group.group_id(),
                                group.generation());
  out += fmt::format("state       {}\n", group.state()) + EndLines(group);
  if (group.state() == "ended") return out;
  out += PathLine(group) + PolicyLines(group);
  const bool by_hosts = GoesByHosts(group);
  if (!by_hosts) {
    out += fmt::format("mode        {}{}\n", ModeName(group.mode()), ModesText(group));
    out +=
        fmt::format("order       {}\n", group.reproducible() ? "reproducible: sums in the order of children"
                                                             : "as packets arrive");
  }
  if (!group.needs().empty()) out += fmt::format("needs       {}\n", group.needs());
  if (group.quantise() != 0)
    out += fmt::format("quantise    float32 times {}, summed as int32 that stays at its limits\n",
                       group.quantise());
  if (group.quantise_int8()) out += "quantise    sums of float32, float16 and bfloat16 as blocks of int8\n";
  if (group.max_bytes() != 0) out += fmt::format("for         calls of up to {} bytes\n", group.max_bytes());
  out += Lacks(group) + PoolLines(group) + MulticastLine(group);
  out += fmt::format("ranks       {} of {} joined\n", group.joined_ranks_size(), group.world_size());
  out += fmt::format("path MTU    {}\n", chosen(group.path_mtu(), " bytes"));
  if (!by_hosts) {
    out += fmt::format("message M   {}\n", chosen(group.message_packets(), " packets"));
    out += fmt::format("window W    {}\n", WindowText(group));
    out += fmt::format("slots N     {}\n", chosen(group.slots(), ""));
  }
  if (group.slots() != 0) {
    if (!group.has_failure()) out += WindowsInUse(group);
    out += fmt::format("inline      {}\n",
                       group.inline_bytes() == 0
                           ? std::string("never: data follow their control packet")
                           : fmt::format("calls of up to {} bytes are one message", group.inline_bytes()));
  }
  if ((!group.tree().empty() || group.path_taken() == proto::PATH_HOSTS) && !group.has_failure()) {
    out +=
        fmt::format("watched     {}\n", group.watched() ? "yes: a switch that dies as a whole is found"
                                                        : "no: not every switch has answered a witness yet");
  }
  if (group.has_wait()) out += fmt::format("waits       {}\n", group.wait().words());
  out += Trouble(group) + DatagramLines(group);
  return group.tree().empty() ? out : out + "tree\n" + TreeDrawing(group).Draw();
}

}  // namespace epic::manager
