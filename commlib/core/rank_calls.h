// The calls of one rank on its queue pair, as far as that needs neither verbs nor threads: the library and
// the simulated hosts run it alike. Calls go in; work requests with their addresses come out, to be posted;
// completions go in; calls that have ended, with their results in the callers' buffers, come out. RankCore
// says what to post and when; this knows where the bytes lie (docs/HOST-INTERNALS.md, "A call's way").
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/snapshot.h"
#include "commlib/core/block_data.h"
#include "commlib/core/host_call.h"
#include "commlib/core/rank_core.h"
#include "protocol/number_blocks.h"

namespace epic {

// In ControlHeader::flags: the caller's data are of another type than what travels (docs/PROTOCOL.md, section
// 8): in blocks (protocol/number_blocks.h), or FP32 as INT32. Ranks that call one with FP32 and one with
// INT32 are told of a mismatch by it.
inline constexpr uint32_t kQuantisedFlag = 8;
constexpr bool IsQuantised(const ControlHeader& header) { return (header.flags & kQuantisedFlag) != 0; }
constexpr bool IsScaled(const ControlHeader& header) { return IsQuantised(header) && !IsInBlocks(header); }

// What the INT32 of a scaled call's result are divided by.
double DivisorOf(const ControlHeader& header, float scale, uint32_t world_size);

// Elements that have come to a limit of INT32, of all calls so far.
struct Saturation {
  uint64_t inputs = 0;   // of this rank's input, when it was made INT32
  uint64_t results = 0;  // of the results that it has received
};

// Where a call's data lie while they travel.
enum class Way : uint8_t {
  kDirect,  // in the caller's buffers
  kBounce,  // in the rank's own: copied there when the control packet is posted, and out when the call ends.
            // An AllReduce is received into the bytes that it is sent from: packet i is written only when
            // packet i of all ranks has been summed.
  kInline,  // in the rank's own, behind the headers of its control messages: copied there and out as above,
            // but received apart from what is sent.
};

// What is this rank's own already does not come from the network: its part of an AllGather, and a Broadcast
// at the root. To be done before the call is posted; `recv` may be null at the root.
void CopyOwnPart(const ControlHeader& header, uint32_t rank, const uint8_t* send, uint8_t* recv);

// RecvBytes, but of what comes from the network: a Broadcast's root has its data.
uint64_t NetworkRecvBytes(const ControlHeader& header, uint32_t rank);

// A call's buffers as the rank's NIC has them for a switch that reads and writes them: where what is sent,
// and what is received, begins.
struct PulledBuffers {
  RemoteMemory send;
  RemoteMemory recv;

  // Of a slice that begins so many bytes into each part.
  PulledBuffers From(uint64_t offset) const {
    return {.send = {.address = send.address + offset, .rkey = send.rkey},
            .recv = {.address = recv.address + offset, .rkey = recv.rkey}};
  }
};

class RankCalls {
 public:
  // What one ibv_post_send or ibv_post_recv needs.
  struct Request {
    bool is_recv = false;
    bool has_imm = false;
    uint32_t imm = 0;
    uint64_t wr_id = 0;
    OpId op = 0;
    uint8_t* address = nullptr;
    uint32_t length = 0;
    bool is_own_memory = false;  // in memory(); else in the call's send or receive buffer
  };

  // Bounce buffers of so many bytes for each invocation that can be open; groups may inline up to
  // inline_bytes.
  explicit RankCalls(uint64_t bounce_bytes, uint64_t inline_bytes = 0);
  // Once the group is known, before the first call.
  void SetConfig(const CoreConfig& config);

  // Of a group whose switch reads and writes: memory() as the NIC has it for that. Before the first call.
  void SetOwnMemory(const RemoteMemory& own) { own_ = own; }

  // Control packets both ways, then bounce buffers: where the NIC reads and writes beside the callers'
  // buffers.
  std::span<uint8_t> memory() { return memory_; }
  // Does the call fit into the bounce buffers?
  bool Fits(const ControlHeader& header) const;
  // Does it go into its control message? Then there is no other way for it.
  bool Inlines(const ControlHeader& header) const { return core_.Inlines(header); }
  bool WantsAcks(const ControlHeader& header) const { return core_.WantsAcks(header); }
  // Most data of a quantised call, all parts together, on every rank, as they travel: in the bounce buffers,
  // where they become what they travel as, and longer ones in slices.
  uint64_t MostQuantised(Collective collective) const {
    return SendersReceive(collective) ? bounce_bytes_ : bounce_bytes_ / 2;
  }
  const Saturation& saturation() const { return saturation_; }

