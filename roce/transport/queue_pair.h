// A reliable connection (RC) queue pair: requester, completer and responder as one state machine without I/O.
//
// It takes work requests, packets and the time, and gives packets and completions. Its state is values: a
// copy is a snapshot. InfiniBand Architecture Specification 1.4, chapter 9 (9.7 for reliable service), 10.3
// for states; where Linux' rdma_rxe differs, config.h has a choice or the code a note, and both peers work.
//
//   requester.cc   requests out: segmentation, windows, repetition
//   completer.cc   responses in: ACK, NAK, RNR NAK, read responses
//   responder.cc   requests in: order, access, receive queue; acknowledgements
//   responses.cc   responses out: ACK policy, read responses, CNP
//   atomics.cc     compare and swap, fetch and add, at both ends
//   state.cc       Modify, errors and flushing
//
// The caller hands over each packet with OnPacket and then calls Poll, which sends; it also calls Poll after
// posting and when next_deadline() has come.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/snapshot.h"
#include "roce/packet.h"
#include "roce/transport/config.h"
#include "roce/transport/memory.h"
#include "roce/transport/message.h"
#include "roce/transport/ring.h"
#include "roce/transport/types.h"

namespace epic::roce {

class QueuePair {
 public:
  explicit QueuePair(const QpConfig& config);

  // Changes state and attributes, or nothing if the result is not kOk. To ERR flushes, to RESET forgets.
  ModifyResult Modify(const QpChange& change);
  QpState state() const { return state_; }
  const QpConfig& config() const { return config_; }
  const QpAttributes& attributes() const { return attr_; }

  // Memory of the request belongs to the transport until its completion. In ERR it is flushed at once.
  PostResult PostSend(const SendWr& wr);
  // What PostSend would say, changing nothing, once `ahead` others have been posted.
  PostResult CheckSend(const SendWr& wr, size_t ahead = 0) const;
  PostResult PostRecv(const RecvWr& wr);

  // One packet that was parsed and has a right ICRC. Nothing is sent before Poll.
  void OnPacket(Nanos now, const Packet& packet, Memory& memory);

  // Handles timers, then sends answers and requests, at most `budget` packets.
  void Poll(Nanos now, Memory& memory, PacketSink& sink, int budget = 256);

  // Sending stops at so many packets without acknowledgement, if that is less than the policy's bound: for an
  // owner of many queue pairs who keeps what is under way together in bounds. At least 1.
  void LimitOutstanding(int32_t packets) { window_ = std::min(packets, config_.policy.max_outstanding); }
  // The same for RDMA Reads and atomics: none is begun while so many packets of responses are awaited.
  void LimitReads(int64_t packets) { read_window_ = packets; }
  int64_t reads_awaited() const { return tx_.reads_awaited; }
  // As many of them as were ever asked for, again or for the first time. Goes back in RESET only.
  int64_t reads_asked() const { return tx_.reads_asked; }
  // Whether a Read or an atomic is next, and LimitReads keeps it back.
  bool read_waits() const {
    return tx_.cur < tx_.sends.size() && IsReadOrAtomic(tx_.sends[tx_.cur].opcode) &&
           tx_.reads_awaited >= read_window_;
  }
  // From now on up to so many acknowledgements that the peer asks for are one, at least 1, and none is later
  // than `delay`; as the policy's ack_after and ack_delay_ns. What has waited long enough by that goes out
  // with the next Poll.
  void ShareAcks(int asked, Nanos delay);
  // With hold_acks: the peer may be told of the first so many messages that have come, which are so many
  // packets. Numbers count from the first and never go back; acknowledges, if that is more than before.
  void Release(uint64_t messages, int64_t packets);
  // So long, in all, whoever calls this has waited for a processor by now, as far as he knows. A time-out
  // most of which has gone so, or that is noticed so late, uses up no retry: what did not run may be at
  // either end. That is in bounds (base/silence.h).
  void NoteWaited(Nanos waited) { waited_ = waited; }
  // Whether anything sent waits for its acknowledgement.
  bool awaits_acknowledgement() const { return tx_.una != tx_.max; }

