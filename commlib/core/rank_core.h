// What one rank of a communicator posts on its queue pair, and when: the host's side of the protocol as a
// sans-IO state machine (docs/PROTOCOL.md, "Windows" and "Control packet"; EPIC paper, sections 3.3.2 and 4).
// The world around it owns the queue pair and the buffers; it moves work requests out, completions in, and
// finished calls out.
//
// Each call is one invocation: a control message, then its parts in messages of M packets. What a rank sends
// and what it receives are two streams of messages, since it need not do both with a part (protocol/flow.h);
// each numbers its own messages. Packet indices are the group's: they count over all invocations, whether
// this rank has anything to do with them or not.
//
// A value: copying it is a snapshot. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "base/snapshot.h"
#include "base/types.h"
#include "protocol/control.h"
#include "protocol/descriptor.h"
#include "protocol/flow.h"

namespace epic {

struct CoreConfig {
  uint32_t path_mtu = 1024;      // U, bytes
  uint32_t message_packets = 8;  // M
  uint32_t window_messages = 8;  // W, the bound of the send window
  uint32_t rank = 0;
  uint32_t world_size = 1;
  uint64_t inline_bytes = 0;  // most data that travel in the control message, at most kMaxInlineBytes
  bool turns = false;         // the switches know of parts that take turns (TurnOf)
  bool pulled = false;        // the switch reads and writes the calls' data (docs/PROTOCOL-MODE-VI.md)
  float scale = 0;            // of calls that are quantised (RankCalls); 0: none are
};

// Receives are posted so many windows ahead. Who only receives acknowledges by its NIC alone, whether its
// process runs or not: one that waits for a processor longer than these last is told of by RNR NAKs, and held
// up by them.
inline constexpr uint32_t kReceiveWindows = 8;

// Work requests that can be outstanding on the queue pair: what to ask for when creating it. `window_packets`
// is MW. A message can be as short as one packet, so this is also the windows' length in indices.
constexpr uint32_t MaxSendRequests(uint32_t window_packets) { return window_packets; }
constexpr uint32_t MaxRecvRequests(uint32_t window_packets) { return kReceiveWindows * window_packets; }

// Numbers the calls of a communicator from 0; also the invocation in their control packets.
using OpId = int64_t;

// Control messages live in a ring of kMaxOpenInvocations buffers per direction.
constexpr int64_t ControlSlot(OpId op) { return op % kMaxOpenInvocations; }

// One ibv_post_send or ibv_post_recv. Every request is signalled.
struct WorkRequest {
  bool is_recv = false;
  bool is_control = false;  // in the control buffer ControlSlot(op), with inlined data or a descriptor; else
                            // in the call's own
  uint64_t wr_id = 0;  // message number of its direction
  OpId op = 0;
  uint64_t offset = 0;   // bytes, in the call's send or receive buffer; see SendBytes and RecvBytes
  uint32_t length = 0;   // bytes
  uint32_t imm = 0;      // of a control send: goes out as immediate data
  ControlHeader header;  // of a control send: to be encoded into the control buffer
};

// Bytes of the buffers that a rank gives to a call: all parts where it has to do with several, else one.
// Of its own part of an AllGather and of a Broadcast's buffer at the root nothing comes from the network: to
// put them there is left to the caller.
uint64_t SendBytes(const ControlHeader& header, uint32_t rank);
uint64_t RecvBytes(const ControlHeader& header, uint32_t rank);

enum class Outcome : uint8_t {
  kOk,
  kBusy,      // of a request alone: another group has the memory, and this call goes by the hosts
  kRefused,   // the reply's status says why; the group is dead
  kProtocol,  // what came back is not what the protocol allows; the group is dead
  kAborted,   // Abort() was called
  kDisorder,  // the queue pair completed what was not its turn; the group is dead
};

struct Finished {
  OpId op = 0;
  Outcome outcome = Outcome::kOk;
  ControlHeader reply;  // of the invocation that was refused, with kRefused
};

class RankCore {
 public:
  explicit RankCore(const CoreConfig& config);

  // Will the call's data travel in its control message?
  bool Inlines(const ControlHeader& header) const;
  // Does a descriptor follow the header that this rank sends? Of a call's own header, whose flags are
  // complete.
  bool Describes(const ControlHeader& header) const { return config_.pulled && HasDescriptor(header); }
  // Does anybody wait for acknowledgements of the call? Not if the answer to its control message is all of
  // its result, and says that every rank's has come.
  bool WantsAcks(const ControlHeader& header) const;

