// The control packet: one Send-with-Immediate that opens every invocation of a group, and its reply
// (docs/PROTOCOL.md, "Control packet"; EPIC paper, section 3.3.2).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "protocol/types.h"

namespace epic {

// Of the header alone; in its message inlined data may follow it (protocol/flow.h).
inline constexpr size_t kControlBytes = 64;

// In ControlHeader::flags: the data follow the header in the control message. The bits that are not here are
// the hosts'.
inline constexpr uint32_t kInlinedFlag = 2;
// In ControlHeader::flags: the data go between the hosts (docs/PROTOCOL.md, section 11). The switches see to
// it that the ranks agree on the call, in its place among the others; of its data they see nothing.
inline constexpr uint32_t kByHostsFlag = 4;

// In ControlHeader::flags, of calls whose data go between the hosts (docs/PROTOCOL.md, section 11): which
// algorithm a rank was told to use; 0 if none. kMulticastFlags also of a call that goes so by its size,
// though nothing was told.
inline constexpr uint32_t kAlgorithmFlags = 0x30;
inline constexpr uint32_t kMulticastFlags = 0x30;

// In ControlHeader::flags, of a group whose memory in switches has several owners (docs/PROTOCOL-BLOCKS.md):
// the control packet asks for that memory, for the call whose slices follow it as invocations of their own.
inline constexpr uint32_t kRequestFlag = 0x40;
// In ControlHeader::flags: the invocation's data use the memory that such a request was granted.
inline constexpr uint32_t kGrantedFlag = 0x80;

enum class ControlStatus : uint8_t {
  kOk = 0,
  kMismatch = 1,  // ranks called with different arguments
  kNoResource = 2,
  kAborted = 3,
  kUnsupported = 4,  // the engine cannot do this collective, type or operation
  kBusy = 5,         // of a request alone: another group has the memory. The call goes by the hosts
};

// Ends the group.
constexpr bool IsFatal(ControlStatus status) {
  return status != ControlStatus::kOk && status != ControlStatus::kBusy;
}

// Which field of two control packets differs.
enum class ControlField : uint8_t {
  kNone = 0,
  kCollective = 1,
  kOp = 2,
  kType = 3,
  kRoot = 4,
  kCount = 5,
  kParts = 6,
  kFlags = 7,
  kInvocation = 8,
  kAlgorithm = 9,  // the flags differ in kAlgorithmFlags
};

struct ControlHeader {
  Collective collective = Collective::kBarrier;
  ReduceOp op = ReduceOp::kNone;
  DataType type = DataType::kNone;
  uint64_t invocation = 0;  // counts from 0 in each group
  uint64_t count = 0;       // elements
  uint32_t root = 0;
  uint32_t parts = 1;
  uint32_t flags = 0;
  // Messages that a part has at a time, before the next part has its turn; 0: all. Of status kOk alone.
  uint32_t turn = 0;
  // Of a request that is not refused: the send window that there is room for, in messages. A rank says W,
  // each switch takes the least of what it hears and has.
  uint32_t window = 0;
  // Of a call in blocks (number_blocks.h): the type of the callers' data, and how many of their elements the
  // last block of each part holds, in all slices of the call alike. Of all others kNone and 0.
  DataType called = DataType::kNone;
  uint8_t last = 0;
  // Of a call in a group whose payloads lie in a pool (priority.h): its priority; 0: the rank says none. In
  // all other groups, and in what switches send, 0. Not compared.
  uint32_t priority = 0;
  // Meaningful on the way down; kOk on the way up unless a switch below has found a mismatch.
  ControlStatus status = ControlStatus::kOk;
  ControlField field = ControlField::kNone;
  uint32_t culprit = 0;  // rank, with kMismatch

  friend bool operator==(const ControlHeader&, const ControlHeader&) = default;
};

// In the upper bits of ControlHeader::flags: how many slices of the same call follow this one
// (commlib/core/slices.h). Calls that differ in length alone may begin with slices of the same length; by
// these they differ in the count.
inline constexpr uint32_t kSlicesLeftShift = 8;
constexpr uint32_t SlicesLeft(const ControlHeader& header) { return header.flags >> kSlicesLeftShift; }

// The data go between the hosts: no packets of the group carry them.
constexpr bool IsByHosts(const ControlHeader& header) { return (header.flags & kByHostsFlag) != 0; }

// Asks for memory; has no data itself.
constexpr bool IsRequest(const ControlHeader& header) { return (header.flags & kRequestFlag) != 0; }

// Its data use memory that was asked for.
constexpr bool IsGranted(const ControlHeader& header) { return (header.flags & kGrantedFlag) != 0; }

// The data follow the header in the control message.
constexpr bool IsInlined(const ControlHeader& header) {
  return (header.flags & kInlinedFlag) != 0 && !IsByHosts(header) && !IsRequest(header);
}

// Data follow the header in the control message, but how many is not known here: their type is a later one.
constexpr bool IsLengthUnknown(const ControlHeader& header) {
  return header.status == ControlStatus::kOk && IsInlined(header) && IsLater(header.type);
}

// Writes the 64 bytes that go on the wire: little-endian, unused bytes zero.
void Encode(const ControlHeader& header, std::span<uint8_t, kControlBytes> out);

// Empty when the bytes are not a control header of this version: wrong length, magic or version, an unknown
// collective or status, unused bytes that are not zero, a turn of one that refuses, a window or the status
// busy of what is no request, what the callers' data are of a type that is neither blocks nor a later one, or
// more than kMaxBytes of data. Types and operations may be later ones (IsLater in types.h): of a call by the
// hosts switches need not know them, and who cannot do a call has to say so.
std::optional<ControlHeader> DecodeControl(std::span<const uint8_t> bytes);

// The header that a control message begins with, whatever follows it; empty as above, or if it is shorter.
std::optional<ControlHeader> HeaderOf(std::span<const uint8_t> message);

// The first field in which two requests differ, kNone if they agree; in the order of docs/PROTOCOL.md,
// section 3. Status, field, culprit, window and priority are not compared.
ControlField FirstDifference(const ControlHeader& a, const ControlHeader& b);

// A field's name for error messages, for example "count".
const char* Name(ControlField field);

}  // namespace epic
