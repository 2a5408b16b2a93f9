// Whether a stream to the manager that has broken may be followed by another one (docs/PROTOCOL-CONTROL.md, section 15).
#pragma once

#include <grpcpp/support/status.h>

#include <optional>
#include <string>

#include "commlib/session_state.h"

namespace epic::internal {

// manager: its address, or that of this host's daemon. joined: what the rank was told, if it was.
inline bool StreamMayReturn(const std::string& manager, const std::optional<JoinedInfo>& joined,
                            grpc::StatusCode code) {
  // A host's daemon says so if it has lost the manager. When it goes itself the manager lives and knows its ranks, but
  // those that join are not known yet.
  const bool daemon_ended = manager.starts_with("unix:") && code != grpc::StatusCode::ABORTED;
  if (joined) return !joined->secret.empty() && (daemon_ended || joined->durable);
  if (daemon_ended) return false;
  return code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::CANCELLED ||
         code == grpc::StatusCode::ABORTED;
}

}  // namespace epic::internal
