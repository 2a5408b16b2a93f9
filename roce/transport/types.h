// Work requests, completions and states of a queue pair. Names and values follow verbs (rdma-core's
// infiniband/verbs.h), so that a verbs layer above can pass them through.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ip.h"
#include "base/types.h"

namespace epic::roce {

// As ibv_qp_state.
enum class QpState : uint8_t { kReset = 0, kInit, kRtr, kRts, kSqd, kSqe, kErr };

// Whether Modify may go from one state to the other (InfiniBand specification 10.3.1, figure 126).
bool IsTransition(QpState from, QpState to);

// As ibv_wc_status; only those that this transport reports.
enum class WcStatus : uint8_t {
  kSuccess = 0,
  kLocLenErr = 1,
  kLocQpOpErr = 2,
  kLocProtErr = 4,
  kWrFlushErr = 5,
  kMwBindErr = 6,
  kBadRespErr = 7,
  kRemInvReqErr = 9,
  kRemAccessErr = 10,
  kRemOpErr = 11,
  kRetryExcErr = 12,
  kRnrRetryExcErr = 13,
};
// "RETRY_EXC_ERR", for messages.
const char* Name(WcStatus status);

// As ibv_wr_opcode.
enum class WrOpcode : uint8_t {
  kWrite = 0,
  kWriteImm = 1,
  kSend = 2,
  kSendImm = 3,
  kRead = 4,
  kCompareSwap = 5,
  kFetchAdd = 6,
  kLocalInv = 7,
  kBindMw = 8,
  kSendInv = 9,
};
constexpr bool HasImm(WrOpcode op) { return op == WrOpcode::kWriteImm || op == WrOpcode::kSendImm; }
// Done at this end, without a packet.
constexpr bool IsLocal(WrOpcode op) { return op == WrOpcode::kLocalInv || op == WrOpcode::kBindMw; }
constexpr bool IsAtomic(WrOpcode op) { return op == WrOpcode::kCompareSwap || op == WrOpcode::kFetchAdd; }
// Whether the answer brings data, which no acknowledgement of a later request can stand for.
constexpr bool IsReadOrAtomic(WrOpcode op) { return op == WrOpcode::kRead || IsAtomic(op); }
constexpr bool IsWrite(WrOpcode op) { return op == WrOpcode::kWrite || op == WrOpcode::kWriteImm; }

// A piece of registered local memory.
struct Sge {
  uint64_t address = 0;
  uint32_t length = 0;  // bytes
  uint32_t lkey = 0;
};
// Pieces of a request; as rdma_rxe.
inline constexpr size_t kMaxSge = 32;
// So many lie in the request itself, and cost no memory beside it.
inline constexpr size_t kSgesInPlace = 4;

// What an atomic operation is on: so many bytes, at an address that is a multiple of it (9.4.5).
inline constexpr uint32_t kAtomicBytes = 8;

// The pieces of a request's memory, in order. Copies share those that do not lie in place.
struct SgeList {
  uint8_t count = 0;
  std::array<Sge, kSgesInPlace> sge;
  std::shared_ptr<const std::vector<Sge>> more;  // those behind; null if all are in place

  // Of at most kMaxSge pieces.
  static SgeList Of(std::span<const Sge> pieces);

  // Becomes `list`, which is whole, and of which no more is read than has to be: for the places of a queue,
  // which were given back before.
  void Take(const SgeList& list) {
    count = list.count;
    sge[0] = list.sge[0];
    if (count <= 1) return;
    sge = list.sge;
    if (count > kSgesInPlace) more = list.more;
  }
  void Release() {
    if (more != nullptr) more.reset();
  }

