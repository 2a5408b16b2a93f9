// What one rank of a communicator posts on its queue pair, and when: the host's side of the protocol as a
// sans-IO state machine (docs/PROTOCOL.md, "Windows" and "Control packet"; EPIC paper, sections 3.3.2 and 4).
// The world around it owns the queue pair and the buffers; it moves work requests out, completions in, and
// finished calls out.
//
// Each call is one invocation: a control message, then the data in messages of M packets. The same sequence
// of messages runs in both directions. Message numbers and packet indices count over all invocations.
//
// A value: copying it is a snapshot. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "base/types.h"
#include "protocol/control.h"

namespace epic {

struct CoreConfig {
  uint32_t path_mtu = 1024;      // U, bytes
  uint32_t message_packets = 8;  // M
  uint32_t window_messages = 8;  // W
};

// Work requests that can be outstanding on the queue pair: what to ask for when creating it. `window_packets`
// is MW.
constexpr uint32_t MaxSendRequests(uint32_t window_packets) { return window_packets; }
constexpr uint32_t MaxRecvRequests(uint32_t window_packets) { return 2 * window_packets; }

// Numbers the calls of a communicator from 0; also the invocation in their control packets.
using OpId = int64_t;

// Control packets live in a ring of kMaxOpenInvocations buffers per direction.
constexpr int64_t ControlSlot(OpId op) { return op % kMaxOpenInvocations; }

// One ibv_post_send or ibv_post_recv. Every request is signalled.
struct WorkRequest {
  bool is_recv = false;
  bool is_control = false;  // 64 bytes of the control buffer ControlSlot(op); else the call's own buffer
  uint64_t wr_id = 0;       // message number; sends and receives count alike
  OpId op = 0;
  uint64_t offset = 0;   // bytes, in the call's buffer
  uint32_t length = 0;   // bytes
  uint32_t imm = 0;      // of a control send: goes out as immediate data
  ControlHeader header;  // of a control send: to be encoded into the control buffer
};

enum class Outcome : uint8_t {
  kOk,
  kRefused,   // the reply's status says why; the group is dead
  kProtocol,  // what came back is not what the protocol allows; the group is dead
  kAborted,   // Abort() was called
};

struct Finished {
  OpId op = 0;
  Outcome outcome = Outcome::kOk;
  ControlHeader reply;  // of the invocation that was refused, with kRefused
};

class RankCore {
 public:
  explicit RankCore(const CoreConfig& config);

  // Starts a call; its invocation number is filled in. AllReduce and Barrier only. Calls run in program
  // order, at most kMaxOpenInvocations at a time; the rest wait here.
  OpId Post(const ControlHeader& header);

  // The next request to post, receives before the sends that need them. False if nothing may be posted now.
  bool NextWorkRequest(WorkRequest* request);

  // Completions, in the order in which the queue pair reports them. `imm` is empty without immediate data;
  // `control` views the received control buffer, and is only read if the message is a control message.
  void OnSendComplete(uint64_t wr_id);
  void OnRecvComplete(uint64_t wr_id, uint32_t bytes, std::optional<uint32_t> imm,
                      std::span<const uint8_t> control);

  // Whether the message is a control message, that is, whether OnRecvComplete wants its bytes. The message
  // must have been posted and must not have been reported complete in both directions.
  bool IsControl(uint64_t wr_id) const;
  // The call that a posted message belongs to; as above.
  OpId OpOf(uint64_t wr_id) const;

  // Ends everything, as a deadline or a failed queue pair demands.
  void Abort();

  // Set once the group is dead: by a reply, by what came back, or by Abort. From then on no work is given out
  // and completions are ignored; the world moves the queue pair to the error state, drains it, and calls
  // OnDrained, after which NextFinished reports the calls that were outstanding.
  bool failed() const { return failure_.has_value(); }
  Outcome failure() const { return failure_.value_or(Outcome::kOk); }
  // The reply that refused, with kRefused.
  const ControlHeader& failure_reply() const { return failure_reply_; }
  void OnDrained();

  // Calls that ended, in program order. A call whose result had arrived whole when another one failed ends
  // with kOk.
  std::optional<Finished> NextFinished();

  // No call is outstanding: all sends are acknowledged, all results are here.
  bool idle() const { return ops_.empty(); }
  int64_t outstanding() const { return static_cast<int64_t>(ops_.size()); }
  OpId next_op() const { return first_op_ + static_cast<int64_t>(ops_.size()); }

 private:
  struct Op {
    ControlHeader header;
    int64_t first_message = 0;
    Index first_index = 0;
    int64_t packets = 0;   // of data
    int64_t messages = 1;  // with the control message
  };
  // A position in the stream of messages, in one direction.
  struct Cursor {
    int64_t message = 0;
    OpId op = 0;
  };

  const Op& OpAt(OpId op) const { return ops_[static_cast<size_t>(op - first_op_)]; }
  int64_t window_packets() const {
    return static_cast<int64_t>(config_.message_packets) * config_.window_messages;
  }
  bool HasNext(const Cursor& cursor) const;
  void Advance(Cursor* cursor);
  // The index behind the last packet of a message.
  Index EndIndex(const Op& op, int64_t message) const;
  uint32_t MessageBytes(const Op& op, int64_t message) const;
  WorkRequest MakeRequest(const Cursor& cursor, bool is_recv) const;
  bool MaySend() const;
  bool MayReceive() const;
  void CheckReply(const Op& op, uint32_t bytes, std::optional<uint32_t> imm,
                  std::span<const uint8_t> control);
  void Fail(Outcome outcome);
  void RetireOps();

  CoreConfig config_;
  std::deque<Op> ops_;  // not retired, in program order
  OpId first_op_ = 0;   // of ops_
  int64_t next_message_ = 0;
  Index next_index_ = 0;

  Cursor recv_posted_;  // the next message to post
  Cursor send_posted_;
  Cursor recv_done_;  // the next message to complete
  Cursor send_done_;
  Index recv_end_ = 0;  // every index below it has completed
  Index send_end_ = 0;

  std::optional<Outcome> failure_;
  ControlHeader failure_reply_;
  std::deque<Finished> finished_;
};

}  // namespace epic
