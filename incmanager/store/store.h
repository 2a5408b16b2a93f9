// What outlives the manager: rows of a kind, a key and a value, changed by transactions. What the values are
// is for proto/store.proto to say; here they are bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/status.h"

namespace epic::manager {

// Of a row. Numbers and names stay what they are: they are in files. What each is: PROTOCOL-CONTROL.md, 15.
enum class RowKind : uint8_t {
  kMeta = 1,
  kReserved = 2,
  kLives = 3,
  kTenant = 4,
  kEvent = 5,
  kSwitch = 6,
  kGroup = 7,
  kEnded = 8
};
inline constexpr RowKind kRowKinds[] = {RowKind::kMeta,   RowKind::kReserved, RowKind::kLives,
                                        RowKind::kTenant, RowKind::kEvent,    RowKind::kSwitch,
                                        RowKind::kGroup,  RowKind::kEnded};
// "meta", "reserved"; "unknown" if it is none.
std::string_view Name(RowKind kind);
// Nothing if it is none of them.
std::optional<RowKind> RowKindOf(int64_t number);

struct RowKey {
  RowKind kind = RowKind::kMeta;
  std::string key;
  auto operator<=>(const RowKey&) const = default;
};

// A row that is put, in place of one that is there with its key, or dropped, whether or not it is there.
struct RowChange {
  RowKey row;
  std::optional<std::string> value;  // nothing: it is dropped
  bool operator==(const RowChange&) const = default;
};

// Of a row, by which it is found to be another than was written. No change of a single byte gives the same.
uint64_t DigestOf(const RowKey& row, std::string_view value);

// In this order: the last one of a row counts.
using Batch = std::vector<RowChange>;
// Bytes of its key and value, or of its keys and values, together.
size_t SizeOf(const RowChange& change);
size_t SizeOf(const Batch& batch);

using Contents = std::map<RowKey, std::string>;

// Of one batch. More is a mistake of whoever made it.
struct BatchBounds {
  size_t bytes, rows;
  bool Has(size_t more_bytes, size_t more_rows) const { return more_bytes <= bytes && more_rows <= rows; }
};

class Store {
 public:
  // Of a store that has no bounds of its own: a group of the most ranks on the largest network is below.
  static constexpr size_t kMostBytes = 16 << 20;

  virtual ~Store() = default;
  virtual BatchBounds bounds() const { return {.bytes = kMostBytes, .rows = SIZE_MAX}; }
  // All rows. DATA_LOSS if something is damaged, with the place.
  virtual StatusOr<Contents> Load() = 0;
  // When it returns all of the batch is kept, also when power goes, or nothing of it (an error, with the
  // system's words). INVALID_ARGUMENT above the bounds; RESOURCE_EXHAUSTED when there is no room. What holds
  // it no more keeps nothing.
  virtual Status Apply(const Batch& batch) = 0;
  // Nothing more is asked of it. May write, and wait for its disk.
  virtual void Close() {}
  // Where it is, for people: "/var/lib/epic".
  virtual std::string Place() const = 0;
  // Whether this process still is the one that may write here. When it is not, what it has to say is another
  // one's to say. Thread-safe, and does not wait.
  virtual bool Holds() const { return true; }
  // The number of this holding, above those of all before; nothing if whoever holds it has to count himself.
  virtual std::optional<uint64_t> Epoch() const { return std::nullopt; }
};

}  // namespace epic::manager