  // When Poll is to be called again: 0 at once, kNever if only a packet or a post can change anything.
  Nanos next_deadline() const;

  // In order per queue. False if there is none.
  bool NextCompletion(Completion* out);

  // In SQD: everything started before has completed (verbs: IBV_EVENT_SQ_DRAINED).
  bool sq_drained() const { return state_ == QpState::kSqd && tx_.una == tx_.max; }
  const QpCounters& counters() const { return counters_; }
  // The NAK syndrome with which a request of the peer was refused, which ended the queue pair; 0 if none was.
  // It was sent, but for a Read that was cut off in the middle (CutOffRead). For verbs' asynchronous events:
  // the side that refuses may have no request of its own to complete.
  uint8_t refused_with() const { return rx_.refused_with; }
  const RateController& rate() const { return rate_; }

 private:
  friend struct epic::Snapshot;
  using SendEntry = PostedSend;
  static constexpr int64_t kNoLimit = INT64_MAX;
  // The send queue and how far it is. una <= nxt <= max <= posted.
  struct Requester {
    Ring<SendEntry> sends;
    std::vector<uint8_t> inline_bytes;
    uint64_t posts = 0;  // of messages
    size_t cur = 0;      // the entry that nxt lies in
    int64_t una = 0;
    int64_t nxt = 0;
    int64_t max = 0;
    int64_t posted = 0;
    // The last message that may need a receive, by the responder's credits (LSN); kNoLimit if it gives none.
    int64_t message_limit = kNoLimit;
    int since_ack_req = 0;
    int reads_in_flight = 0;
    int64_t reads_awaited = 0;  // packets of responses to those
    int64_t reads_asked = 0;    // of all that were ever asked for
    int64_t reads_late = 0;     // that may still come, asked for before a repetition
    bool started_retry = false;
    // A request that could not be read from memory: it fails when it is the oldest.
    bool stuck = false;
    uint8_t retries_left = 0;
    uint8_t rnr_retries_left = 0;
    uint32_t excused = 0;  // time-outs since something came that have used up no retry
    Nanos waited_at = 0;   // what NoteWaited had said when the last repetition began
    Nanos timer_at = kNever;
    Nanos rnr_until = kNever;  // waiting after an RNR NAK
  };
  enum class Answer : uint8_t { kAeth, kRead, kAtomic };
  struct Response {
    Answer kind = Answer::kAeth;
    uint8_t syndrome = 0;  // of an AETH alone
    Psn psn;               // of the next packet
    uint32_t msn = 0;
    // A read: the whole has PSNs first to last; what remains is read from address on.
    Psn first, last;
    uint32_t rkey = 0;
    uint32_t remaining = 0;
    uint64_t address = 0;
    uint64_t original = 0;  // an atomic
  };
  // A Read or atomic that was taken: only the like of it is taken for its repetition. An atomic is not
  // executed again: what it found is answered again.
  struct ReadRecord {
    Opcode opcode = Opcode::kRcReadRequest;
    Psn first, last;
    Reth reth{};            // of an atomic: where and by which key
    uint64_t original = 0;  // an atomic
  };
  struct Responder {
    Ring<RecvWr> recvs;
    Ring<Response> responses;
    Ring<ReadRecord> reads;
    Psn epsn;
    // Behind the last packet of a Send or Write that was taken. A plain acknowledgement names the PSN before
    // it and never one of a Read or atomic, whose responses are its only acknowledgement: rdma_rxe completes
    // one whose last PSN an ACK names, without its data. Equal to epsn except behind one, and with hold_acks.
    Psn ack_psn;
    uint32_t ack_msn = 0;  // the MSN that goes with ack_psn, with hold_acks
    uint32_t msn = 0;
    bool nak_sent = false;
    uint8_t refused_with = 0;
    Arrival in;
    int acks_held = 0;
    Nanos ack_at = kNever;
    bool cnp_due = false;
    Nanos cnp_allowed_at = 0;
  };

