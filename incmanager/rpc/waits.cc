#include "incmanager/rpc/waits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "incmanager/text.h"

namespace epic::manager {

std::string RanksInWords(const Ranks& ranks, const proto::GroupState* with_hosts) {
  constexpr int kMostNamed = 8;
  std::vector<std::string> names;
  for (int i = 0; i < std::min(ranks.size(), kMostNamed); ++i) {
    const uint32_t rank = ranks[i];
    const bool known = with_hosts != nullptr && rank < static_cast<uint32_t>(with_hosts->rank_hosts_size()) &&
                       !with_hosts->rank_hosts(static_cast<int>(rank)).empty();
    names.push_back(known ? fmt::format("{} ({})", rank, with_hosts->rank_hosts(static_cast<int>(rank)))
                          : fmt::format("{}", rank));
  }
  const std::string more = ranks.size() > kMostNamed
                               ? " and " + Counted(static_cast<uint64_t>(ranks.size() - kMostNamed), "other")
                               : "";
  return fmt::format("{} {}{}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(names, ", "), more);
}

namespace {

// What the leaves say of ranks, by rank.
std::map<uint32_t, proto::EndpointDump> RanksOf(const std::vector<const proto::GroupDump*>& switches) {
  std::map<uint32_t, proto::EndpointDump> ranks;
  for (const proto::GroupDump* at : switches) {
    for (const proto::EndpointDump& child : at->children()) {
      if (child.config().is_host() && child.config().ranks_size() == 1)
        ranks[child.config().ranks(0)] = child;
    }
  }
  return ranks;
}

}  // namespace

std::string WaitInWords(const proto::GroupState& group, const proto::CallWait& wait) {
  std::string words =
      fmt::format("{} {}: ", wait.collective().empty() ? "call" : wait.collective(), wait.call());
  const std::string whom = RanksInWords(wait.for_ranks(), &group);
  const std::string since = wait.collective().empty() ? "" : Duration(static_cast<int64_t>(wait.ms()));
  const std::string begun = since.empty() ? "" : fmt::format("; it began {} ago", since);
  const char* const all = wait.silent().empty() ? "all" : "those of whom something is known";
  switch (wait.why()) {
    case proto::CallWait::WHY_NOT_CALLED:
      words += fmt::format("waits for {}{}; {} {} called", whom, since.empty() ? "" : " since " + since,
                           RanksInWords(wait.others()), wait.others_size() == 1 ? "has" : "have");
      break;
    case proto::CallWait::WHY_SILENT:
      words += fmt::format("waits, as it seems, for {}{}; {} {} called", whom,
                           since.empty() ? "" : " since " + since, RanksInWords(wait.others()),
                           wait.others_size() == 1 ? "has" : "have");
      break;
    case proto::CallWait::WHY_DATA:
      words += fmt::format("{} have called; waits for data of {}{}", all, whom, begun);
      break;
    case proto::CallWait::WHY_NOT_TAKEN:
      words += fmt::format("waits for {} to take a result{}", whom, begun);
      break;
    default:
      words += fmt::format("{} have called, and it is under way{}", all, begun);
  }
  if (!wait.silent().empty()) {
    words += fmt::format("; of {} there is no answer, and of the ranks there nothing is known",
                         fmt::join(wait.silent(), ", "));
  }
  return words;
}

void AddWait(const std::map<std::string, proto::DumpReply>& dumps, proto::GroupState* group) {
  std::vector<const proto::GroupDump*> switches;
  const proto::GroupDump* root = nullptr;
  proto::CallWait wait;
  for (const proto::TreeNode& node : group->tree()) {
    const auto dump = dumps.find(node.switch_name());
    const bool answers = dump != dumps.end() && dump->second.groups_size() == 1 &&
                         dump->second.groups(0).config().group_id() == group->group_id() &&
                         dump->second.groups(0).tells_waits();
    if (!answers) {
      wait.add_silent(node.switch_name());
      continue;
    }
    switches.push_back(&dump->second.groups(0));
    if (node.parent().empty()) root = switches.back();
  }
  if (switches.empty()) {
    if (!dumps.empty() || wait.silent().empty()) return;
    wait.set_call(-1);
    wait.set_words(fmt::format("of {} there is no answer, so that nothing is known of whom it waits for",
                               fmt::join(wait.silent(), ", ")));
    *group->mutable_wait() = wait;
    return;
  }
  group->set_tells_waits(true);
  const auto ranks = RanksOf(switches);
  if (ranks.empty()) return;
  const auto [least, most] =
      std::ranges::minmax_element(ranks, {}, [](const auto& of_rank) { return of_rank.second.calls(); });
  const int64_t fewest = least->second.calls();
  const bool called_by_all = fewest == most->second.calls();
  wait.set_call(called_by_all ? fewest - 1 : fewest);
  const auto sort = [&](const auto& is_waited_for) {
    wait.clear_for_ranks();
    wait.clear_others();
    for (const auto& [rank, dump] : ranks)
      is_waited_for(dump) ? wait.add_for_ranks(rank) : wait.add_others(rank);
    return !wait.for_ranks().empty();
  };
  const bool is_open =
      root != nullptr
          ? root->has_open_call()
          : std::ranges::any_of(switches, [](const proto::GroupDump* at) { return at->has_open_call(); });
  if (!called_by_all) {
    wait.set_why(proto::CallWait::WHY_NOT_CALLED);
    sort([fewest](const proto::EndpointDump& rank) { return rank.calls() == fewest; });
  } else if (sort([](const proto::EndpointDump& rank) { return rank.owes(); })) {
    wait.set_why(proto::CallWait::WHY_DATA);
  } else if (!is_open) {
    return;
  } else if (sort([](const proto::EndpointDump& rank) { return rank.not_taken(); })) {
    wait.set_why(proto::CallWait::WHY_NOT_TAKEN);
  } else {
    wait.set_why(proto::CallWait::WHY_UNDER_WAY);
  }
  for (const proto::GroupDump* at : switches) {
    if (!at->has_open_call() || at->open_call().number() != wait.call()) continue;
    wait.set_collective(at->open_call().collective());
    wait.set_ms(std::max(wait.ms(), at->open_call().ms()));
  }
  wait.set_words(WaitInWords(*group, wait));
  *group->mutable_wait() = wait;
}

}  // namespace epic::manager
