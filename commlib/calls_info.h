// What a rank tells of its calls when the manager asks (docs/PROTOCOL-CONTROL.md, section 7.3).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace epic::proto {
class ClientMessage;
}

namespace epic::internal {

// As MadeCall in proto/manager.proto.
struct MadeCallInfo {
  int64_t number = 0;  // of its communicator's calls, from 0
  std::string collective;
  std::chrono::milliseconds for_time{0};  // since it was made
};

// Of one communicator, at one moment.
struct CallsInfo {
  std::string group;
  int64_t made = 0;
  std::vector<MadeCallInfo> open;  // the first kMostOpenTold that have not ended, in order
  bool waits = false;              // a thread waits for one of them
  bool leaves = false;             // Destroy has been called
  std::vector<uint32_t> awaits;    // between the hosts: ranks from which something must come before it goes on
};

inline constexpr size_t kMostOpenTold = 16;
inline constexpr size_t kMostElsewhereTold = 8;

// The answer to AskCalls. others: of the other communicators of the process; those with open calls are told of,
// and first those in which a thread waits.
proto::ClientMessage ToProto(const CallsInfo& own, const std::vector<CallsInfo>& others);

}  // namespace epic::internal
