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

// FNV-1a. Each step is reversible, so that no change of a single byte gives the same.
uint64_t DigestOf(const RowKey& row, std::string_view value) {
  uint64_t digest = 0xcbf29ce484222325;
  const auto add = [&digest](uint8_t byte) { digest = (digest ^ byte) * 0x100000001b3; };
  add(static_cast<uint8_t>(row.kind));
  for (size_t size = row.key.size(), i = 0; i < sizeof(size); ++i) add(static_cast<uint8_t>(size >> 8 * i));
  for (const char c : row.key) add(static_cast<uint8_t>(c));
  for (const char c : value) add(static_cast<uint8_t>(c));
  return digest;
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
