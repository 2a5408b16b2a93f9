// What the files of the C interface share: types and operations as C names them, and the last error.
#pragma once

#include <chrono>
#include <iterator>
#include <memory>
#include <string>

#include "epic/epic.h"
#include "epic/epic_c.h"
#include "protocol/types.h"

namespace epic::internal {

// Of this thread.
inline std::string& LastError() {
  thread_local std::string text;
  return text;
}

inline epicResult_t Result(const epic::Error& error) {
  if (!error.ok()) LastError() = error.message();
  return static_cast<epicResult_t>(error.code());
}

inline epicResult_t Invalid(const char* what) { return Result({epic::ErrorCode::kInvalidArgument, what}); }

template <typename C, typename Cpp>
struct Pair {
  C c;
  Cpp cpp;
  const char* name;  // in C
};

inline constexpr Pair<epicDataType_t, epic::Datatype> kTypes[] = {
    {epicInt8, epic::Datatype::kInt8, "epicInt8"},
    {epicUint8, epic::Datatype::kUint8, "epicUint8"},
    {epicInt16, epic::Datatype::kInt16, "epicInt16"},
    {epicUint16, epic::Datatype::kUint16, "epicUint16"},
    {epicInt32, epic::Datatype::kInt32, "epicInt32"},
    {epicUint32, epic::Datatype::kUint32, "epicUint32"},
    {epicInt64, epic::Datatype::kInt64, "epicInt64"},
    {epicUint64, epic::Datatype::kUint64, "epicUint64"},
    {epicFloat16, epic::Datatype::kFloat16, "epicFloat16"},
    {epicBfloat16, epic::Datatype::kBFloat16, "epicBfloat16"},
    {epicFloat32, epic::Datatype::kFloat32, "epicFloat32"},
    {epicFloat64, epic::Datatype::kFloat64, "epicFloat64"},
};
inline constexpr Pair<epicRedOp_t, epic::RedOp> kOps[] = {
    {epicSum, epic::RedOp::kSum, "epicSum"},          {epicMin, epic::RedOp::kMin, "epicMin"},
    {epicMax, epic::RedOp::kMax, "epicMax"},          {epicAvg, epic::RedOp::kAvg, "epicAvg"},
    {epicProd, epic::RedOp::kProduct, "epicProd"},    {epicBand, epic::RedOp::kBitAnd, "epicBand"},
    {epicBor, epic::RedOp::kBitOr, "epicBor"},        {epicBxor, epic::RedOp::kBitXor, "epicBxor"},
    {epicLand, epic::RedOp::kLogicalAnd, "epicLand"}, {epicLor, epic::RedOp::kLogicalOr, "epicLor"},
};
// C has every type but bytes, which are epicUint8 there, and the average and every operation but the
// saturating sum, which the library makes of a sum.
static_assert(std::size(kTypes) == epic::kCallerTypes.size() - 1);
static_assert(std::size(kOps) == epic::kReduceOps.size());

// What the C++ interface does not know either is refused here, with the caller's own number.
template <typename C, typename Cpp, size_t n>
epic::Error Convert(const char* what, C value, const Pair<C, Cpp> (&pairs)[n], Cpp* out) {
  std::string known;
  for (const auto& pair : pairs) {
    if (pair.c == value) {
      *out = pair.cpp;
      return {};
    }
    known += (known.empty() ? "" : ", ") + std::string(pair.name);
  }
  return {epic::ErrorCode::kUnsupported,
          "unsupported " + std::string(what) + " " + std::to_string(value) + ": not one of " + known};
}

// What the calls of both kinds of communicators have in common; C is epicComm or epicParallelComm.
inline Options OptionsOf(int nranks, const char* group, const char* manager, int rank) {
  Options options;
  options.group = group != nullptr ? group : "";
  options.manager = manager != nullptr ? manager : "";
  options.rank = rank;
  options.size = nranks > 0 ? nranks : -1;
  return options;
}
template <typename C>
epicResult_t Destroy(C* comm) {
  if (comm == nullptr) return Invalid("comm is null");
  const std::unique_ptr<C> owned(comm);
  return Result(owned->comm.Destroy());
}
template <typename C>
epicResult_t Abort(C* comm) {
  if (comm == nullptr) return Invalid("comm is null");
  comm->comm.Abort();
  return epicSuccess;
}
template <typename C>
epicResult_t GetAsyncError(C* comm, epicResult_t* async_error) {
  if (comm == nullptr || async_error == nullptr) return Invalid("an argument is null");
  *async_error = Result(comm->comm.AsyncError());
  return epicSuccess;
}
template <typename C>
epicResult_t SetTimeout(C* comm, double seconds) {
  if (comm == nullptr || !(seconds > 0 && seconds < 1e9))
    return Invalid("comm is null or the time is not above 0");
  comm->comm.SetTimeout(std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000) + 1));
  return epicSuccess;
}

}  // namespace epic::internal
