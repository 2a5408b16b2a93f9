// Work requests, completions and states of a queue pair. Names and values follow verbs (rdma-core's
// infiniband/verbs.h), so that a verbs layer above can pass them through.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

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
  kBadRespErr = 7,
  kRemInvReqErr = 9,
  kRemAccessErr = 10,
  kRemOpErr = 11,
  kRetryExcErr = 12,
  kRnrRetryExcErr = 13,
};
// "RETRY_EXC_ERR", for messages.
const char* Name(WcStatus status);

// As ibv_wr_opcode, without atomics.
enum class WrOpcode : uint8_t { kWrite = 0, kWriteImm = 1, kSend = 2, kSendImm = 3, kRead = 4 };
constexpr bool HasImm(WrOpcode op) { return op == WrOpcode::kWriteImm || op == WrOpcode::kSendImm; }
constexpr bool IsWrite(WrOpcode op) { return op == WrOpcode::kWrite || op == WrOpcode::kWriteImm; }

// A piece of registered local memory.
struct Sge {
  uint64_t address = 0;
  uint32_t length = 0;  // bytes
  uint32_t lkey = 0;
};
inline constexpr size_t kMaxSge = 4;

struct SgeList {
  uint8_t count = 0;
  std::array<Sge, kMaxSge> sge;

  uint64_t bytes() const {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; ++i) sum += sge[i].length;
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
};

// A datagram is received behind so many bytes, which tell where it came from: for RoCEv2 the IPv6 header, or
// the IPv4 header in the last 20 of them (annex A17.4.5.2).
inline constexpr uint32_t kGrhBytes = 40;

struct SendWr {
  uint64_t wr_id = 0;
  WrOpcode opcode = WrOpcode::kSend;
  bool signaled = true;
  bool solicited = false;
  bool fence = false;  // wait for earlier RDMA Reads (InfiniBand specification, 10.8.3.3)
  SgeList sges;
  // Inline data: if not empty, it is copied when the request is posted and sges is ignored.
  std::span<const uint8_t> inline_bytes;
  uint32_t imm = 0;  // host byte order
  uint64_t remote_address = 0;
  uint32_t rkey = 0;
  UdAddress ud;
};

struct RecvWr {
  uint64_t wr_id = 0;
  SgeList sges;
};

// As ibv_wc_opcode.
enum class WcOpcode : uint8_t { kSend = 0, kWrite = 1, kRead = 2, kRecv = 128, kRecvWriteImm = 129 };

struct Completion {
  uint64_t wr_id = 0;
  WcStatus status = WcStatus::kSuccess;
  WcOpcode opcode = WcOpcode::kSend;  // only if status is kSuccess; but is_recv() always holds
  bool has_imm = false;
  bool solicited = false;
  uint32_t imm = 0;
  uint32_t bytes = 0;  // received, read or sent
  // Only of a received datagram; bytes then counts kGrhBytes as well.
  Ip src_ip;
  Qpn src_qpn{};

  bool is_recv() const { return opcode >= WcOpcode::kRecv; }
  bool ok() const { return status == WcStatus::kSuccess; }
};

enum class PostResult : uint8_t {
  kOk,
  kFull,      // the queue has its depth, or completions have not been taken
  kBadState,  // verbs: EINVAL
  kInvalid,   // too many or too long pieces, inline data too long, an opcode that the type has not
};

// What a remote or local key is asked for.
enum class Access : uint8_t { kLocalRead, kLocalWrite, kRemoteRead, kRemoteWrite };

}  // namespace epic::roce
