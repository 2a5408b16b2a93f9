// What a collective is, as hosts and switches name it to each other in control packets (docs/PROTOCOL.md).
#pragma once

#include <cstdint>

namespace epic {

enum class Collective : uint8_t {
  kAllReduce = 1,
  kReduce = 2,
  kBroadcast = 3,
  kBarrier = 4,
  kReduceScatter = 5,
  kAllGather = 6,
};

enum class DataType : uint8_t {
  kNone = 0,  // of a barrier
  kFloat32 = 1,
  kInt32 = 2,
  kFloat16 = 3,   // IEEE 754 binary16
  kBFloat16 = 4,  // the upper half of a binary32
  kByte = 5,      // copies only: Broadcast and AllGather
};

enum class ReduceOp : uint8_t {
  kNone = 0,  // of a barrier and of copies
  kSum = 1,
  kMin = 2,
  kMax = 3,
};

// Bytes of one element; 0 for kNone and unknown values.
constexpr uint32_t ElementBytes(DataType type) {
  switch (type) {
    case DataType::kFloat32:
    case DataType::kInt32:
      return 4;
    case DataType::kFloat16:
    case DataType::kBFloat16:
      return 2;
    case DataType::kByte:
      return 1;
    case DataType::kNone:
      break;
  }
  return 0;
}

// Ranks may run ahead of one another by at most this many invocations of a group: a host opens invocation k
// only when its own invocation k - kMaxOpenInvocations has completed.
inline constexpr int64_t kMaxOpenInvocations = 16;

// Largest data of one invocation, all parts together: 1 GiB. At 256 bytes per packet that is a quarter of the
// PSN space.
inline constexpr uint64_t kMaxBytes = 1ull << 30;

// The largest inline limit that a group may have: two such control messages, one to send and one to receive,
// fill 64 KiB.
inline constexpr uint32_t kMaxInlineBytes = 32 * 1024 - 64;

}  // namespace epic
