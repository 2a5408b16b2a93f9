#include "protocol/types.h"

namespace epic {
namespace {

constexpr bool EveryRowIsInItsPlace() {
  for (size_t i = 0; i < kDataTypes.size(); ++i) {
    if (static_cast<size_t>(kDataTypes[i].type) != i + 1) return false;
    if (TypeNamed(kDataTypes[i].name) != kDataTypes[i].type || kDataTypes[i].bytes == 0) return false;
  }
  for (size_t i = 0; i < kReduceOps.size(); ++i) {
    if (static_cast<size_t>(kReduceOps[i].op) != i + 1) return false;
    if (OpNamed(kReduceOps[i].name) != kReduceOps[i].op) return false;
  }
  return true;
}
static_assert(EveryRowIsInItsPlace(), "row n - 1 is number n, with a name of its own");

static_assert(std::ranges::all_of(kDataTypes,
                                  [](const TypeInfo& row) {
                                    const bool is_callers =
                                        static_cast<size_t>(row.type) <= kCallerTypes.size();
                                    return is_callers == (row.kind != ElementKind::kBlocks);
                                  }),
              "programs call with the first rows");

// A packet holds whole elements, and so does what is left of the first behind its header.
constexpr bool EveryElementFits() {
  return std::ranges::all_of(kDataTypes, [](const TypeInfo& row) { return 64 % row.bytes == 0; });
}
static_assert(EveryElementFits());

}  // namespace
}  // namespace epic
