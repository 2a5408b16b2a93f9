// The C interface on the C++ one.
#include <memory>
#include <string>

#include "commlib/c_api_types.h"
#include "epic/epic.h"
#include "epic/epic_c.h"

struct epicComm {
  epic::Communicator comm;
  std::string path_reason;  // given out
};
struct epicRequest {
  epic::Request request;
};

static_assert(epicInternalError == static_cast<int>(epic::ErrorCode::kInternal));
static_assert(epicPathNetwork == static_cast<int>(epic::PathChoice::kNetwork) &&
              epicPathHosts == static_cast<int>(epic::PathChoice::kHosts));
static_assert(epicLinkLost == static_cast<int>(epic::ErrorCode::kLinkLost) &&
              epicFallbackLost == static_cast<int>(epic::ErrorCode::kFallbackLost) &&
              epicNotFinite == static_cast<int>(epic::ErrorCode::kNotFinite));

namespace {

using epic::internal::Convert;
using epic::internal::Invalid;
using epic::internal::kOps;
using epic::internal::kTypes;
using epic::internal::LastError;
using epic::internal::Result;

// Types, operation, and the C++ function that does it.
template <typename Call>
epicResult_t Reducing(epicComm_t comm, epicDataType_t datatype, epicRedOp_t op, const Call& call) {
  if (comm == nullptr) return Invalid("comm is null");
  epic::Datatype type;
  epic::RedOp redop;
  if (const epic::Error e = Convert("type", datatype, kTypes, &type); !e.ok()) return Result(e);
  if (const epic::Error e = Convert("operation", op, kOps, &redop); !e.ok()) return Result(e);
  return Result(call(type, redop));
}

template <typename Call>
epicResult_t Copying(epicComm_t comm, epicDataType_t datatype, const Call& call) {
  return Reducing(comm, datatype, epicSum, [&](epic::Datatype type, epic::RedOp) { return call(type); });
}

// The request to fill; null, with *out null, if the caller gave none.
std::unique_ptr<epicRequest> NewRequest(epicRequest_t* out) {
  if (out == nullptr) return nullptr;
  *out = nullptr;
  return std::make_unique<epicRequest>();
}

epicResult_t Started(epicResult_t result, std::unique_ptr<epicRequest> request, epicRequest_t* out) {
  if (result == epicSuccess) *out = request.release();
  return result;
}

}  // namespace

const char* epicGetErrorString(epicResult_t result) {
  return epic::ErrorName(static_cast<epic::ErrorCode>(result));
}

const char* epicGetPathString(epicPath_t path) { return epic::PathName(static_cast<epic::PathChoice>(path)); }

const char* epicGetDataTypeString(epicDataType_t datatype) {
  epic::Datatype type;
  return Convert("type", datatype, kTypes, &type).ok() ? epic::DatatypeName(type) : "unknown";
}

const char* epicGetRedOpString(epicRedOp_t op) {
  epic::RedOp redop;
  return Convert("operation", op, kOps, &redop).ok() ? epic::RedOpName(redop) : "unknown";
}

const char* epicGetLastError(void) { return LastError().c_str(); }

epicResult_t epicCommInitRank(epicComm_t* comm, int nranks, const char* group, const char* manager,
                              int rank) {
  if (comm == nullptr) return Invalid("comm is null");
  *comm = nullptr;
  const epic::Options options = epic::internal::OptionsOf(nranks, group, manager, rank);
  auto result = std::make_unique<epicComm>();
  if (const epic::Error e = result->comm.Init(options); !e.ok()) return Result(e);
  result->path_reason = result->comm.Path().reason;
  *comm = result.release();
  return epicSuccess;
}

epicResult_t epicCommDestroy(epicComm_t comm) { return epic::internal::Destroy(comm); }

epicResult_t epicCommAbort(epicComm_t comm) { return epic::internal::Abort(comm); }

epicResult_t epicCommGetAsyncError(epicComm_t comm, epicResult_t* async_error) {
  return epic::internal::GetAsyncError(comm, async_error);
}

epicResult_t epicCommCount(epicComm_t comm, int* count) {
  if (comm == nullptr || count == nullptr) return Invalid("an argument is null");
  *count = comm->comm.size();
  return epicSuccess;
}

