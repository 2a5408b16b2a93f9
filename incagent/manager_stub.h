// An agent's line to its manager.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>

#include "base/grpc/channel.h"

namespace epic::agent {

inline grpc::ChannelArguments ManagerArguments() {
  grpc::ChannelArguments args;
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
              2000);  // an attempt may take so long: the manager may be late
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  GiveUpDeadPeers(&args);
  return args;
}

// Of a call to it.
inline void SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(2));
}

// The call has not been answered in time.
inline bool IsSilent(const grpc::Status& status) { return status.error_code() == grpc::DEADLINE_EXCEEDED; }
// The same, or nobody can be reached, or who is there stands by; else it has been refused.
inline bool IsAway(const grpc::Status& status) {
  return status.error_code() == grpc::UNAVAILABLE || IsSilent(status);
}

}  // namespace epic::agent
