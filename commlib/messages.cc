#include "commlib/messages.h"

#include <fmt/format.h>

namespace epic {

const char* ErrorName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kOk:
      return "ok";
    case ErrorCode::kInvalidArgument:
      return "invalid argument";
    case ErrorCode::kManagerUnreachable:
      return "manager unreachable";
    case ErrorCode::kNotFound:
      return "not found";
    case ErrorCode::kAlreadyExists:
      return "already exists";
    case ErrorCode::kDuplicateRank:
      return "duplicate rank";
    case ErrorCode::kSizeMismatch:
      return "size mismatch";
    case ErrorCode::kJoinTimeout:
      return "join timeout";
    case ErrorCode::kNoTree:
      return "no tree";
    case ErrorCode::kNoResource:
      return "no resource";
    case ErrorCode::kMtu:
      return "path MTU";
    case ErrorCode::kMismatch:
      return "mismatch";
    case ErrorCode::kRankLost:
      return "rank lost";
    case ErrorCode::kSwitchLost:
      return "switch lost";
    case ErrorCode::kAborted:
      return "aborted";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kTransport:
      return "transport";
    case ErrorCode::kManagerLost:
      return "manager lost";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "unknown error";
}

namespace internal {
namespace {

std::string CollectiveName(Collective collective) {
  if (collective == Collective::kAllReduce) return "AllReduce";
  if (collective == Collective::kBarrier) return "Barrier";
  return fmt::format("collective {}", static_cast<int>(collective));
}

std::string TypeName(DataType type) {
  return type == DataType::kFloat32 ? "float32" : type == DataType::kInt32 ? "int32" : "none";
}

std::string Value(const ControlHeader& header, ControlField field) {
  switch (field) {
    case ControlField::kCollective:
      return CollectiveName(header.collective);
    case ControlField::kOp:
      return header.op == ReduceOp::kSum ? "sum" : "none";
    case ControlField::kType:
      return TypeName(header.type);
    case ControlField::kRoot:
      return std::to_string(header.root);
    case ControlField::kCount:
      return std::to_string(header.count);
    case ControlField::kParts:
      return std::to_string(header.parts);
    case ControlField::kFlags:
      return std::to_string(header.flags);
    case ControlField::kInvocation:
      return std::to_string(header.invocation);
    case ControlField::kNone:
      break;
  }
  return "?";
}

// The reply has the group's values, not the culprit's.
Error MismatchError(const ControlHeader& reply, const ControlHeader& here) {
  const std::string mine = Value(here, reply.field), group = Value(reply, reply.field);
  const std::string which = fmt::format("rank {} called with another {}", reply.culprit, Name(reply.field));
  if (mine == group)
    return {ErrorCode::kMismatch, fmt::format("{} than this rank and the group ({})", which, group)};
  return {ErrorCode::kMismatch, fmt::format("{} (here {}, group {})", which, mine, group)};
}

}  // namespace

Error RefusalError(const ControlHeader& reply, const ControlHeader& here) {
  switch (reply.status) {
    case ControlStatus::kMismatch:
      return MismatchError(reply, here);
    case ControlStatus::kNoResource:
      return {ErrorCode::kNoResource, "a switch has no resources left for this call"};
    case ControlStatus::kUnsupported:
      return {ErrorCode::kUnsupported, fmt::format("a switch cannot do this {} of {}",
                                                   CollectiveName(here.collective), TypeName(here.type))};
    case ControlStatus::kAborted:
      return {ErrorCode::kAborted, "the switches have stopped the group"};
    case ControlStatus::kOk:
      break;
  }
  return {ErrorCode::kInternal, "the switches refused the call without a reason"};
}

}  // namespace internal
}  // namespace epic
