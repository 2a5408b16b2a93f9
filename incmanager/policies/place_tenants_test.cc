// Tenants' guarantees, whatever the policies place.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "incmanager/policies/place.h"
#include "incmanager/policies/place_testing.h"
#include "incmanager/policies/tenants.h"

namespace epic::manager {
namespace {

using testing::Random;
using testing::Roll;

// A network where links are no obstacle, with groups of tenants and of none in it.
class Market {
 public:
  explicit Market(Random* random) : random_(random), topology_(testing::AnyTiers(random)) {
    for (Node& node : topology_.nodes) {
      for (Hop& hop : node.hops) hop.rate_gbps *= 1'000;
    }
    for (const NodeId node : topology_.switches)
      memories_.push_back({node, topology_.nodes[node].name, 1 << 20});
  }

  // A guarantee is given or changed, a group comes, or one goes.
  void Step() {
    const std::string name = kNames[Roll(random_, kNames.size())];
    if (!name.empty() && Roll(random_, 8) == 0) {
      static_cast<void>(
          tenants_.Set({.name = name, .guaranteed_bytes = Roll(random_, 600'000)}, memories_, load_));
    } else if (!taken_.empty() && Roll(random_, 4) == 0) {
      std::swap(taken_[Roll(random_, static_cast<uint32_t>(taken_.size()))], taken_.back());
      load_.Undo(taken_.back());
      taken_.pop_back();
    } else {
      PlaceRequest request = Any(name, 1'000 + Roll(random_, 400'000));
      if (request.policy == Policy::kTemporal) request.share.duty = 1 + Roll(random_, kWholeTime);
      const auto outcome = PlaceFor(request, load_);
      const auto* placed = std::get_if<Placed>(&outcome);
      if (placed == nullptr) return;
      taken_.push_back(testing::AllocationOf(*placed, request));
      load_.Apply(taken_.back());
    }
  }

  // Every tenant gets a group of what its guarantee still has on all switches, wherever there is a tree.
  void ExpectHonoured() {
    for (const Tenant& tenant : tenants_.List()) {
      uint64_t unmet = UINT64_MAX;
      for (const SwitchMemory& memory : memories_) {
        ASSERT_LE(load_.at(memory.node).bytes, memory.arena_bytes) << memory.name;
        const auto& has = load_.of(tenant.name).bytes;
        const auto found = has.find(memory.node);
        const uint64_t bytes = found == has.end() ? 0 : found->second;
        unmet = std::min(unmet, tenant.guaranteed_bytes - std::min(tenant.guaranteed_bytes, bytes));
      }
      if (unmet == 0) continue;
      const PlaceRequest request = Any(tenant.name, unmet);
      if (PlaceFor(request, Load{}).index() != 0) continue;  // the graph has no such tree
      const auto outcome = PlaceFor(request, load_);
      const auto* refusal = std::get_if<Refusal>(&outcome);
      ASSERT_EQ(refusal, nullptr) << tenant.name << " is kept " << unmet << ": " << refusal->failure.message;
      ++honoured_;
    }
  }
  int honoured() const { return honoured_; }

 private:
  PlaceRequest Any(const std::string& tenant, uint64_t bytes) {
    const auto switches = static_cast<uint32_t>(topology_.switches.size());
    const uint32_t all = static_cast<uint32_t>(topology_.nodes.size()) - switches;
    std::vector<NodeId> hosts;
    for (uint32_t i = 0; i < 2 + Roll(random_, 3); ++i) hosts.push_back(switches + Roll(random_, all));
    const Policy policy = Roll(random_, 2) == 0 ? Policy::kSpatial : Policy::kTemporal;
    PlaceRequest request = testing::Request(hosts, policy, bytes);
    request.prefer = static_cast<Prefer>(1 + Roll(random_, 3));
    request.tenant = tenant;
    return request;
  }
  std::variant<Placed, Refusal> PlaceFor(const PlaceRequest& request, const Load& load) const {
    std::vector<SwitchOffer> offers = testing::AllAlike(topology_);
    for (const SwitchMemory& memory : memories_)
      offers[memory.node].room = tenants_.RoomOf(request.tenant, memory, load).bytes;
    return Place(topology_, load, offers, request);
  }

  static constexpr std::array<const char*, 4> kNames{"", "red", "green", "blue"};

  Random* random_;
  Topology topology_;
  std::vector<SwitchMemory> memories_;
  Tenants tenants_;
  Load load_;
  std::vector<Allocation> taken_;
  int honoured_ = 0;
};

TEST(PlaceTenants, GuaranteesAreAlwaysHonoured) {
  int honoured = 0;
  testing::ForSeeds([&](Random* random) {
    Market market(random);
    for (int step = 0; step < 30 && !::testing::Test::HasFatalFailure(); ++step) {
      market.Step();
      market.ExpectHonoured();
    }
    honoured += market.honoured();
  });
  if (std::getenv("EPIC_PLACE_SEED") != nullptr) return;
  EXPECT_GT(honoured, 1'000);
}

}  // namespace
}  // namespace epic::manager
