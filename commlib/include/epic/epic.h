// EPIC: collectives that the network computes. This is the C++ interface; epic_c.h has the same for C.
//
//   epic::Communicator comm;
//   epic::Error error = comm.Init();  // rank, size and manager come from the environment
//   if (error.ok()) error = epic::AllReduce(in, out, n, epic::Datatype::kFloat32, epic::RedOp::kSum, comm);
//   if (!error.ok()) std::fprintf(stderr, "%s\n", error.message().c_str());
//
// Threads: any thread may call any function, also on the same communicator. All ranks must make the same
// calls in the same order. Calls of several threads take the order in which they get the communicator's
// mutex, so the program must order calls that race. No other use of an object may overlap with Init, Destroy
// or its destructor.
//
// Fork: a child must not use its parent's communicators, nor call Init once its parent has (docs/HOST.md).
//
// Errors: no function throws. A call that is refused before anything is sent (kInvalidArgument, kUnsupported,
// kNoResource) leaves the communicator usable. Every other error is final for the whole group, on all ranks.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#define EPIC_VERSION_MAJOR 0
#define EPIC_VERSION_MINOR 1
#define EPIC_VERSION_PATCH 0

#if defined(__GNUC__)
#define EPIC_API __attribute__((visibility("default")))
#else
#define EPIC_API
#endif

namespace epic {

namespace internal {
class Comm;
struct Call;
class Region;
class Starter;
}  // namespace internal

// What went wrong, as specific as is known; messages name ranks, hosts and switches.
enum class ErrorCode : int {
  kOk = 0,
  kInvalidArgument = 1,
  kManagerUnreachable = 2,
  kNotFound = 3,  // no such group, host or device
  kAlreadyExists = 4,
  kDuplicateRank = 5,
  kSizeMismatch = 6,  // ranks disagree on the size of the group
  kJoinTimeout = 7,   // the message names the ranks that did not come
  kNoTree = 8,        // no switch reaches all hosts
  kNoResource = 9,    // memory of a switch or of this host
  kMtu = 10,
  kMismatch = 11,  // ranks called with different arguments
  kRankLost = 12,
  kSwitchLost = 13,
  kAborted = 14,
  kTimeout = 15,
  kUnsupported = 16,
  kTransport = 17,  // a queue pair failed
  kManagerLost = 18,
  kInternal = 19,
  kLinkLost = 20,      // the message names both ends
  kFallbackLost = 21,  // the host that lends a group memory beside its switch; the message names it
  kNotFinite = 30,     // a rank's input has an infinity or a NaN where the group quantises; names the rank
};

// The name of a code in lower case, for example "rank lost". Never null.
EPIC_API const char* ErrorName(ErrorCode code);

// Success, or a code with a message for people.
class [[nodiscard]] Error {
 public:
  Error() = default;
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == ErrorCode::kOk; }
  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  ErrorCode code_ = ErrorCode::kOk;
  std::string message_;
};

// Bytes can be copied (Broadcast, AllGather), not reduced. Other values are refused with kUnsupported.
enum class Datatype : int {
  kFloat32 = 1,
  kInt32 = 2,
  kFloat16 = 3,   // IEEE 754 binary16
  kBFloat16 = 4,  // the upper half of a binary32
  kByte = 5,
  kFloat64 = 6,
  kInt64 = 7,
  kUint64 = 8,
  kUint32 = 9,
  kInt8 = 10,
  kUint8 = 11,
  kInt16 = 12,
  kUint16 = 13,
};
// Integers wrap (docs/PROTOCOL.md, section 8). kAvg is kSum in the network; every rank that gets the result
// divides it by the number of ranks, integers truncating toward zero. The bitwise and the logical operations
// are of integers; the latter give 0 or 1. A type that lacks the operation is refused with kUnsupported,
// which names both.
enum class RedOp : int {
  kSum = 1,
  kMin = 2,
  kMax = 3,
  kAvg = 4,
  kProduct = 5,
  kBitAnd = 6,
  kBitOr = 7,
  kBitXor = 8,
  kLogicalAnd = 9,
  kLogicalOr = 10,
};

