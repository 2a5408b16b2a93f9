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
};

enum class ReduceOp : uint8_t {
  kNone = 0,  // of a barrier
  kSum = 1,
};

// Bytes of one element; 0 for kNone and unknown values.
constexpr uint32_t ElementBytes(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kInt32 ? 4 : 0;
}

// Ranks may run ahead of one another by at most this many invocations of a group: a host opens invocation k
// only when its own invocation k - kMaxOpenInvocations has completed.
inline constexpr int64_t kMaxOpenInvocations = 16;

// Largest data of one invocation: 1 GiB.
inline constexpr uint64_t kMaxBytes = 1ull << 30;

}  // namespace epic
