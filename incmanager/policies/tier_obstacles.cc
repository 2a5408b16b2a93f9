// What is in the way of trees, in words, and what a switch gives for its part of one.
#include <fmt/format.h>

#include <set>

#include "incmanager/policies/borne.h"
#include "incmanager/policies/memory.h"
#include "incmanager/policies/tier_search.h"

namespace epic::manager {
namespace {

std::string Gbps(uint64_t kbps) { return fmt::format("{:g}", static_cast<double>(kbps) * 1e-6); }

}  // namespace

std::string TierSearch::LinkBlocked(LinkEnd lesser) const {
  const auto between = [&] {
    return fmt::format("the link between {} and {}", topology_.Describe(lesser),
                       topology_.Describe(topology_.Across(lesser)));
  };
  if (LinkIsFree(lesser)) return {};
  if (topology_.nodes[lesser.node].hops[lesser.hop].unheard)
    return between() + " has a carrier, but nobody has been heard there";
  if (!topology_.Carries(lesser)) return between() + " is down";
  if (request_.policy == Policy::kEdt) return between() + " is in another tree of policy edt";
  const uint64_t width = WidthOfLink(topology_, load_, lesser);
  return fmt::format("{} has {} Gbit/s for the group{}", between(), Gbps(width),
                     request_.rate_kbps == 0 ? "" : fmt::format(", {} needed", Gbps(request_.rate_kbps)));
}

std::string TierSearch::SwitchBlocked(NodeId node) const {
  const SwitchOffer& offer = offers_[node];
  const std::string& name = topology_.nodes[node].name;
  if (!offer.unusable.empty()) return fmt::format("{}: {}", name, offer.unusable);
  if (!offer.lacks.empty()) return offer.lacks;
  if (offer.small_payload) return fmt::format("the payload that is asked for is too large for {}", name);
  return {};
}

Constraint TierSearch::NoMemory(NodeId node, uint64_t needed) const {
  const SwitchOffer& offer = offers_[node];
  std::string text = MemoryWords(topology_.nodes[node].name, needed, offer.room, offer.arena_bytes);
  if (request_.policy == Policy::kTemporal)
    text += NoBlockWords(load_.at(node).blocks, WishAt(node, needed, 0));
  if (!offer.kept.empty()) text += "; " + offer.kept;
  return {.kind = Constraint::Kind::kMemory, .node = node, .text = std::move(text)};
}

Constraint TierSearch::TooManyChildren(NodeId node, uint64_t children) const {
  return {.kind = Constraint::Kind::kChildren,
          .node = node,
          .text = fmt::format("{} would have {} children in this group; it takes at most {}",
                              topology_.nodes[node].name, children, offers_[node].max_children)};
}

Constraint TierSearch::TooSlow(NodeId node, uint64_t width) const {
  return {.kind = Constraint::Kind::kSustain,
          .node = node,
          .text = fmt::format("the free memory of {} sustains {} Gbit/s, {} needed",
                              topology_.nodes[node].name, Gbps(width), Gbps(request_.rate_kbps))};
}

BlockWish TierSearch::WishAt(NodeId node, uint64_t bytes, uint32_t root_tier) const {
  const ModeInfo* const mode = FindMode(offers_[node].mode);
  const bool bears = mode != nullptr && mode->bears_hosts;
  return {.bytes = bytes,
          .share = request_.share,
          .tenant = request_.tenant,
          .low_byte = bears ? std::optional(kBorneLowByte) : std::nullopt,
          .room = offers_[node].room,
          .sustains = [this, node, root_tier](uint64_t usable_bytes) {
            return WidthAt(node, root_tier, usable_bytes) >= request_.rate_kbps;
          }};
}

// What a switch of a tree gives for it, of the bytes that it is asked for; or what is in the way of that.
std::variant<BlockChoice, Constraint> TierSearch::MemoryAt(const Placed& placed, size_t inner) const {
  const NodeId node = placed.tree.inner[inner].node;
  const uint64_t bytes = placed.bytes[inner];
  const uint64_t room = offers_[node].room;
  if (request_.policy != Policy::kTemporal) {
    if (bytes > room) return NoMemory(node, bytes);
    return BlockChoice{.bytes = bytes, .usable_bytes = room};
  }
  const uint32_t root_tier = tiers_[placed.tree.inner[0].node];
  const BlockLoads& blocks = load_.at(node).blocks;
  const BlockWish wish = WishAt(node, bytes, root_tier);
  const auto choice = ChooseBlock(blocks, wish);
  const auto* none = std::get_if<NoBlock>(&choice);
  if (none == nullptr) return std::get<BlockChoice>(choice);
  if (none->why == NoBlock::Why::kSustain) return TooSlow(node, WidthAt(node, root_tier, none->usable_bytes));
  Constraint out = NoMemory(node, bytes);
  if (none->why == NoBlock::Why::kDuty) out.kind = Constraint::Kind::kDuty;
  return out;
}

std::vector<Constraint> TierSearch::InTheWayOf(const Placed& placed) const {
  std::vector<Constraint> out;
  const auto add_link = [&](LinkEnd link) {
    if (std::string text = LinkBlocked(link); !text.empty())
      out.push_back({.kind = Constraint::Kind::kLink, .link = link, .text = std::move(text)});
  };
  std::set<LinkEnd> of_hosts;
  for (const NodeId host : request_.rank_hosts) {
    if (const LinkEnd link = Lesser(topology_.AttachedEnd(host)); of_hosts.insert(link).second)
      add_link(link);
  }
  for (const LinkEnd& link : placed.links) {
    if (!of_hosts.contains(link)) add_link(link);
  }
  for (size_t i = 0; i < placed.tree.inner.size(); ++i) {
    const TreeInner& inner = placed.tree.inner[i];
    const SwitchOffer& offer = offers_[inner.node];
    if (std::string text = SwitchBlocked(inner.node); !text.empty())
      out.push_back({.kind = Constraint::Kind::kAbility, .node = inner.node, .text = std::move(text)});
    if (inner.children.size() > offer.max_children)
      out.push_back(TooManyChildren(inner.node, inner.children.size()));
    auto memory = MemoryAt(placed, i);
    auto* const blocked = std::get_if<Constraint>(&memory);
    const uint64_t usable =
        blocked == nullptr ? std::get<BlockChoice>(memory).usable_bytes : most_usable_[inner.node];
    const uint64_t width = WidthAt(inner.node, tiers_[placed.tree.inner[0].node], usable);
    if (width < request_.rate_kbps && (blocked == nullptr || request_.policy != Policy::kTemporal))
      out.push_back(TooSlow(inner.node, width));
    if (blocked != nullptr) out.push_back(std::move(*blocked));
  }
  return out;
}

}  // namespace epic::manager