// Which way data go: through the switches, which compute on the way, or between the hosts themselves.
enum class PathChoice : int {
  kDefault = 0,  // what the environment says, else how the group was created, else kAuto
  kAuto = 1,     // the network's where a tree of switches can be had, else the hosts'
  kNetwork = 2,  // where no tree can be had, Init returns why
  kHosts = 3,
};

// Their names, as in EPIC_PATH and EPIC_TYPES: "network", "float32"; of others "unknown". Never null.
EPIC_API const char* PathName(PathChoice path);
EPIC_API const char* DatatypeName(Datatype type);
EPIC_API const char* RedOpName(RedOp op);

// How the hosts compute a call among themselves (docs/HOST.md, "Which way a call goes").
enum class HostAlgorithm : int {
  kDefault = 0,  // what the environment says, else kAuto
  kAuto = 1,  // by size and number of ranks; in a group by the hosts also kMulticast, where that is shorter
  kDoubling = 2,  // in the messages by which the ranks agree on the call, 32 KiB - 64 bytes at a time
  kRing = 3,      // in pieces around the ring of ranks
  // Broadcast and AllGather by datagrams that the network copies: each byte passes each link once; all others
  // as by kAuto. If network or NICs do not carry them, or not all ranks ask, Init says so (kUnsupported).
  kMulticast = 4,
};

// The way taken, and if it is the hosts' the reason: "leaf3 has 0.2 of 1.0 MiB free".
struct PathTaken {
  PathChoice path = PathChoice::kDefault;  // kNetwork or kHosts; kDefault of no communicator, or no call
  std::string reason;
};

// How to join a group. What is left at its default comes from the environment: EPIC_GROUP, EPIC_RANK,
// EPIC_SIZE, EPIC_MANAGER, EPIC_IFNAME, EPIC_MODE, EPIC_PATH (auto, network, hosts), EPIC_ALGORITHM (auto,
// doubling, ring, multicast), EPIC_RECEIVES, EPIC_MAX_BYTES, EPIC_TYPES, EPIC_QUANTISE, EPIC_PRIORITY,
// EPIC_TIMEOUT, EPIC_JOIN_TIMEOUT, EPIC_MANAGER_TIMEOUT, EPIC_MANAGER_AWAY (seconds); else rank and size from
// what torchrun, mpirun and srun set (docs/HOST.md, "Environment"). A group of one needs no manager, no port.
struct Options {
  std::string group;  // name; "default" if nobody says otherwise
  int rank = -1;
  int size = -1;
  std::string manager;  // HOST:PORT, or several by commas, of which one leads
  std::string ifname;   // network device of the RoCE port; else the first active port with an IPv4 address
  int mode = 0;  // of the group: a mode's number (docs/DEPLOY.md); 0: as created, else the manager's default
  // milliseconds::max() is for ever.
  std::chrono::milliseconds timeout{0};          // deadline of each call; 30 minutes if nobody says otherwise
  std::chrono::milliseconds join_timeout{0};     // wait for the other ranks; else the manager's default
  std::chrono::milliseconds manager_timeout{0};  // to reach the manager; 10 s if nobody says otherwise
  std::chrono::milliseconds manager_away{-1};    // how long it may be gone; 0: not at all; below: 60 s, as above
  // If this rank's join creates the group, by this path; if it has another one then, Init is refused.
  PathChoice path = PathChoice::kDefault;
  HostAlgorithm algorithm = HostAlgorithm::kDefault;  // of the calls between hosts; the same on every rank
  uint32_t receives = 0;  // of datagrams, for multicast: 64 to 8,192 (docs/HOST.md); 0: 1,024
  // What the group is for, so that switches keep less memory for it (docs/DEPLOY.md, "Memory to fit"): how
  // long its calls are at most, all ranks' shares together, in bytes (0: of any length; longer ones work, and
  // take longer), and of which types (names as "int32,float32"; empty: of any), which its switches must have
  // then, while sums of FP16 and BF16 that are not named are not for them. All ranks say the same, or
  // Init is refused; in a group that its operator created these are not looked at.
  uint64_t max_bytes = 0;
  std::string types;
  // What FP32 is multiplied by, to be summed as INT32 (docs/HOST.md, "FP32 over integers"), from 1e-20 to
  // 1e20; 0: as the group was created, else FP32 is summed as such. If this rank's join creates the group,
  // the others must say the same; else the group must have that scale. Init is refused if not.
  float quantise = 0;
  bool quantise_int8 = false;  // instead: FP sums travel as blocks of INT8 (docs/HOST.md, "Blocks of INT8")
  double priority = 0;         // of calls in mode V, until SetPriority: from 2^-16 to 65,535; 0: 1
  bool environment = true;  // false: what is left at its default is not looked for in the environment
  // Called again and again by a thread that waits for a call, in the collective itself or in Request::Wait,
  // so that what else it has to do goes on; the thread polls then, however long that takes. Not by Destroy,
  // nor while another thread waits for calls of this communicator already. Must not throw, wait for calls of
  // this communicator, nor end it.
  std::function<void()> while_waiting;
  // If set, asked about ten times a second by Init, while it waits for the manager and the other ranks: true
  // ends that with kAborted. May be asked once more after that. Must not throw.
  std::function<bool()> gives_up;
};