  // i < count, of a list that is whole.
  const Sge& operator[](size_t i) const { return i < kSgesInPlace ? sge[i] : (*more)[i - kSgesInPlace]; }
  // Whether there are as many as count says, and no more than may be.
  bool whole() const {
    return count <= kSgesInPlace ||
           (count <= kMaxSge && more != nullptr && more->size() >= count - kSgesInPlace);
  }
  uint64_t bytes() const {
    if (count == 1) return sge[0].length;
    uint64_t sum = 0;
    for (size_t i = 0; i < count; ++i) sum += (*this)[i].length;
    return sum;
  }
};

// Where a datagram goes; only for UD.
struct UdAddress {
  Ip ip;
  Qpn qpn{};
  uint32_t qkey = 0;
  // Where it comes from, of the same version; nothing: from the queue pair's own address.
  std::optional<Ip> from;
  uint8_t traffic_class = 0;  // of IPv4 the type of service
  uint8_t hop_limit = 64;     // of IPv4 the time to live
};

// A datagram is received behind so many bytes, which tell where it came from: for RoCEv2 the IPv6 header, or
// the IPv4 header in the last 20 of them (annex A17.4.5.2).
inline constexpr uint32_t kGrhBytes = 40;

// A memory window that is to be bound: to a part of a region, or to nothing (InfiniBand specification,
// 10.6.7.2).
struct WindowBind {
  uint64_t window = 0;  // by the owner's number
  uint32_t rkey = 0;    // its low byte becomes that of the window's key
  uint32_t lkey = 0;    // of the region
  uint64_t address = 0, length = 0;
  bool remote_read = false, remote_write = false, remote_atomic = false;
  bool zero_based = false;  // the peer counts from the window's begin
};

// What a consumer hands over. The queue takes of it what the opcode has.
struct SendWr {
  uint64_t wr_id = 0;
  WrOpcode opcode = WrOpcode::kSend;
  bool signaled = true;
  bool solicited = false;
  // Wait for earlier RDMA Reads and atomics; one that is local waits for all before it (InfiniBand
  // specification, 10.8.3.3).
  bool fence = false;
  SgeList sges;
  // Inline data: if not empty, it is copied when the request is posted and sges is ignored.
  std::span<const uint8_t> inline_bytes;
  uint32_t imm = 0;  // host byte order
  uint64_t remote_address = 0;
  uint32_t rkey = 0;
  // Of atomics: what memory is compared with, or what is added; and what is stored if they are equal. What
  // memory held before goes to the first 8 bytes of sges, in this machine's byte order.
  uint64_t compare_add = 0;
  uint64_t swap = 0;
  uint32_t invalidate_rkey = 0;  // of kLocalInv and kSendInv
  // Few requests have these, and the others do not pay for them.
  std::optional<WindowBind> bind;  // of kBindMw
  std::optional<UdAddress> ud;     // of datagrams
};

struct RecvWr {
  uint64_t wr_id = 0;
  SgeList sges;

  // As SgeList's.
  void Take(const RecvWr& wr) {
    wr_id = wr.wr_id;
    sges.Take(wr.sges);
  }
  void Release() { sges.Release(); }
};

// As ibv_wc_opcode.
enum class WcOpcode : uint8_t {
  kSend = 0,
  kWrite = 1,
  kRead = 2,
  kCompareSwap = 3,
  kFetchAdd = 4,
  kBindMw = 5,
  kLocalInv = 6,
  kRecv = 128,
  kRecvWriteImm = 129,
};
// What the completion of a send says that it was.
constexpr WcOpcode DoneAs(WrOpcode op) {
  switch (op) {
    case WrOpcode::kWrite:
    case WrOpcode::kWriteImm:
      return WcOpcode::kWrite;
    case WrOpcode::kRead:
      return WcOpcode::kRead;
    case WrOpcode::kCompareSwap:
      return WcOpcode::kCompareSwap;
    case WrOpcode::kFetchAdd:
      return WcOpcode::kFetchAdd;
    case WrOpcode::kLocalInv:
      return WcOpcode::kLocalInv;
    case WrOpcode::kBindMw:
      return WcOpcode::kBindMw;
    default:
      return WcOpcode::kSend;
  }
}

struct Completion {
  uint64_t wr_id = 0;
  WcStatus status = WcStatus::kSuccess;
  WcOpcode opcode = WcOpcode::kSend;  // only if status is kSuccess; but is_recv() always holds
  bool has_imm = false;
  bool solicited = false;
  bool has_invalidated = false;
  bool over_ipv6 = false;  // a received datagram, over IPv6; else over IPv4
  uint32_t imm = 0;
  uint32_t bytes = 0;             // received, read or sent
  uint32_t invalidated_rkey = 0;  // own key that the peer has invalidated
  // Only of a received datagram; bytes then counts kGrhBytes as well, which say from which address it came.
  Qpn src_qpn{};

  bool is_recv() const { return opcode >= WcOpcode::kRecv; }
  bool ok() const { return status == WcStatus::kSuccess; }
};
// Every message has at least one, which passes through two queues: half a cache line.
static_assert(sizeof(Completion) == 32);

enum class PostResult : uint8_t {
  kOk,
  kFull,      // the queue has its depth, or completions have not been taken
  kBadState,  // verbs: EINVAL
  kInvalid,   // too many or too long pieces, inline data too long, an opcode that the type has not
};

// What a remote or local key is asked for.
enum class Access : uint8_t { kLocalRead, kLocalWrite, kRemoteRead, kRemoteWrite, kRemoteAtomic };

}  // namespace epic::roce
