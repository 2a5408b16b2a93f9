#include "sim/hosts_way.h"

#include <algorithm>
#include <initializer_list>

#include "protocol/number_blocks.h"
#include "protocol/types.h"
#include "sim/collectives.h"

namespace epic::sim {

std::optional<HostsWay> ChooseWay(const Scenario& scenario, const WorldConfig& config, Choices& choices) {
  const uint64_t way = scenario.path == "mixed" ? choices.Below(3) : scenario.path == "hosts" ? 1 : 0;
  if (way == 0) return std::nullopt;
  const auto one_of = [&choices](std::initializer_list<uint64_t> values) {
    return *(values.begin() + static_cast<ptrdiff_t>(choices.Below(values.size())));
  };
  HostsWay hosts{
      .path = {.algorithm = static_cast<Algorithm>(choices.Below(3)), .agrees_by_exchange = way == 1}};
  hosts.path.message_bytes = static_cast<uint32_t>(one_of({200, config.path_mtu, 4096, 65536}));
  hosts.path.staging_bytes = one_of({2048, 8192, 131072});
  hosts.path.inline_bytes = hosts.path.algorithm == Algorithm::kDoubling ? one_of({4096, kMaxInlineBytes})
                                                                         : one_of({128, 1024, 8192});
  if (scenario.numbers == "blocks")
    hosts.path.inline_bytes = std::max<uint64_t>(hosts.path.inline_bytes, kMaxHosts * kBlockBytes);
  hosts.tell_ns = static_cast<Nanos>(one_of({1, 10, 500})) * kMicrosecond;
  if (scenario.algorithm == "multicast" || (scenario.algorithm == "all" && choices.Below(2) == 0)) {
    hosts.path.algorithm = Algorithm::kMulticast;
    hosts.path.chunk_bytes = config.path_mtu;
    hosts.path.message_bytes = std::max(hosts.path.message_bytes, config.path_mtu);
    hosts.path.tokens = static_cast<uint32_t>(one_of({1, 4}));
    hosts.path.staging_chunks = static_cast<uint32_t>(one_of({2 * hosts.path.tokens, 64, 512}));
    hosts.path.addresses = static_cast<uint32_t>(one_of({1, 1, 3}));
    hosts.completion_ns = static_cast<Nanos>(one_of({0, 0, 300}));
  }
  if (way == 1) return hosts;
  // The switches lack a type and an operation, of those that calls have.
  const bool all = scenario.types == "all";
  const DataType type = all ? kCallerTypes[choices.Below(kCallerTypes.size())].type
                            : static_cast<DataType>(1 + choices.Below(5));
  const ReduceOp op =
      all ? kReduceOps[choices.Below(kDrawnOps)].op : static_cast<ReduceOp>(1 + choices.Below(3));
  hosts.abilities = {};
  for (const auto& has : kDataTypes) {
    if (has.type != type) hosts.abilities.Add(has.type);
  }
  for (const auto& has : kReduceOps) {
    if (has.op != op) hosts.abilities.Add(has.op);
  }
  return hosts;
}

}  // namespace epic::sim