// What a switch has counted of a group and what is zero where no packet is lost and no host is late: what it
// has had to send again or to refuse (docs/DEPLOY.md, "When it does not work").
struct TroubleCount {
  std::string switch_name;  // or "rank 3", of this one's datagrams
  std::string what;  // "repeats", "drop_duplicate", ...
  uint64_t count = 0;
};

// For whom a group waits, as far as its switches and ranks know (docs/HOST.md, "Whom a group waits for"). All is
// empty while no call is open.
struct WaitState {
  // "allreduce 17: waits for rank 1 (h1) since 4.2 s; ranks 0, 2, 3 have called; rank 1 is in no call: it
  // computes, or waits for something else"
  std::string words;
  std::string collective;  // "allreduce"; empty if nobody who answers has the call open
  // Counted from 0; through switches each slice of a long call by itself, and between the hosts the calls that
  // the program makes. -1: none that is known.
  int64_t call = -1;
  std::chrono::milliseconds for_time{0};  // that the first rank to make the call has waited
  std::vector<int> ranks;                 // for whom it waits; empty: nobody is in the way
  std::vector<std::string> silent;  // switches that do not answer: of the ranks below them nothing is known
};

// How a group sums FP32 as INT32 (docs/HOST.md, "FP32 over integers"), and elements that have come to a limit
// of INT32 at this rank so far. A result that is counted in none of `saturated_results` is exact but for the
// rounding of the inputs and its own.
struct Quantisation {
  float scale = 0;                 // 0: it does not
  uint64_t saturated_inputs = 0;   // of this rank's inputs, when they were multiplied
  uint64_t saturated_results = 0;  // of the results that it has received
  bool int8 = false;       // it does not, but sums with more bytes than plain_bytes travel as blocks of INT8
  size_t plain_bytes = 0;  // of all ranks' shares together
  int levels = 0;          // of switches, or of hosts one after the other, that make such a sum blocks
};

// Of a group whose memory in switches other groups own, too (policy temporal; docs/HOST.md, "Memory that
// groups share"): how many of this rank's calls so far were granted it, and how many went by the hosts
// because another group had it. The same on all ranks, between calls.
struct Sharing {
  bool shares = false;
  uint64_t granted = 0;
  uint64_t busy = 0;
};

// Of a group whose Broadcast and AllGather may go as datagrams (HostAlgorithm::kMulticast; docs/HOST.md,
// "Datagrams"): what has become of those at this rank so far. A chunk is what one datagram carries.
struct DatagramCounts {
  bool multicast = false;
  uint64_t expected = 0;  // chunks that other ranks were to send
  uint64_t came = 0;
  uint64_t read = 0;      // chunks that had not come, read from the neighbour's memory
  // Datagrams dropped: of no rank of the group, of another call, of a chunk that is not its sender's, of another
  // length, of a chunk that was there.
  uint64_t stranger = 0, stale = 0, alien = 0, length = 0, again = 0;
};