epicResult_t epicCommUserRank(epicComm_t comm, int* rank) {
  if (comm == nullptr || rank == nullptr) return Invalid("an argument is null");
  *rank = comm->comm.rank();
  return epicSuccess;
}

epicResult_t epicCommPath(epicComm_t comm, epicPath_t* path, const char** reason) {
  if (comm == nullptr || path == nullptr) return Invalid("an argument is null");
  *path = static_cast<epicPath_t>(comm->comm.Path().path);
  if (reason != nullptr) *reason = comm->path_reason.c_str();
  return epicSuccess;
}

epicResult_t epicCommQuantised(epicComm_t comm, float* scale, uint64_t* saturated_inputs,
                               uint64_t* saturated_results) {
  if (comm == nullptr) return Invalid("comm is null");
  const epic::Quantisation quantised = comm->comm.Quantised();
  if (scale != nullptr) *scale = quantised.scale;
  if (saturated_inputs != nullptr) *saturated_inputs = quantised.saturated_inputs;
  if (saturated_results != nullptr) *saturated_results = quantised.saturated_results;
  return epicSuccess;
}

epicResult_t epicCommInt8(epicComm_t comm, int* int8) {
  if (comm == nullptr || int8 == nullptr) return Invalid("an argument is null");
  *int8 = comm->comm.Quantised().int8 ? 1 : 0;
  return epicSuccess;
}

epicResult_t epicCommSetQuantise(epicComm_t comm, int on) {
  if (comm == nullptr) return Invalid("comm is null");
  comm->comm.SetQuantise(on != 0);
  return epicSuccess;
}

epicResult_t epicCommSetPriority(epicComm_t comm, double priority) {
  if (comm == nullptr) return Invalid("comm is null");
  return Result(comm->comm.SetPriority(priority));
}

epicResult_t epicCommShared(epicComm_t comm, int* shares, uint64_t* granted, uint64_t* busy) {
  if (comm == nullptr) return Invalid("comm is null");
  const epic::Sharing sharing = comm->comm.Shared();
  if (shares != nullptr) *shares = sharing.shares ? 1 : 0;
  if (granted != nullptr) *granted = sharing.granted;
  if (busy != nullptr) *busy = sharing.busy;
  return epicSuccess;
}

epicResult_t epicCommSetTimeout(epicComm_t comm, double seconds) {
  return epic::internal::SetTimeout(comm, seconds);
}

epicResult_t epicAllReduce(const void* sendbuff, void* recvbuff, size_t count, epicDataType_t datatype,
                           epicRedOp_t op, epicComm_t comm) {
  return Reducing(comm, datatype, op, [&](epic::Datatype type, epic::RedOp redop) {
    return epic::AllReduce(sendbuff, recvbuff, count, type, redop, comm->comm);
  });
}

epicResult_t epicReduce(const void* sendbuff, void* recvbuff, size_t count, epicDataType_t datatype,
                        epicRedOp_t op, int root, epicComm_t comm) {
  return Reducing(comm, datatype, op, [&](epic::Datatype type, epic::RedOp redop) {
    return epic::Reduce(sendbuff, recvbuff, count, type, redop, root, comm->comm);
  });
}

epicResult_t epicBroadcast(const void* sendbuff, void* recvbuff, size_t count, epicDataType_t datatype,
                           int root, epicComm_t comm) {
  return Copying(comm, datatype, [&](epic::Datatype type) {
    return epic::Broadcast(sendbuff, recvbuff, count, type, root, comm->comm);
  });
}

epicResult_t epicReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                               epicDataType_t datatype, epicRedOp_t op, epicComm_t comm) {
  return Reducing(comm, datatype, op, [&](epic::Datatype type, epic::RedOp redop) {
    return epic::ReduceScatter(sendbuff, recvbuff, recvcount, type, redop, comm->comm);
  });
}

epicResult_t epicAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, epicDataType_t datatype,
                           epicComm_t comm) {
  return Copying(comm, datatype, [&](epic::Datatype type) {
    return epic::AllGather(sendbuff, recvbuff, sendcount, type, comm->comm);
  });
}

epicResult_t epicBarrier(epicComm_t comm) {
  if (comm == nullptr) return Invalid("comm is null");
  return Result(epic::Barrier(comm->comm));
}

