// What a call of the manager's ended with, in words where gRPC has only its own.
#pragma once

#include <grpcpp/grpcpp.h>

namespace epic::manager {

// The same status, but: UNAVAILABLE says what that means where nothing listens, or listens any more;
// CANCELLED, which a manager's end makes of the calls that are under way, is UNAVAILABLE and says so; and
// FAILED_PRECONDITION, where an agent has not answered the manager in time, says that.
grpc::Status InWords(const grpc::Status& status);

}  // namespace epic::manager
