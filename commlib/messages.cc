#include "commlib/messages.h"

#include <fmt/format.h>

#include "commlib/arguments.h"
#include "commlib/core/host_algorithm.h"

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
    case ErrorCode::kLinkLost:
      return "link lost";
    case ErrorCode::kFallbackLost:
      return "fallback lost";
    case ErrorCode::kNotFinite:
      return "not finite";
  }
  return "unknown error";
}

namespace internal {

Error ForkedError() {
  return {ErrorCode::kInvalidArgument,
          "the communicator belongs to the process that this one was forked from (docs/HOST.md, Fork)"};
}

Error ForkedInitError() {
  return {ErrorCode::kInvalidArgument,
          "the process that this one was forked from has called Init: fork before the first Init, or exec "
          "(docs/HOST.md, Fork)"};
}
namespace {

std::string CollectiveName(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return "AllReduce";
    case Collective::kReduce:
      return "Reduce";
    case Collective::kBroadcast:
      return "Broadcast";
    case Collective::kBarrier:
      return "Barrier";
    case Collective::kReduceScatter:
      return "ReduceScatter";
    case Collective::kAllGather:
      return "AllGather";
  }
  return fmt::format("collective {}", static_cast<int>(collective));
}

// What a rank of a later version calls has a number alone.
std::string NameOrNumber(auto value) {
  return IsLater(value) ? fmt::format("number {}", static_cast<int>(value)) : std::string(NameOf(value));
}

std::string OpName(const ControlHeader& header) {
  if ((header.flags & kAverageFlag) != 0) return "avg";
  // What was called, not what became of it.
  return IsScaled(header) && header.op == ReduceOp::kSaturatingSum ? "sum" : NameOrNumber(header.op);
}

// Beside another call's: FP32's are another operation on the way than INT32's.
std::string OpInFull(const ControlHeader& header) {
  return OpName(header) + (IsScaled(header) ? " of float32" : "");
}

std::string TypeName(const ControlHeader& header) {
  if (IsInBlocks(header)) return NameOrNumber(header.called) + " as blocks of int8";
  return IsScaled(header) ? std::string(NameOf(DataType::kFloat32)) : NameOrNumber(header.type);
}

// Which field differs in the flags: MIN and MAX have no average, and so are of FP32 or INT32 there
// (quantised).
ControlField FieldOfFlags(const ControlHeader& reply) {
  const bool extremum = reply.op == ReduceOp::kMin || reply.op == ReduceOp::kMax;
  return extremum ? ControlField::kType : ControlField::kOp;
}

std::string Value(const ControlHeader& header, ControlField field) {
  switch (field) {
    case ControlField::kCollective:
      return CollectiveName(header.collective);
    case ControlField::kOp:
      return OpInFull(header);
    case ControlField::kType:
      return TypeName(header);
    case ControlField::kRoot:
      return std::to_string(header.root);
    case ControlField::kCount:
      return std::to_string(CalledElements(header));
    case ControlField::kParts:
      return std::to_string(header.parts);
    case ControlField::kInvocation:
      return std::to_string(header.invocation);
    case ControlField::kAlgorithm:
      return AlgorithmName(header.flags);
    case ControlField::kNone:
    case ControlField::kFlags:  // FieldOfFlags
      break;
  }
  return "?";
}

// The reply has rank 0's values, not the culprit's; of a slice, if the call has several.
Error MismatchError(const ControlHeader& reply, const ControlHeader& here, uint32_t rank, bool in_slices) {
  const bool sliced = in_slices || SlicesLeft(reply) > 0;
  const ControlField field = reply.field == ControlField::kFlags ? FieldOfFlags(reply) : reply.field;
  const std::string which = MismatchInWords(reply);
  if (reply.field == ControlField::kFlags && !Reduces(reply.collective)) return {ErrorCode::kMismatch, which};
  if (sliced && reply.field == ControlField::kCount) return {ErrorCode::kMismatch, which};
  const std::string first = Value(reply, field), own = Value(here, field);
  const std::string more = own == first ? "" : fmt::format(", rank {}: {}", rank, own);
  return {ErrorCode::kMismatch, fmt::format("{} (rank 0: {}{})", which, first, more)};
}

// The reply has the first call that came to the switch, which may be another rank's and differ from this
// one's.
Error UnsupportedError(const ControlHeader& reply, const ControlHeader& here) {
  const bool same = reply.collective == here.collective && reply.type == here.type && reply.op == here.op;
  const std::string whose = same ? "this" : fmt::format("rank {}'s", reply.culprit);
  const std::string what = reply.field == ControlField::kOp ? OpName(reply) + " of " : "";
  return {ErrorCode::kUnsupported, fmt::format("a switch cannot do {} {} of {}{}", whose,
                                               CollectiveName(reply.collective), what, TypeName(reply))};
}

}  // namespace

std::string MismatchInWords(const ControlHeader& reply) {
  // SUM and AVG differ in the flags, of reductions; what else does follows from the call.
  if (reply.field == ControlField::kFlags && !Reduces(reply.collective))
    return fmt::format("rank {} called by another version of the library", reply.culprit);
  const ControlField field = reply.field == ControlField::kFlags ? FieldOfFlags(reply) : reply.field;
  return fmt::format("rank {} called with another {} than rank 0", reply.culprit, Name(field));
}

std::string NotFiniteInWords(const ControlHeader& call, uint32_t rank, uint64_t element, float value) {
  return fmt::format(
      "rank {} called {} with {} as element {}: what is not finite is no whole number (quantise)", rank,
      CollectiveName(call.collective), value, element);
}

Error RefusalError(const ControlHeader& reply, const ControlHeader& here, uint32_t rank, bool in_slices) {
  switch (reply.status) {
    case ControlStatus::kMismatch:
      return MismatchError(reply, here, rank, in_slices);
    case ControlStatus::kNoResource:
      return {ErrorCode::kNoResource, "a switch has no resources left for this call"};
    case ControlStatus::kUnsupported:
      return UnsupportedError(reply, here);
    case ControlStatus::kAborted:
      return {ErrorCode::kAborted, "the switches have stopped the group"};
    case ControlStatus::kOk:
    case ControlStatus::kBusy:
      break;
  }
  return {ErrorCode::kInternal, "the switches refused the call without a reason"};
}

}  // namespace internal
}  // namespace epic