epicResult_t epicAllReduceAsync(const void* sendbuff, void* recvbuff, size_t count, epicDataType_t datatype,
                                epicRedOp_t op, epicComm_t comm, epicRequest_t* request) {
  auto made = NewRequest(request);
  if (!made) return Invalid("request is null");
  const epicResult_t result = Reducing(comm, datatype, op, [&](epic::Datatype type, epic::RedOp redop) {
    return epic::AllReduceAsync(sendbuff, recvbuff, count, type, redop, comm->comm, &made->request);
  });
  return Started(result, std::move(made), request);
}

epicResult_t epicReduceAsync(const void* sendbuff, void* recvbuff, size_t count, epicDataType_t datatype,
                             epicRedOp_t op, int root, epicComm_t comm, epicRequest_t* request) {
  auto made = NewRequest(request);
  if (!made) return Invalid("request is null");
  const epicResult_t result = Reducing(comm, datatype, op, [&](epic::Datatype type, epic::RedOp redop) {
    return epic::ReduceAsync(sendbuff, recvbuff, count, type, redop, root, comm->comm, &made->request);
  });
  return Started(result, std::move(made), request);
}

epicResult_t epicBroadcastAsync(const void* sendbuff, void* recvbuff, size_t count, epicDataType_t datatype,
                                int root, epicComm_t comm, epicRequest_t* request) {
  auto made = NewRequest(request);
  if (!made) return Invalid("request is null");
  const epicResult_t result = Copying(comm, datatype, [&](epic::Datatype type) {
    return epic::BroadcastAsync(sendbuff, recvbuff, count, type, root, comm->comm, &made->request);
  });
  return Started(result, std::move(made), request);
}

epicResult_t epicReduceScatterAsync(const void* sendbuff, void* recvbuff, size_t recvcount,
                                    epicDataType_t datatype, epicRedOp_t op, epicComm_t comm,
                                    epicRequest_t* request) {
  auto made = NewRequest(request);
  if (!made) return Invalid("request is null");
  const epicResult_t result = Reducing(comm, datatype, op, [&](epic::Datatype type, epic::RedOp redop) {
    return epic::ReduceScatterAsync(sendbuff, recvbuff, recvcount, type, redop, comm->comm, &made->request);
  });
  return Started(result, std::move(made), request);
}

epicResult_t epicAllGatherAsync(const void* sendbuff, void* recvbuff, size_t sendcount,
                                epicDataType_t datatype, epicComm_t comm, epicRequest_t* request) {
  auto made = NewRequest(request);
  if (!made) return Invalid("request is null");
  const epicResult_t result = Copying(comm, datatype, [&](epic::Datatype type) {
    return epic::AllGatherAsync(sendbuff, recvbuff, sendcount, type, comm->comm, &made->request);
  });
  return Started(result, std::move(made), request);
}

epicResult_t epicBarrierAsync(epicComm_t comm, epicRequest_t* request) {
  auto made = NewRequest(request);
  if (comm == nullptr || !made) return Invalid("an argument is null");
  const epicResult_t result = Result(epic::BarrierAsync(comm->comm, &made->request));
  return Started(result, std::move(made), request);
}

epicResult_t epicTest(epicRequest_t request, int* done) {
  if (request == nullptr || done == nullptr) return Invalid("an argument is null");
  *done = request->request.Test() ? 1 : 0;
  return epicSuccess;
}

epicResult_t epicWait(epicRequest_t request) {
  if (request == nullptr) return Invalid("request is null");
  const std::unique_ptr<epicRequest> owned(request);
  return Result(owned->request.Wait());
}

epicResult_t epicCommRegister(epicComm_t comm, void* buff, size_t size, void** handle) {
  if (handle != nullptr) *handle = nullptr;
  if (comm == nullptr || handle == nullptr) return Invalid("an argument is null");
  auto registration = std::make_unique<epic::Registration>();
  const epic::Error e = epic::Register(comm->comm, buff, size, registration.get());
  if (e.ok()) *handle = registration.release();
  return Result(e);
}

epicResult_t epicCommDeregister(epicComm_t comm, void* handle) {
  if (comm == nullptr || handle == nullptr) return Invalid("an argument is null");
  delete static_cast<epic::Registration*>(handle);
  return epicSuccess;
}