// This process's rank in a group. Movable; a moved-from or default object refuses all calls with
// kInvalidArgument.
class EPIC_API Communicator {
 public:
  Communicator();
  // Without Destroy this leaves the group as Abort does.
  ~Communicator();
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;

  // Joins: returns when all ranks have joined and the switches are set up, or with the reason why not; then
  // the object is as it was before, with nothing left of the attempt, and Init can be called again.
  Error Init(const Options& options = {});
  // Collective: waits for this rank's outstanding calls and until every rank has called it, then leaves the
  // group. The object can be initialised again afterwards, whatever was returned. kRankLost if a rank has
  // gone before all have left, though it had called it.
  Error Destroy();
  // Ends all calls of all ranks with kAborted, here at once. Destroy afterwards releases what is left.
  void Abort(const std::string& reason = "");
  // The error that ended the group, also if no call is outstanding; ok while it works.
  Error AsyncError() const;
  // Asks the manager what the group's switches have counted since it was made: what is not zero, from the
  // tree's root on, as far as the switches answer. kManagerUnreachable or kTimeout, after 15 s at most, and
  // nothing else changes. Not while Destroy runs.
  Error Trouble(std::vector<TroubleCount>* counts) const;
  // Asks the manager whom the group waits for, which asks switches and ranks: 2 s at most for ranks that do not
  // answer. Of a group of one rank nothing is known. Errors as Trouble.
  Error Waiting(WaitState* state) const;

  bool valid() const { return impl_ != nullptr; }
  int rank() const;
  int size() const;
  // RoCE payload of a packet, bytes.
  int path_mtu() const;
  // Which way the group's calls go. Where that is the network's, a call that its switches lack, and a large
  // ReduceScatter, may go between the hosts all the same: PathOf, PathOfReduceScatter.
  PathTaken Path() const;
  // Which way a call of this type goes, and of this operation, if it reduces. kDefault of what is refused,
  // with why. Of a ReduceScatter by its size: below.
  PathTaken PathOf(Datatype type) const;
  PathTaken PathOf(Datatype type, RedOp op) const;
  // Which way a ReduceScatter goes; arguments as its own.
  PathTaken PathOfReduceScatter(size_t recvcount, Datatype type, RedOp op) const;
  // Which way a Broadcast, or an AllGather, goes. Between the hosts the reason also says whether those of
  // this size go by multicast, where that is shorter (HostAlgorithm::kAuto), and if not why.
  PathTaken PathOfBroadcast(size_t count, Datatype type) const;
  PathTaken PathOfAllGather(size_t sendcount, Datatype type) const;
  Quantisation Quantised() const;
  Sharing Shared() const;
  DatagramCounts Datagrams() const;
  // Deadline of the calls made from now on; milliseconds::max() is for ever. Ignored if it is not positive.
  void SetTimeout(std::chrono::milliseconds timeout);
  // Whether calls from now on may travel as blocks of INT8, if the group has them; the same on all ranks.
  void SetQuantise(bool on);
  // Of calls from now on, in mode V (docs/HOST.md, "Priorities"): 1 by default; clamped to 2^-16 to 65,535.
  // kInvalidArgument if it is negative or not finite; then it stays.
  Error SetPriority(double priority);

  const std::shared_ptr<internal::Comm>& impl() const { return impl_; }

 private:
  std::shared_ptr<internal::Comm> impl_;
};

// A call in progress. Dropping it does not stop the call: its buffers stay in use until the call has ended.
class EPIC_API Request {
 public:
  Request();
  ~Request();
  Request(Request&&) noexcept;
  Request& operator=(Request&&) noexcept;

