#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "base/counted.h"
#include "incmanager/cli/render.h"
#include "incmanager/cli/table.h"
#include "incmanager/policies/memory.h"

namespace epic::manager {
namespace {

// So many are named; JSON has all.
constexpr int kMostNamed = 16;

// "root (2), leaf1 (2), leaf2 (2)".
std::string Switches(const proto::RootChoice& choice) {
  std::string out;
  for (int i = 0; i < choice.switches_size() && i < kMostNamed; ++i) {
    const proto::Aggregator& aggregator = choice.switches(i);
    out += fmt::format("{}{} ({})", i == 0 ? "" : ", ", aggregator.switch_name(), aggregator.children());
  }
  if (choice.switches_size() > kMostNamed)
    out += fmt::format(" and {} more", choice.switches_size() - kMostNamed);
  return out;
}

// "memory: root takes 0.5 MiB of 15.2 MiB, leaf1 ..." of the tree that is chosen; empty where it is not
// known.
std::string Memory(const proto::ExplainReply& reply) {
  std::string out;
  int named = 0;
  for (const proto::RootChoice& choice : reply.roots()) {
    if (!choice.chosen()) continue;
    for (const proto::Aggregator& aggregator : choice.switches()) {
      if (aggregator.bytes() == 0 || ++named > kMostNamed) continue;
      out += fmt::format("{}{} ", out.empty() ? "memory: " : ", ", aggregator.switch_name());
      out += aggregator.block() != 0
                 ? fmt::format("shares block {} of {}", aggregator.block(), BytesWords(aggregator.bytes()))
                 : fmt::format("takes {} of {}", BytesWords(aggregator.bytes()),
                               BytesWords(aggregator.room_bytes()));
    }
  }
  if (named > kMostNamed) out += fmt::format(" and {} more", named - kMostNamed);
  return out.empty() ? "" : out + "\n";
}

// "network: root leaf1, 2 switches, mode II (translated)".
std::string Outcome(const proto::ExplainReply& reply) {
  if (reply.has_failure()) {
    return fmt::format("refused: {}: {}", ErrorWords(reply.failure().code()),
                       reply.failure().message());
  }
  if (reply.path() == proto::PATH_HOSTS) return fmt::format("hosts: {}", reply.path_reason());
  const bool by_tiers = !reply.policy().empty() && reply.policy() != "shortest";
  return fmt::format("network: root {}, {}, mode {}{}", reply.root(),
                     Counted(reply.switches(), "switch", "switches"), ModeName(reply.mode()),
                     by_tiers ? ", policy " + reply.policy() : "");
}

}  // namespace

std::string ErrorWords(proto::ErrorCode code) {
  std::string words = proto::ErrorCode_Name(code);  // empty for that of a later manager
  words = words.starts_with("ERROR_") ? words.substr(6) : "error " + std::to_string(code);
  for (char& c : words) c = c == '_' ? ' ' : static_cast<char>(std::tolower(c));
  return words;
}

std::string RenderExplanation(const proto::ExplainReply& reply) {
  // Policies that do not look at widths know none.
  const bool has_widths =
      std::ranges::any_of(reply.roots(), [](const proto::RootChoice& root) { return root.width_gbps() > 0; });
  std::vector<std::vector<std::string>> rows{
      {"root", "links", "Gbit/s", "delay us", "switches (children)", "state"}};
  if (has_widths) rows[0].insert(rows[0].begin() + 3, "width");
  for (const proto::RootChoice& choice : reply.roots()) {
    const bool tree = !choice.switches().empty();
    const auto of_tree = [tree](auto value) { return tree ? fmt::format("{}", value) : std::string("-"); };
    rows.push_back({choice.root(), of_tree(choice.depth_links()), of_tree(choice.rate_gbps()),
                    of_tree(choice.delay_us()), of_tree(Switches(choice)),
                    choice.chosen() ? "chosen" : choice.why()});
    if (has_widths) rows.back().insert(rows.back().begin() + 3, of_tree(choice.width_gbps()));
  }
  return Table(rows) + Memory(reply) + ServerOutcome(reply) + MulticastOutcome(reply) + Outcome(reply) + "\n";
}

}  // namespace epic::manager
