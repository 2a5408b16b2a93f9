// The C interface on the C++ one.
#include <memory>
#include <string>

#include "epic/epic.h"
#include "epic/epic_c.h"

struct epicComm {
  epic::Communicator comm;
};
struct epicRequest {
  epic::Request request;
};

static_assert(epicInternalError == static_cast<int>(epic::ErrorCode::kInternal));

namespace {

std::string& LastError() {
  thread_local std::string text;
  return text;
}

epicResult_t Result(const epic::Error& error) {
  if (!error.ok()) LastError() = error.message();
  return static_cast<epicResult_t>(error.code());
}

epicResult_t Invalid(const char* what) { return Result({epic::ErrorCode::kInvalidArgument, what}); }

// What the C++ interface does not know either is refused here, with the caller's own number.
epic::Error Convert(epicDataType_t type, epicRedOp_t op, epic::Datatype* datatype) {
  if (type != epicFloat32 && type != epicInt32) {
    return {epic::ErrorCode::kUnsupported,
            "datatype " + std::to_string(type) + " is not supported (epicFloat32 and epicInt32 are)"};
  }
  if (op != epicSum) {
    return {epic::ErrorCode::kUnsupported,
            "operation " + std::to_string(op) + " is not supported (epicSum is)"};
  }
  *datatype = type == epicFloat32 ? epic::Datatype::kFloat32 : epic::Datatype::kInt32;
  return {};
}

}  // namespace

const char* epicGetErrorString(epicResult_t result) {
  return epic::ErrorName(static_cast<epic::ErrorCode>(result));
}

const char* epicGetLastError(void) { return LastError().c_str(); }

epicResult_t epicCommInitRank(epicComm_t* comm, int nranks, const char* group, const char* manager,
                              int rank) {
  if (comm == nullptr) return Invalid("comm is null");
  *comm = nullptr;
  epic::Options options;
  options.group = group != nullptr ? group : "";
  options.manager = manager != nullptr ? manager : "";
  options.rank = rank;
  options.size = nranks > 0 ? nranks : -1;
  auto result = std::make_unique<epicComm>();
  if (const epic::Error e = result->comm.Init(options); !e.ok()) return Result(e);
  *comm = result.release();
  return epicSuccess;
}

epicResult_t epicCommDestroy(epicComm_t comm) {
  if (comm == nullptr) return Invalid("comm is null");
  const std::unique_ptr<epicComm> owned(comm);
  return Result(owned->comm.Destroy());
}

epicResult_t epicCommAbort(epicComm_t comm) {
  if (comm == nullptr) return Invalid("comm is null");
  comm->comm.Abort();
  return epicSuccess;
}

epicResult_t epicCommGetAsyncError(epicComm_t comm, epicResult_t* async_error) {
  if (comm == nullptr || async_error == nullptr) return Invalid("an argument is null");
  *async_error = Result(comm->comm.AsyncError());
  return epicSuccess;
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

epicResult_t epicCommSetTimeout(epicComm_t comm, double seconds) {
  if (comm == nullptr || !(seconds > 0 && seconds < 1e9))
    return Invalid("comm is null or the time is not above 0");
  comm->comm.SetTimeout(std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000) + 1));
  return epicSuccess;
}

epicResult_t epicAllReduce(const void* sendbuff, void* recvbuff, size_t count, epicDataType_t datatype,
                           epicRedOp_t op, epicComm_t comm) {
  if (comm == nullptr) return Invalid("comm is null");
  epic::Datatype type;
  if (const epic::Error e = Convert(datatype, op, &type); !e.ok()) return Result(e);
  return Result(epic::AllReduce(sendbuff, recvbuff, count, type, epic::RedOp::kSum, comm->comm));
}

epicResult_t epicBarrier(epicComm_t comm) {
  if (comm == nullptr) return Invalid("comm is null");
  return Result(epic::Barrier(comm->comm));
}

epicResult_t epicAllReduceAsync(const void* sendbuff, void* recvbuff, size_t count, epicDataType_t datatype,
                                epicRedOp_t op, epicComm_t comm, epicRequest_t* request) {
  if (comm == nullptr || request == nullptr) return Invalid("an argument is null");
  *request = nullptr;
  epic::Datatype type;
  if (const epic::Error e = Convert(datatype, op, &type); !e.ok()) return Result(e);
  auto result = std::make_unique<epicRequest>();
  const epic::Error e =
      epic::AllReduceAsync(sendbuff, recvbuff, count, type, epic::RedOp::kSum, comm->comm, &result->request);
  *request = e.ok() ? result.release() : nullptr;
  return Result(e);
}

epicResult_t epicBarrierAsync(epicComm_t comm, epicRequest_t* request) {
  if (comm == nullptr || request == nullptr) return Invalid("an argument is null");
  auto result = std::make_unique<epicRequest>();
  const epic::Error e = epic::BarrierAsync(comm->comm, &result->request);
  *request = e.ok() ? result.release() : nullptr;
  return Result(e);
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
  if (comm == nullptr || handle == nullptr) return Invalid("an argument is null");
  auto registration = std::make_unique<epic::Registration>();
  const epic::Error e = epic::Register(comm->comm, buff, size, registration.get());
  *handle = e.ok() ? registration.release() : nullptr;
  return Result(e);
}

epicResult_t epicCommDeregister(epicComm_t comm, void* handle) {
  if (comm == nullptr || handle == nullptr) return Invalid("an argument is null");
  delete static_cast<epic::Registration*>(handle);
  return epicSuccess;
}
