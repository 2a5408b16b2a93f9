#include "incmanager/cli/why.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/counted.h"
#include "incmanager/text.h"
#include "protocol/bounds.h"

namespace epic::manager {
namespace {

// "ranks 0 (h0), 2 (h2)"; of one "rank 1 (h1)".
std::string Ranks(const proto::GroupState& group, const std::vector<uint32_t>& ranks) {
  std::vector<std::string> words;
  for (const uint32_t rank : ranks) {
    const bool known = rank < static_cast<uint32_t>(group.rank_hosts_size());
    const std::string host = known ? group.rank_hosts(static_cast<int>(rank)) : "";
    words.push_back(host.empty() ? fmt::format("{}", rank) : fmt::format("{} ({})", rank, host));
  }
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(words, ", "));
}

std::string Joining(const proto::GroupState& group) {
  std::vector<uint32_t> missing;
  // As many as there can be.
  for (uint32_t rank = 0; rank < std::min(group.world_size(), kMaxWorldSize); ++rank) {
    if (std::ranges::find(group.joined_ranks(), rank) == group.joined_ranks().end()) missing.push_back(rank);
  }
  if (missing.empty()) return "all ranks have joined";
  return fmt::format("waits for {} to join; {} of {} have", Ranks(group, missing), group.joined_ranks_size(),
                     group.world_size());
}

// Of a group that has not ended.
std::string Living(const proto::GroupState& group) {
  if (group.state() == "reserved")
    return fmt::format("reserved for {}: none has joined", Counted(group.world_size(), "rank"));
  if (group.state() == "joining") return Joining(group);
  if (group.state() == "installing") return "waits for its switches: they are given their part of it";
  if (group.has_wait()) return group.wait().words();
  return fmt::format("{} with {}{}", group.state(), Counted(group.world_size(), "rank"),
                     group.tells_waits() ? ", and waits for nobody" : "");
}

}  // namespace

std::string EndInWords(const proto::GroupEnd& end) {
  return fmt::format("ended {} ago: {}", Duration(end.ms_ago()), end.how());
}

proto::GroupWhy WhyOf(const proto::GroupState& group) {
  proto::GroupWhy why;
  why.set_name(group.name());
  why.set_state(group.state());
  if (group.has_failure()) *why.mutable_failure() = group.failure();
  if (group.has_wait()) *why.mutable_wait() = group.wait();
  if (group.has_last_end()) *why.mutable_last_end() = group.last_end();
  // Of this life, or of the one before it.
  const bool its_end =
      group.has_last_end() && group.last_end().group_id() == group.group_id() && group.state() != "reserved";
  if (its_end && group.last_end().has_failure()) *why.mutable_failure() = group.last_end().failure();
  if (its_end) {
    why.add_lines(fmt::format("group {} {}", group.name(), EndInWords(group.last_end())));
    return why;
  }
  why.add_lines(fmt::format("group {}: {}", group.name(),
                            group.has_failure() ? "failed: " + group.failure().message() : Living(group)));
  if (group.has_last_end())
    why.add_lines(fmt::format("the last group of this name {}", EndInWords(group.last_end())));
  return why;
}

std::string RenderWhy(const proto::GroupWhy& why) {
  std::string out;
  for (const std::string& line : why.lines()) out += line + "\n";
  return out;
}

}  // namespace epic::manager
