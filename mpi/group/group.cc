#include "mpi/group/group.h"

#include <epic/epic.h>

#include <array>
#include <cstdlib>
#include <type_traits>
#include <utility>

namespace epic::mpi {
namespace {

// By EpicMpiType and EpicMpiOp; what those lack does not come here (mpi/core/decide.h).
constexpr std::array<Datatype, kEpicMpiTypes> kDatatypes = {
    Datatype::kByte,   Datatype::kFloat32, Datatype::kFloat64, Datatype::kInt8,
    Datatype::kInt16,  Datatype::kInt32,   Datatype::kInt64,   Datatype::kUint8,
    Datatype::kUint16, Datatype::kUint32,  Datatype::kUint64};
constexpr std::array<RedOp, kEpicMpiOps> kRedOps = {
    RedOp::kSum,    RedOp::kSum,   RedOp::kProduct, RedOp::kMin,        RedOp::kMax,
    RedOp::kBitAnd, RedOp::kBitOr, RedOp::kBitXor,  RedOp::kLogicalAnd, RedOp::kLogicalOr};

PathChoice PathNamed(const std::string& name) {
  if (name == "network") return PathChoice::kNetwork;
  return name == "hosts" ? PathChoice::kHosts : PathChoice::kAuto;
}

HostAlgorithm AlgorithmNamed(const std::string& name) {
  if (name == "ring") return HostAlgorithm::kRing;
  if (name == "multicast") return HostAlgorithm::kMulticast;
  return name == "doubling" ? HostAlgorithm::kDoubling : HostAlgorithm::kAuto;
}

// What was called went wrong for this reason.
std::string TextOf(const Error& error) {
  return error.ok() ? "" : std::string(ErrorName(error.code())) + ": " + error.message();
}

class EpicPending : public Pending {
 public:
  explicit EpicPending(Request request) : request_(std::move(request)) {}

  bool Test() override { return request_.Test(); }
  std::string Result() override { return TextOf(request_.Wait()); }

 private:
  Request request_;
};

// Calls the one of both that takes these arguments.
template <typename Waiting, typename Starting, typename... Arguments>
Error Fitting(Waiting wait, Starting start, Arguments&&... arguments) {
  if constexpr (std::is_invocable_v<Waiting, Arguments...>)
    return wait(arguments...);
  else
    return start(arguments...);
}

class EpicGroup : public Group {
 public:
  JoinResult Join(const std::string& name, int rank, int ranks, const Settings& settings,
                  void (*progress)(), const std::function<bool()>& gives_up) override {
    Options options;
    options.group = name;
    options.rank = rank;
    options.size = ranks;
    options.manager = settings.manager;
    // Rank 0's settings hold for all. And the program may write variables meanwhile.
    options.environment = false;
    options.ifname = settings.ifname;
    options.mode = settings.mode;
    options.path = PathNamed(settings.path);
    options.algorithm = AlgorithmNamed(settings.algorithm);
    // Longer calls are the MPI's.
    options.max_bytes = settings.max_bytes == UINT64_MAX ? 0 : settings.max_bytes;
    options.types = settings.types;
    // A rank may come to a barrier an hour late: no deadline but one that the user has set.
    options.timeout = settings.timeout.count() > 0 ? settings.timeout : std::chrono::milliseconds::max();
    options.join_timeout = settings.join_timeout;
    options.manager_timeout = settings.manager_timeout;
    options.while_waiting = progress;
    options.gives_up = gives_up;
    const Error error = comm_.Init(options);
    return {.refusal = TextOf(error),
            .for_others = error.code() == ErrorCode::kJoinTimeout,
            .lasting = error.code() == ErrorCode::kManagerUnreachable || error.code() == ErrorCode::kNotFound,
            .lacking = error.code() == ErrorCode::kNoResource};
  }

  bool Takes(const EpicMpiCall& call, std::string* text) override {
    const PathTaken taken = Taken(call);
    if (taken.path == PathChoice::kDefault) {
      *text = taken.reason;
      return false;
    }
    *text = taken.path != PathChoice::kHosts ? "through the switches"
            : taken.reason.empty()           ? "between the hosts"
                                             : "between the hosts: " + taken.reason;
    return true;
  }

  Started Start(const EpicMpiCall& call, const void* send, void* recv, std::unique_ptr<Pending>* pending,
                std::string* message) override {
    Request request;
    const Error error = Post(call, send, recv, &request);
    *message = TextOf(error);
    if (error.ok()) {
      *pending = std::make_unique<EpicPending>(std::move(request));
      return Started::kYes;
    }
    return error.code() == ErrorCode::kNoResource && comm_.AsyncError().ok() ? Started::kLater
                                                                             : Started::kFailed;
  }

  std::string Run(const EpicMpiCall& call, const void* send, void* recv) override {
    return TextOf(Post(call, send, recv));
  }

  bool IsWhole() override { return comm_.AsyncError().ok(); }

  void Abort(const std::string& reason) override { comm_.Abort(reason); }

  void Leave(std::chrono::milliseconds at_most) override {
    comm_.SetTimeout(at_most);
    // What ended the group has been returned by a call; without one there is nobody to tell.
    (void)comm_.Destroy();
  }

 private:
  PathTaken Taken(const EpicMpiCall& call) const {
    switch (call.collective) {
      case kEpicMpiBarrier:
        return comm_.Path();
      case kEpicMpiBcast:
      case kEpicMpiAllgather:
        return comm_.PathOf(Datatype::kByte);
      case kEpicMpiReduceScatterBlock:
      case kEpicMpiReduceScatter:
        return comm_.PathOfReduceScatter(static_cast<size_t>(call.count), kDatatypes[call.type],
                                         kRedOps[call.op]);
      default:
        return comm_.PathOf(kDatatypes[call.type], kRedOps[call.op]);
    }
  }

  // Starts a call, with a request, or makes it, without.
  template <typename... AsRequest>
  Error Post(const EpicMpiCall& call, const void* send, void* recv, AsRequest*... request) {
    const auto count = static_cast<size_t>(call.count);
    const auto bytes = static_cast<size_t>(call.bytes);
    const Datatype type = kDatatypes[call.type];
    const RedOp op = kRedOps[call.op];
    const int root = call.root;
    switch (call.collective) {
      case kEpicMpiAllreduce:
        return Fitting(AllReduce, AllReduceAsync, send, recv, count, type, op, comm_, request...);
      case kEpicMpiReduce:
        return Fitting(Reduce, ReduceAsync, send, recv, count, type, op, root, comm_, request...);
      case kEpicMpiBcast:
        return Fitting(Broadcast, BroadcastAsync, send, recv, bytes, Datatype::kByte, root, comm_,
                       request...);
      case kEpicMpiAllgather:
        return Fitting(AllGather, AllGatherAsync, send, recv, bytes, Datatype::kByte, comm_, request...);
      case kEpicMpiReduceScatterBlock:
      case kEpicMpiReduceScatter:
        return Fitting(ReduceScatter, ReduceScatterAsync, send, recv, count, type, op, comm_, request...);
      case kEpicMpiBarrier:
        return Fitting(Barrier, BarrierAsync, comm_, request...);
      case kEpicMpiCollectives:
        break;
    }
    return {ErrorCode::kInvalidArgument, "no such collective"};
  }

  Communicator comm_;
};

}  // namespace
}  // namespace epic::mpi

extern "C" __attribute__((visibility("default"))) epic::mpi::Group* EpicMpiNewGroup() {
  return new epic::mpi::EpicGroup;
}