  // Starts a call; see RankCore::Post and CopyOwnPart. The buffers must outlive the call, and have SendBytes
  // and RecvBytes of it, in blocks CalledBytes for each of the parts. One that is inlined takes that way,
  // whatever `way` says; one by the hosts, and a request, has nothing to do with its buffers. `part_stride`:
  // bytes from one part to the next where the caller's buffer has several; 0: a part's bytes. A quantised one
  // has at most MostQuantised and does not go kDirect; the data of a scaled one are finite.
  // `pulled`: of one that goes kDirect where the switch reads and writes; registered until it has ended.
  OpId Post(const ControlHeader& header, const uint8_t* send, uint8_t* recv, Way way,
            uint64_t part_stride = 0, const PulledBuffers& pulled = {});
  // As RankCore's.
  void SetSendWindow(uint32_t messages) { core_.SetSendWindow(messages); }
  bool HasReply(OpId op) const { return core_.HasReply(op); }
  // Has it ended well, as the last of those that NextFinished is to give out?
  bool EndedLast(OpId op) const {
    return !ended_.empty() && ended_.back().finished.op == op &&
           ended_.back().finished.outcome == Outcome::kOk;
  }
  bool NextRequest(Request* request);
  // In the order in which the queue pair reports them; not of those that failed, or were flushed: OnFlushed.
  void OnComplete(uint64_t wr_id, uint32_t bytes, std::optional<uint32_t> imm);
  void OnFlushed() { --posted_; }
  // Requests that the queue pair has not given back.
  int64_t posted() const { return posted_; }

  // wr_id: message number * 2, + 1 for a receive (verbs say nothing more of failed ones).
  static bool IsRecv(uint64_t wr_id) { return (wr_id & 1) != 0; }
  static uint64_t MessageOf(uint64_t wr_id) { return wr_id >> 1; }

  // No call is open: neither running nor sending.
  bool idle() const { return core_.idle(); }

  // As RankCore's. After OnDrained the outstanding calls end.
  void Abort() { core_.Abort(); }
  void OnDrained();
  bool failed() const { return core_.failed(); }
  Outcome failure() const { return core_.failure(); }
  const ControlHeader& failure_reply() const { return core_.failure_reply(); }
  // Calls that ended, in program order; of those that ended with kOk the result is in the caller's buffer. A
  // request of which the answer was not taken before the group failed has none: it ends as the group has.
  std::optional<Finished> NextFinished();
  // There is one.
  bool has_finished() const { return !ended_.empty(); }

 private:
  friend struct epic::Snapshot;
  struct OpenCall {
    ControlHeader header;
    const uint8_t* send = nullptr;
    uint8_t* recv = nullptr;
    uint64_t send_bytes = 0;
    uint64_t recv_bytes = 0;  // from the network
    Way way = Way::kDirect;
    uint64_t part_stride = 0;
    PulledBuffers pulled;
  };
  // A header with a descriptor. Behind all else in memory_ there is room for one of each open invocation.
  static constexpr uint64_t kDoorbellBytes = kControlBytes + kDescriptorBytes;
  std::span<uint8_t> Doorbells() { return std::span(memory_).last(kMaxOpenInvocations * kDoorbellBytes); }
  OpenCall MakeCall(const ControlHeader& header, const uint8_t* send, uint8_t* recv, Way way) const;
  // Where in the caller's buffer lies what is at `offset` of parts that lie side by side.
  static uint64_t PlaceOf(const OpenCall& call, uint64_t offset);
  // Of so many bytes of parts, those that lie side by side there.
  static uint64_t SideBySide(const OpenCall& call, uint64_t bytes);
  const OpenCall& At(OpId op) const { return calls_[static_cast<size_t>(op - first_call_)]; }
  uint8_t* ControlSend(OpId op);
  uint8_t* ControlRecv(OpId op);
  uint8_t* BounceSend(OpId op);
  uint8_t* BounceRecv(OpId op);
  // Bytes of its bounce buffer that the call uses.
  static uint64_t BounceBytes(const OpenCall& call);
  // The caller's data, as they travel.
  void LoadData(const OpenCall& call, uint8_t* to);
  void LoadControl(const WorkRequest& work);
  void LoadInlined(OpId op);
  Descriptor DescriptorOf(const ControlHeader& header, OpId op);
  const uint8_t* Result(OpId op);
  void Finish(OpId op);
  void TakeFinished();

  uint64_t bounce_bytes_;
  uint64_t inline_bytes_;
  RemoteMemory own_;     // memory_, for a switch that reads and writes
  uint64_t slot_bytes_;  // of the memory that an open invocation has beside the control packets
  uint32_t rank_ = 0;
  uint32_t world_size_ = 1;
  float scale_ = 0;
  Saturation saturation_;
  std::vector<uint8_t> memory_;
  RankCore core_{{}};
  std::deque<OpenCall> calls_;  // open, in program order: also those that have ended and still send
  OpId first_call_ = 0;
  struct Ended {
    Finished finished;
    bool is_request = false;
  };
  std::deque<Ended> ended_;
  int64_t posted_ = 0;
};

}  // namespace epic
