// The one place of the manager where Status and grpc::Status meet.
#pragma once

#include <grpcpp/support/status.h>

#include <string>

#include "base/printable.h"
#include "base/status.h"

namespace epic::manager {

// Both enumerations have the numbers of gRPC's specification.
inline grpc::Status ToGrpc(const Status& status) {
  // What quotes a question is as long as that, and gRPC's callers take 8 KB at most.
  return {static_cast<grpc::StatusCode>(status.code()),
          Printable({status.message().data(), status.message().size()})};
}
inline Status FromGrpc(const grpc::Status& status) {
  return MakeStatus(static_cast<StatusCode>(status.error_code()), status.error_message());
}

}  // namespace epic::manager
