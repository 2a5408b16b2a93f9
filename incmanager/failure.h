// Why a group or a request failed: what hosts and operators are told, typed. The numbers are those of
// ErrorCode in proto/manager.proto (asserted in rpc/convert.cc), so that policies and groups need no
// generated headers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace epic::manager {

enum class ErrorCode : uint8_t {
  kOk = 0,
  kInvalidArgument = 1,
  kNotFound = 3,
  kAlreadyExists = 4,
  kDuplicateRank = 5,
  kSizeMismatch = 6,
  kJoinTimeout = 7,
  kNoTree = 8,
  kNoResource = 9,
  kMtu = 10,
  kMismatch = 11,
  kRankLost = 12,
  kSwitchLost = 13,
  kAborted = 14,
  kUnsupported = 16,
  kTransport = 17,
  kManagerLost = 18,
  kInternal = 19,
  kLinkLost = 20,
  kFallbackLost = 21,
  kNotFinite = 30,
};

// A code and the sentence for people; names the culprit where there is one.
struct Failure {
  ErrorCode code = ErrorCode::kOk;
  std::string message;
  int32_t rank = -1;        // culprit, -1 if not a rank
  std::string switch_name;  // culprit, empty if not a switch
  std::string brief;        // the message in few words, of what is gone round; empty: they are the same

  const std::string& Brief() const { return brief.empty() ? message : brief; }
  bool ok() const { return code == ErrorCode::kOk; }
};

inline Failure RankFailure(ErrorCode code, uint32_t rank, std::string message) {
  return {code, std::move(message), static_cast<int32_t>(rank), ""};
}
inline Failure SwitchFailure(ErrorCode code, std::string switch_name, std::string message) {
  return {code, std::move(message), -1, std::move(switch_name)};
}

}  // namespace epic::manager
