#include "sim/topologies.h"

#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/number.h"

namespace epic::sim {
namespace {

// The numbers of "7-2"; none if not all are numbers.
std::vector<int> SizesOf(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, '-');
  std::vector<int> sizes;
  for (const std::string& part : parts) {
    int size = 0;
    if (!ReadNumber(part, &size)) return {};
    sizes.push_back(size);
  }
  return sizes;
}

// The levels of a full tree of that many switches.
std::optional<int> LevelsOf(int switches, int fan) {
  int in_level = 1;
  int levels = 0;
  while (switches > 0) {
    switches -= in_level;
    in_level *= fan;
    ++levels;
  }
  return switches == 0 ? std::optional(levels) : std::nullopt;
}

}  // namespace

StatusOr<TreeSpec> TopologyNamed(const std::string& name) {
  const std::string expected = fmt::format(
      "'{}' is not a topology of 2 to {} hosts: star-N, tree-S-F as tree-3-2 and tree-7-2 (S switches with F "
      "children each), spine-S-L-F (S spines above L leaves with F hosts each), uneven, interleaved",
      name, kMaxHosts);
  if (name == "uneven") return UnevenTree();
  if (name == "interleaved") return InterleavedTree();
  const std::pair<std::string, std::string> parts = absl::StrSplit(name, absl::MaxSplits('-', 1));
  const std::vector<int> sizes = SizesOf(parts.second);
  if (sizes.empty() || std::ranges::min(sizes) < 1 || std::ranges::max(sizes) > kMaxHosts)
    return MakeStatus(StatusCode::kInvalidArgument, expected);
  if (parts.first == "star" && sizes.size() == 1 && sizes[0] >= 2) return Star(sizes[0]);
  if (parts.first == "tree" && sizes.size() == 2 && sizes[1] >= 2) {
    const int switches = sizes[0], fan = sizes[1];
    const auto levels = LevelsOf(switches, fan);
    // The hosts of a full tree: one more than (F - 1) times its switches.
    if (levels && switches * (fan - 1) + 1 <= kMaxHosts) return FullTree(*levels, fan);
  }
  if (parts.first == "spine" && sizes.size() == 3) {
    const int spines = sizes[0], leaves = sizes[1], fan = sizes[2];
    if (leaves * fan >= 2 && leaves * fan <= kMaxHosts) return LeafSpine(leaves, spines, fan);
  }
  return MakeStatus(StatusCode::kInvalidArgument, expected);
}

}  // namespace epic::sim