  // True if the call has ended (Wait then returns at once); makes progress. True without a call.
  bool Test();
  // Blocks until the call has ended, and returns how. May be called again. Ok without a call.
  Error Wait();

 private:
  friend class internal::Starter;
  std::shared_ptr<internal::Comm> comm_;
  std::shared_ptr<internal::Call> call_;
};

// The collectives. `count` elements of `datatype` are one rank's share; all shares of a call together are at
// most 64 TiB. All ranks give the same count, type, operation and root. In place costs nothing: the buffers
// may be as said for each, else they must not overlap. FP types are reduced in the order of arrival
// (docs/PROTOCOL.md, "Numbers"), INT32 modulo 2^32.

// recvbuff[i] = op over all ranks of sendbuff[i], for i < count, on every rank. In place: recvbuff ==
// sendbuff.
EPIC_API Error AllReduce(const void* sendbuff, void* recvbuff, size_t count, Datatype datatype, RedOp op,
                         Communicator& comm);
// The same, on rank `root` only; the others' recvbuff is not used and may be null. In place: recvbuff ==
// sendbuff.
EPIC_API Error Reduce(const void* sendbuff, void* recvbuff, size_t count, Datatype datatype, RedOp op,
                      int root, Communicator& comm);
// recvbuff[i] of every rank = sendbuff[i] of `root`. The others' sendbuff is not used and may be null; so may
// the root's recvbuff. In place: recvbuff == sendbuff.
EPIC_API Error Broadcast(const void* sendbuff, void* recvbuff, size_t count, Datatype datatype, int root,
                         Communicator& comm);
// recvbuff[i] of rank r = op over all ranks of sendbuff[r * recvcount + i], for i < recvcount. In place:
// recvbuff == sendbuff + rank * recvcount elements.
EPIC_API Error ReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, Datatype datatype,
                             RedOp op, Communicator& comm);
// recvbuff[r * sendcount + i] of every rank = sendbuff[i] of rank r, for i < sendcount. In place: sendbuff ==
// recvbuff + rank * sendcount elements.
EPIC_API Error AllGather(const void* sendbuff, void* recvbuff, size_t sendcount, Datatype datatype,
                         Communicator& comm);
// Returns when every rank has called it.
EPIC_API Error Barrier(Communicator& comm);

// As above, but return at once. An error returned here means that the call was not made; other errors come
// from Wait. Buffers of outstanding calls must not overlap. At most 1024 calls can be outstanding
// (kNoResource).
EPIC_API Error AllReduceAsync(const void* sendbuff, void* recvbuff, size_t count, Datatype datatype, RedOp op,
                              Communicator& comm, Request* request);
EPIC_API Error ReduceAsync(const void* sendbuff, void* recvbuff, size_t count, Datatype datatype, RedOp op,
                           int root, Communicator& comm, Request* request);
EPIC_API Error BroadcastAsync(const void* sendbuff, void* recvbuff, size_t count, Datatype datatype, int root,
                              Communicator& comm, Request* request);
EPIC_API Error ReduceScatterAsync(const void* sendbuff, void* recvbuff, size_t recvcount, Datatype datatype,
                                  RedOp op, Communicator& comm, Request* request);
EPIC_API Error AllGatherAsync(const void* sendbuff, void* recvbuff, size_t sendcount, Datatype datatype,
                              Communicator& comm, Request* request);
EPIC_API Error BarrierAsync(Communicator& comm, Request* request);

// Memory that calls on one communicator use without copying and without registering it for each call. Must be
// released before the memory is freed, and not while calls use it.
class EPIC_API Registration {
 public:
  Registration();
  ~Registration();
  Registration(Registration&&) noexcept;
  Registration& operator=(Registration&&) noexcept;
  // Releases early.
  void Reset();

 private:
  friend EPIC_API Error Register(Communicator&, void*, size_t, Registration*);
  std::shared_ptr<internal::Comm> comm_;
  std::shared_ptr<internal::Region> region_;
};
EPIC_API Error Register(Communicator& comm, void* buffer, size_t bytes, Registration* registration);

}  // namespace epic
