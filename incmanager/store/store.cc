#include "incmanager/store/store.h"

namespace epic::manager {

std::string_view Name(RowKind kind) {
  switch (kind) {
    case RowKind::kMeta:
      return "meta";
    case RowKind::kReserved:
      return "reserved";
    case RowKind::kLives:
      return "lives";
    case RowKind::kTenant:
      return "tenant";
    case RowKind::kEvent:
      return "event";
    case RowKind::kSwitch:
      return "switch";
    case RowKind::kGroup:
      return "group";
    case RowKind::kEnded:
      return "ended";
  }
  return "unknown";
}

std::optional<RowKind> RowKindOf(int64_t number) {
  for (const RowKind kind : kRowKinds) {
    if (static_cast<int64_t>(kind) == number) return kind;
  }
  return std::nullopt;
}

size_t SizeOf(const RowChange& change) {
  return change.row.key.size() + (change.value ? change.value->size() : 0);
}

size_t SizeOf(const Batch& batch) {
  size_t bytes = 0;
  for (const RowChange& change : batch) bytes += SizeOf(change);
  return bytes;
}

}  // namespace epic::manager