  // Starts a call; its invocation number is filled in, and the window of a request. WrongField(header,
  // world_size) must be kNone. Calls run in program order, at most kMaxOpenInvocations at a time; the rest
  // wait here. Nothing is posted behind a request until it has ended (docs/PROTOCOL-BLOCKS.md). `keeps_data`:
  // what it sends stays where it is while the call is open, also when it has ended, so that its result alone
  // may end it.
  OpId Post(const ControlHeader& header, bool keeps_data = false);

  // How many messages of M packets may be under way from now on, 1 to W; W at first. What is posted stays so
  // (docs/PROTOCOL.md, section 4, "The send window"). What the last request was granted is not exceeded.
  void SetSendWindow(uint32_t messages);

  // The next request to post, receives before the sends that need them. False if nothing may be posted now.
  bool NextWorkRequest(WorkRequest* request);

  // Completions, in the order in which the queue pair reports them: that of posting, in each direction. `imm`
  // is empty without immediate data; `control` views the received control buffer, its header at least, and is
  // only read if the message is a control message.
  void OnSendComplete(uint64_t wr_id);
  void OnRecvComplete(uint64_t wr_id, uint32_t bytes, std::optional<uint32_t> imm,
                      std::span<const uint8_t> control);

  // The call whose control message this receive is, if it is one and to complete next: then OnRecvComplete
  // wants its header.
  std::optional<OpId> ControlOf(uint64_t recv_wr_id) const;

  // Has the reply to the call's control message come? Then every rank has made the call.
  bool HasReply(OpId op) const;

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

  // The first call that is open: not all of its sends are acknowledged, or not all of its result is here. It
  // may have ended.
  OpId first_open() const { return first_op_; }
  // No call is open.
  bool idle() const { return ops_.empty(); }
  int64_t outstanding() const { return static_cast<int64_t>(ops_.size()); }
  OpId next_op() const { return first_op_ + static_cast<int64_t>(ops_.size()); }

 private:
  friend struct epic::Snapshot;
  struct Op {
    ControlHeader header;
    DataLayout layout;
    Index first_index = 0;  // of the control packet
    bool keeps_data = false;
    bool busy = false;  // the reply said so
  };
  enum class Direction : uint8_t { kSend, kRecv };
  // A position in the stream of messages of one direction.
  struct Cursor {
    Direction direction;
    int64_t message = 0;
    OpId op = 0;
    MessagePlace place;  // part -1: the control message
  };

  const Op& OpAt(OpId op) const { return ops_[static_cast<size_t>(op - first_op_)]; }
  int64_t window_packets() const {
    return static_cast<int64_t>(config_.message_packets) * config_.window_messages;
  }
  int64_t send_window_packets() const {
    return static_cast<int64_t>(config_.message_packets) * std::min(send_window_, granted_window_);
  }
  // What its parts do in ControlHeader::turn.
  uint32_t TurnFor(const ControlHeader& header) const;
  // Does this rank send (receive) the part?
  bool Carries(const Op& op, Direction direction, int64_t part) const;
  bool HasNext(const Cursor& cursor) const;
  void Advance(Cursor* cursor) const;
  // The index of the first packet of the message at the cursor, and the index behind its last. Everything
  // before the first has been passed, also what this direction does not carry.
  Index BeginIndex(const Cursor& cursor) const;
  Index EndIndex(const Cursor& cursor) const;
  uint32_t MessageBytes(const Cursor& cursor) const;
  WorkRequest MakeRequest(const Cursor& cursor) const;
  bool MaySend() const;
  bool MayReceive() const;
  void CheckReply(Op& op, uint32_t bytes, std::optional<uint32_t> imm, std::span<const uint8_t> control,
                  bool has_our_part);
  void Fail(Outcome outcome);
  bool HasResult(OpId op) const;
  bool HasEnded(OpId op) const;
  void EndOps();

  CoreConfig config_;
  uint32_t send_window_;     // messages
  uint32_t granted_window_;  // W, or what the last request was granted
  std::deque<Op> ops_;       // open, in program order
  OpId first_op_ = 0;        // of ops_
  OpId ended_ops_ = 0;       // so many have ended, the first ones
  Index next_index_ = 0;

  Cursor recv_posted_{Direction::kRecv};  // the next message to post
  Cursor send_posted_{Direction::kSend};
  Cursor recv_done_{Direction::kRecv};  // the next message to complete
  Cursor send_done_{Direction::kSend};

  std::optional<Outcome> failure_;
  ControlHeader failure_reply_;
  std::deque<Finished> finished_;
};

}  // namespace epic