  // requester.cc
  bool MaySend() const;
  bool MayRead(const SendEntry& entry) const;
  bool LacksCredit(const SendEntry& entry) const;
  bool EmitRequest(Nanos now, Memory& memory, PacketSink& sink);
  bool EmitData(SendEntry& entry, Memory& memory, PacketSink& sink, uint32_t* sent);
  void EmitRead(SendEntry& entry, PacketSink& sink);
  bool DoLocal(Memory& memory);
  void NextEntry();
  void Rewind();
  void Retry();
  void Repeat();
  bool IsExcused(Nanos late) const;
  void OnRequesterTimers(Nanos now);
  Packet MakePacket(Opcode opcode, Psn psn) const;
  void Emit(const Packet& packet, PacketSink& sink);

  // completer.cc
  void OnResponse(Nanos now, const Packet& packet, Memory& memory);
  void TakeCredits(const Aeth& aeth, int64_t named);
  void OnAck(Nanos now, int64_t named);
  void OnNak(Nanos now, uint8_t syndrome, int64_t named);
  void NoteLate(Nanos now);
  bool TakeBefore(Nanos now, int64_t named);
  void TakeResponse(Nanos now, int64_t named);
  void OnReadResponse(Nanos now, const Packet& packet, int64_t named, Memory& memory);
  bool CompleteThrough(Nanos now, int64_t acked);
  void CompleteFront();
  void OnMissingReadResponse();
  void ResetRetries();

  // responder.cc
  void OnRequest(Nanos now, const Packet& packet, Memory& memory);
  void OnDuplicate(const Packet& packet);
  void Execute(Nanos now, const Packet& packet, Memory& memory);
  bool TakeShared(Memory& memory);
  void RefusePlaced(Placed why);
  void ExecuteRead(const Packet& packet, Memory& memory);
  void CompleteRecv(const Packet& packet, WcOpcode opcode, uint32_t bytes);
  void RefuseRequest(uint8_t nak_syndrome, WcStatus recv_status);
  void EndRefused(uint8_t nak_syndrome, WcStatus recv_status);

  // atomics.cc
  void EmitAtomic(SendEntry& entry, PacketSink& sink);
  void OnAtomicResponse(Nanos now, const Packet& packet, int64_t named, Memory& memory);
  void ExecuteAtomic(const Packet& packet, Memory& memory);
  void RepeatAtomic(const Packet& packet);
  bool QueueAtomic(const ReadRecord& record);
  void EmitAtomicResponse(const Response& response, PacketSink& sink);

  // responses.cc
  void Acknowledge(Nanos now);
  void NoteTaken(Nanos now, const Packet& packet, bool ends);
  bool QueueAck() { return QueueAeth(kSyndromeAck, rx_.ack_psn - 1); }
  bool QueueAeth(uint8_t syndrome, Psn psn);
  bool QueueRead(const ReadRecord& whole, Psn from, const Reth& part);
  void NoteAnswered(const ReadRecord& record);
  void CutOffRead();
  void EmitResponse(Memory& memory, PacketSink& sink);
  void NoteCongestion(Nanos now, const Packet& packet);

  // state.cc
  // Every request that is posted has a place for its completion, as will `ahead` others.
  bool HasRoom(size_t ahead = 0) const {
    return tx_.sends.size() + rx_.recvs.size() + completions_.size() + ahead < completions_.capacity();
  }
  void Start(QpState to);
  void EnterError();
  void FailSend(WcStatus status);
  void FlushAll();
  bool Receives() const;

  Psn SendPsn(int64_t number) const { return attr_.sq_psn + number; }

  QpConfig config_;
  int32_t window_ = config_.policy.max_outstanding;
  int64_t read_window_ = kNoLimit;
  QpState state_ = QpState::kReset;
  QpAttributes attr_;
  Requester tx_;
  Responder rx_;
  RateController rate_;
  Ring<Completion> completions_;
  QpCounters counters_;
  Nanos waited_ = 0;
};

}  // namespace epic::roce
