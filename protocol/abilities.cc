#include "protocol/abilities.h"

#include "protocol/flow.h"

namespace epic {
namespace {

static_assert(kDataTypes.size() < 32 && kReduceOps.size() < 32, "numbers are bits");

constexpr uint32_t BitOf(auto number) { return uint32_t{1} << static_cast<uint32_t>(number); }

std::string Choice(const auto& table) {
  std::string names;
  for (const auto& row : table) names.append(names.empty() ? "" : ", ").append(row.name);
  return names;
}

// Those of the table that `has`, behind what they are: "types float64 and int64".
std::string Listed(const char* what, const auto& table, const auto& has) {
  std::string names, last;
  size_t count = 0;
  for (const auto& row : table) {
    if (!has(row)) continue;
    if (!last.empty()) names.append(names.empty() ? "" : ", ").append(last);
    last = row.name;
    ++count;
  }
  if (count == 0) return {};
  return std::string(what) + (count == 1 ? " " : "s ") + (names.empty() ? last : names + " and " + last);
}

// Calls add(item) for each item between commas, to the first that it refuses.
std::string ForEachItem(std::string_view list, const auto& add) {
  for (;;) {
    const size_t comma = list.find(',');
    if (std::string wrong = add(list.substr(0, comma)); !wrong.empty()) return wrong;
    if (comma == std::string_view::npos) return {};
    list.remove_prefix(comma + 1);
  }
}

}  // namespace

Abilities Abilities::All() {
  Abilities all;
  all.turns = true;
  all.priorities = true;
  for (const TypeInfo& row : kDataTypes) all.Add(row.type);
  for (const OpInfo& row : kReduceOps) all.Add(row.op);
  return all;
}

Abilities Abilities::First() {
  Abilities first;
  for (const DataType type :
       {DataType::kFloat32, DataType::kInt32, DataType::kFloat16, DataType::kBFloat16, DataType::kByte})
    first.Add(type);
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax}) first.Add(op);
  return first;
}

void Abilities::Add(DataType type) {
  if (FindType(type) != nullptr) types_ |= BitOf(type);
}

void Abilities::Add(ReduceOp op) {
  if (FindOp(op) != nullptr) ops_ |= BitOf(op);
}

bool Abilities::Has(DataType type) const { return FindType(type) != nullptr && (types_ & BitOf(type)) != 0; }

bool Abilities::Has(ReduceOp op) const { return FindOp(op) != nullptr && (ops_ & BitOf(op)) != 0; }

Abilities Abilities::With(const Abilities& other) const {
  Abilities both = *this;
  both.turns = turns && other.turns;
  both.priorities = priorities && other.priorities;
  both.types_ &= other.types_;
  both.ops_ &= other.ops_;
  return both;
}

Abilities Abilities::Within(uint32_t factor) const {
  Abilities within = *this;
  for (const TypeInfo& row : kDataTypes) {
    if (AccumulatorFactor(row.type) > factor) within.types_ &= ~BitOf(row.type);
  }
  return within;
}

Abilities Abilities::Lacking(const Abilities& other) const {
  Abilities lacking = other;
  lacking.turns = false;
  lacking.priorities = false;
  lacking.types_ &= ~types_;
  lacking.ops_ &= ~ops_;
  return lacking;
}

std::string LackOf(const Abilities& abilities, const ControlHeader& call) {
  if (call.collective == Collective::kBarrier || call.count == 0 || IsByHosts(call)) return {};
  if (!abilities.Has(call.type)) return "type " + std::string(NameOf(call.type));
  if (Reduces(call.collective) && !abilities.Has(call.op)) return "operation " + std::string(NameOf(call.op));
  return {};
}

std::string NamesOf(const Abilities& abilities) {
  const std::string types =
      Listed("type", kDataTypes, [&](const TypeInfo& row) { return abilities.Has(row.type); });
  const std::string ops =
      Listed("operation", kReduceOps, [&](const OpInfo& row) { return abilities.Has(row.op); });
  return types + (types.empty() || ops.empty() ? "" : ", ") + ops;
}

bool CanServe(const Abilities& abilities, const ControlHeader& call) {
  if (call.count == 0 || IsByHosts(call)) return true;
  return LackOf(abilities, call).empty() && (!Reduces(call.collective) || CanReduce(call.op, call.type));
}

std::string AddTypes(std::string_view list, Abilities* abilities) {
  return ForEachItem(list, [&](std::string_view item) -> std::string {
    const auto type = TypeNamed(item);
    if (!type) return "'" + std::string(item) + "' is not a type: " + Choice(kDataTypes);
    abilities->Add(*type);
    return {};
  });
}

std::string AddOps(std::string_view list, Abilities* abilities) {
  return ForEachItem(list, [&](std::string_view item) -> std::string {
    const auto op = OpNamed(item);
    if (!op) return "'" + std::string(item) + "' is not an operation: " + Choice(kReduceOps);
    abilities->Add(*op);
    return {};
  });
}

}  // namespace epic
