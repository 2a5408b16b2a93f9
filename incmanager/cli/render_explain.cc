#include <fmt/format.h>

#include <string>
#include <vector>

#include "incmanager/cli/render.h"
#include "incmanager/cli/table.h"

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

// "network: root leaf1, 2 switches, mode II (translated)".
std::string Outcome(const proto::ExplainReply& reply) {
  if (reply.has_failure()) {
    return fmt::format("refused: {}: {}", proto::ErrorCode_Name(reply.failure().code()),
                       reply.failure().message());
  }
  if (reply.path() == proto::PATH_HOSTS) return fmt::format("hosts: {}", reply.path_reason());
  return fmt::format("network: root {}, {} {}, mode {}", reply.root(), reply.switches(),
                     reply.switches() == 1 ? "switch" : "switches", ModeName(reply.mode()));
}

}  // namespace

std::string RenderExplanation(const proto::ExplainReply& reply) {
  std::vector<std::vector<std::string>> rows{
      {"root", "links", "Gbit/s", "delay us", "switches (children)", "state"}};
  for (const proto::RootChoice& choice : reply.roots()) {
    const bool tree = !choice.switches().empty();
    const auto of_tree = [tree](auto value) { return tree ? fmt::format("{}", value) : std::string("-"); };
    rows.push_back({choice.root(), of_tree(choice.depth_links()), of_tree(choice.rate_gbps()),
                    of_tree(choice.delay_us()), of_tree(Switches(choice)),
                    choice.chosen() ? "chosen" : choice.why()});
  }
  return Table(rows) + Outcome(reply) + "\n";
}

}  // namespace epic::manager
