// Trees that go strictly upwards, tier by tier (EPIC paper, sections 6.1, 6.2 and appendix L): policies edt,
// spatial and temporal. Pure functions: graph, load and request in, a tree with what it takes, or a refusal,
// out.
//
// The tier of a switch is the number of links to its nearest host, less one. Every edge of such a tree is one
// link from a tier to the next; links inside a tier are not used, and a switch with one child is in the tree,
// too. So a group's way in the network is what the tree says, and nothing that ordinary forwarding decides.
//
// edt: no link, those of hosts included, is in two trees of this policy. The tree is on the lowest tier from
// which a switch reaches all hosts over free links; there at the switch with fewest groups, then the first by
// name.
//
// spatial: a link's width is what is not reserved of its rate, shared by those that reserve nothing and the
// new group; a switch's is the rate that its free bytes sustain (RateOfBuffer); a tree's is the least of
// both. Of each tier the widest tree counts if it is wider than those of all tiers below.
//
// temporal: as spatial, but a switch's memory is a block, of which groups may have a part of the time
// (blocks.h): a new one, if as many bytes are free as the group needs, else one that is there, large enough
// and with so much time left. A switch's width is the rate that its free bytes sustain, as of spatial; where
// the group joins a block, the rate that the block's bytes sustain times the part of the time that is left.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "incmanager/failure.h"
#include "incmanager/policies/blocks.h"
#include "incmanager/policies/explain.h"
#include "incmanager/policies/load.h"
#include "incmanager/policies/tree.h"
#include "incmanager/result.h"
#include "incmanager/topology.h"

namespace epic::manager {

enum class Policy : uint8_t { kUnspecified, kShortest, kEdt, kSpatial, kTemporal };
enum class Prefer : uint8_t { kUnspecified, kAuto, kLatency, kBandwidth };

// "shortest", "edt", "spatial", "temporal"; "auto", "latency", "bandwidth".
const char* Name(Policy policy);
const char* Name(Prefer prefer);
// Nothing if it is none of them.
std::optional<Policy> PolicyNamed(std::string_view text);
std::optional<Prefer> PreferNamed(std::string_view text);
// Of spatial and temporal: whether its trees have widths, that prefer and rate speak of.
inline bool HasWidths(Policy policy) { return policy == Policy::kSpatial || policy == Policy::kTemporal; }

struct PlaceRequest {
  Policy policy = Policy::kSpatial;  // not kShortest
  // Of the trees of spatial and temporal: the one on the lowest tier, the widest, or (auto) the first that
  // has the rate, the widest without one.
  Prefer prefer = Prefer::kAuto;
  uint64_t rate_kbps = 0;          // of these two: a tree that is narrower is none
  std::vector<NodeId> rank_hosts;  // the host of each rank; ranks may share one
  bool reproducible = false;
  // Bytes that each switch of a tree would give for it, by Tree::inner; or why no group can have that tree,
  // whatever is free.
  std::function<Result<std::vector<uint64_t>>(const Tree&)> bytes_of;
  // Of temporal. It joins blocks of its own tenant alone: what is kept for one has no other owners.
  TimeShare share;
  std::string tenant;
};

// Something that is in the way of a tree.
struct Constraint {
  enum class Kind : uint8_t {
    kLink,      // it is taken (edt), or too narrow for the rate
    kAbility,   // a switch cannot take part, or lacks what is asked for
    kChildren,  // a switch would have more than it takes
    kSustain,   // a switch's free bytes sustain less than the rate
    kMemory,    // a switch has fewer free bytes than its context takes, and no block as large
    kDuty,      // nor so much time left in one of its blocks that are as large
  };
  Kind kind = Kind::kLink;
  LinkEnd link;           // of kLink: by the end that compares less
  NodeId node = kNoNode;  // of all others
  std::string text;

  friend auto operator<=>(const Constraint& a, const Constraint& b) {
    return std::tie(a.kind, a.link, a.node) <=> std::tie(b.kind, b.link, b.node);
  }
  friend bool operator==(const Constraint& a, const Constraint& b) { return (a <=> b) == 0; }
};

struct Placed {
  Tree tree;
  std::vector<uint64_t> bytes;      // as PlaceRequest::bytes_of
  std::vector<BlockChoice> blocks;  // the same; of temporal
  std::vector<LinkEnd> links;  // of the tree, those to hosts included, by the ends that compare less; sorted
  uint64_t width_kbps = 0;
};

// failure: kNoTree where the graph has no such tree, whatever is free, and of an ability; else kNoResource.
// It names the first constraint; or what bytes_of says of every tree. constraints: without all of them there
// is a tree, without any of them less there is none. Empty if it is not for what is taken or lacking.
struct Refusal {
  Failure failure;
  std::vector<Constraint> constraints;
};

// offers: by NodeId of the switch. choices: if given, each switch as the root, by NodeId.
std::variant<Placed, Refusal> Place(const Topology& topology, const Load& load,
                                    const std::vector<SwitchOffer>& offers, const PlaceRequest& request,
                                    std::vector<RootChoice>* choices = nullptr);

// By NodeId; UINT32_MAX of hosts and of switches that no host reaches.
std::vector<uint32_t> TiersOf(const Topology& topology);

// What a new group has of a link, in kbit/s.
uint64_t WidthOfLink(const Topology& topology, const Load& load, LinkEnd lesser);

}  // namespace epic::manager
