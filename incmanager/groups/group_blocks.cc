// Groups whose memory in switches has several owners: policy temporal (docs/DEPLOY.md, "Memory that groups
// share").
#include <fmt/format.h>

#include <string>
#include <vector>

#include "incmanager/groups/group_table.h"

namespace epic::manager {
namespace {

std::string NoBlocksIn(Mode mode) {
  return fmt::format("mode {} has no blocks, which policy temporal needs", NumeralOf(mode));
}

}  // namespace

// Ranks of a group that asks speak as the group's mode has it, whatever single switches do.
Failure GroupTable::RefusesMode(const GroupSpec& spec) {
  if (spec.policy != Policy::kTemporal || !IsMode(spec.mode) || MayHaveBlocks(spec.mode)) return {};
  return {ErrorCode::kUnsupported, NoBlocksIn(spec.mode), -1, ""};
}

// Calls that find the memory taken go between the hosts, also where the group was to go by the network.
Failure GroupTable::RefusesHosts(const Group& group) const {
  if (group.spec.policy != Policy::kTemporal) return {};
  const auto way = WayOfHosts(group, group.path_mtu);
  if (way.ok()) return {};
  Failure failure = way.failure();
  failure.message =
      fmt::format("policy temporal: calls that find their memory taken go between the hosts, and {}",
                  way.failure().message);
  return failure;
}

// Why a switch has no blocks for a group in this mode; empty if it has.
std::string GroupTable::LacksBlocks(NodeId node, Mode mode) const {
  if (IsMode(mode) && !MayHaveBlocks(mode))
    return fmt::format("{}: {}", topology_->nodes[node].name, NoBlocksIn(mode));
  if (!switches_->entry(node).engine.blocks)
    return fmt::format("blocks are not in {}", switches_->NameAndVersion(node));
  return {};
}

// A block is of one core, and so are all its owners.
LowBytes GroupTable::LowBytesOf(const NetworkWay& way) const {
  LowBytes out;
  for (size_t i = 0; i < way.blocks.size(); ++i) {
    const NodeId node = way.tree.inner[i].node;
    if (way.blocks[i].joins) out[node] = load_.at(node).blocks.at(way.blocks[i].number).low_byte;
  }
  return out;
}

// Of a group whose memory is taken: switches and ranks are told of its blocks, and people of those that have
// other owners.
void GroupTable::TellBlocks(Group* group) {
  if (group->spec.policy != Policy::kTemporal) return;
  constexpr size_t kMostNamed = 16;
  std::string shared;
  size_t count = 0;
  for (size_t i = 0; i < group->plan.contexts.size(); ++i) {
    ContextPlan& context = group->plan.contexts[i];
    const Allocation::Region& region = group->allocation->switches[i];
    context.block = region.block;
    context.block_bytes = region.bytes;
    const BlockLoad& block = load_.at(region.node).blocks.at(region.block);
    if (block.owners == 1 || ++count > kMostNamed) continue;
    shared +=
        fmt::format("{}{}: {}", shared.empty() ? "" : "; ", topology_->nodes[region.node].name,
                    BlockWords(region.block, region.bytes, group->allocation->share.duty, block.Taken()));
  }
  for (JoinedReply& reply : group->plan.replies) reply.asks = true;
  if (count == 0) return;
  if (count > kMostNamed) shared += fmt::format("; and {} more", count - kMostNamed);
  world_->Note(fmt::format("group {}: shares memory with others: {}", group->spec.name, shared));
}

}  // namespace epic::manager
