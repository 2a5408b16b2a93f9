#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "incmanager/cli/render.h"
#include "incmanager/cli/table.h"

namespace epic::manager {
namespace {

// "1 stale, 3 again": what is not 0.
std::string DroppedWords(const proto::DatagramsSeen& seen) {
  const std::pair<const char*, uint64_t> reasons[] = {{"stranger", seen.stranger()},
                                                      {"stale", seen.stale()},
                                                      {"alien", seen.alien()},
                                                      {"length", seen.length()},
                                                      {"again", seen.again()}};
  std::vector<std::string> words;
  for (const auto& [reason, count] : reasons) {
    if (count != 0) words.push_back(fmt::format("{} {}", count, reason));
  }
  return words.empty() ? "0" : fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

std::string MulticastLine(const proto::GroupState& group) {
  if (group.multicast_address() != 0) return fmt::format("multicast   {}\n", Ip(group.multicast_address()));
  return group.multicast_reason().empty() ? ""
                                          : fmt::format("multicast   none: {}\n", group.multicast_reason());
}

std::string DatagramLines(const proto::GroupState& group) {
  if (group.datagrams().empty()) return "";
  // Protobuf's maps have no order.
  const std::map<uint32_t, proto::DatagramsSeen> by_rank(group.datagrams().begin(), group.datagrams().end());
  std::vector<std::vector<std::string>> rows{{"rank", "host", "expected", "came", "read", "dropped"}};
  for (const auto& [rank, seen] : by_rank) {
    const bool known = rank < static_cast<uint32_t>(group.rank_hosts_size());
    rows.push_back({fmt::format("{}", rank), known ? group.rank_hosts(static_cast<int>(rank)) : "-",
                    fmt::format("{}", seen.expected()), fmt::format("{}", seen.came()),
                    fmt::format("{}", seen.read()), DroppedWords(seen)});
  }
  constexpr std::string_view kWhat = "datagrams";
  return Table(rows, "            ").replace(0, kWhat.size(), kWhat);
}

std::string GroupPortLines(const proto::ForwardingTable& table) {
  std::string out;
  for (const proto::GroupPorts& group : table.groups())
    out += fmt::format("  multicast {}: {}\n", MacText(group.mac()), fmt::join(group.ports(), " "));
  return out;
}

std::string MulticastOutcome(const proto::ExplainReply& reply) {
  if (reply.multicast_unasked()) {
    return "multicast: unasked, for Broadcasts and AllGathers that are shorter so (8 ranks and more, each on a host "
           "of its own); for others, and where ranks share a host, if all ask for it; their NICs have to receive it\n";
  }
  if (reply.multicast()) {
    const std::string& why = reply.multicast_unasked_reason();
    return fmt::format("multicast: if all ranks ask for it, and their NICs receive it{}\n",
                       why.empty() ? "" : "; only then, since " + why);
  }
  return reply.multicast_reason().empty() ? ""
                                          : fmt::format("multicast: none: {}\n", reply.multicast_reason());
}

}  // namespace epic::manager
