// An adapter without I/O: queue pairs, completion queues, shared receive queues and registered memory, made
// of the transport in roce/. It takes packets, work requests and the time, and gives packets, completions and
// events. Single-threaded; whoever shares it has a lock (softnic/verbs).
//
// Packets between two of its own queue pairs go round inside. Ids are numbers that count up; a call with an
// id that is not there stops the program, but for packets, which may name anything.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "base/timer_queue.h"
#include "roce/transport/queue_pair.h"
#include "roce/transport/uc.h"
#include "roce/transport/ud.h"
#include "softnic/core/memory_table.h"

namespace epic::softnic {

// A completion in its queue.
struct Work {
  roce::Completion completion;
  Qpn qpn{};
  bool is_ud = false;
  // When it arose, by the caller's clock: the time of the packet or of Run. What a call without a time
  // completes (Modify to ERR, a receive posted there) has the latest time that the adapter was told.
  Nanos at = 0;
};

// What verbs tells a consumer without being asked. `id` is the completion queue's, the QPN or the shared
// receive queue's; of the port 0.
struct Event {
  enum class Kind : uint8_t {
    kCompletion,       // a completion came to a queue that was armed
    kCqOverrun,        // a completion was lost: the queue was full
    kQpRequestError,   // the peer's request was refused
    kQpAccessError,    // the peer's request named memory that it may not use
    kQpFatal,          // own memory could not be used for the peer's message
    kSqDrained,        // in SQD: what was begun has completed
    kLastWqeReached,   // a queue pair with a shared receive queue is in ERR: it takes no more receives
    kSrqLimitReached,  // fewer receives than the limit, which is thereby disarmed
    // Of the port, told by the caller (RaiseOfPort):
    kPortActive,
    kPortError,
    kGidChange,
    kDeviceFatal,
  };
  Kind kind;
  uint32_t id = 0;
};

struct NicCounters {
  uint64_t packets_received = 0;
  uint64_t packets_looped = 0;
  uint64_t no_queue_pair = 0;  // packets to a QPN, or at an address, that is not there
};

// RDMA Reads and atomics outstanding of a queue pair, each way; as rdma_rxe.
inline constexpr uint8_t kMaxRdAtomic = 128;

// Reliable connection, unreliable connection, unreliable datagram.
enum class QpType : uint8_t { kRc, kUc, kUd };

struct QpInit {
  QpType type = QpType::kRc;
  Qpn qpn{};  // the caller sees to it that it is free
  uint32_t pd = 0;
  uint32_t send_cq = 0, recv_cq = 0;
  std::optional<uint32_t> srq;
  uint32_t send_depth = 1, recv_depth = 1;
  uint32_t max_inline_bytes = 0;
};

class Nic {
 public:
  // ip: of its queue pairs, unless a connection or a datagram is told another one. mtu: the longest datagram,
  // bytes.
  Nic(Ip ip, uint32_t mtu, const roce::Policy& policy) : ip_(ip), mtu_(mtu), policy_(policy) {}

  // What it has beside `ip`: datagrams to these are taken as well.
  void SetMoreAddresses(std::vector<Ip> more) { more_ips_ = std::move(more); }

  // So many packets wait at its port at most before some are lost. RDMA Reads ask for no more than half as
  // many together (nic_reads.cc).
  void SetPlaces(size_t places);

  MemoryTable& memory() { return memory_; }

  // Packets that a reliable queue pair can have unacknowledged while few others are at work.
  uint32_t max_outstanding() const { return static_cast<uint32_t>(policy_.max_outstanding); }

  // As QueuePair says, for all of them; it counts from the next Run on that finds a timer due.
  void NoteWaited(Nanos waited) { waited_ = waited; }

  // It is so late, for the completions of calls that are given no time.
  void SetTime(Nanos now) { now_ = now; }

  // Completion queues. Taking completions makes room; one that finds none is lost, and kCqOverrun says so,
  // once, if tells_overrun.
  uint32_t CreateCq(uint32_t depth, bool tells_overrun = true);
  void DestroyCq(uint32_t id);
  // False, and nothing changed, if more completions wait than would have room.
  bool ResizeCq(uint32_t id, uint32_t depth);
  size_t PollCq(uint32_t id, std::span<Work> out);
  // The next completion (or only a solicited one, or an error) raises kCompletion, once.
  void ArmCq(uint32_t id, bool solicited_only);
  // No longer. False if it was not armed, or has raised it.
  bool DisarmCq(uint32_t id);
  // Completion queues that are armed now.
  int armed_cqs() const { return armed_cqs_; }
  // Completions of the queue pair are taken back from its queues: it is being destroyed.
  void ForgetWorks(Qpn qpn);

  // Shared receive queues.
  uint32_t CreateSrq(uint32_t depth);
  void DestroySrq(uint32_t id);
  void SetSrqLimit(uint32_t id, uint32_t limit) { srqs_.at(id).limit = limit; }
  uint32_t srq_limit(uint32_t id) const { return srqs_.at(id).limit; }
  roce::PostResult PostSrqRecv(uint32_t id, const roce::RecvWr& wr);

  // Queue pairs.
  void CreateQp(const QpInit& init);
  void DestroyQp(Qpn qpn);
  roce::ModifyResult ModifyRc(Qpn qpn, const roce::QpChange& change);
  roce::ModifyResult ModifyUc(Qpn qpn, const roce::QpChange& change);
  roce::ModifyResult ModifyUd(Qpn qpn, roce::QpState to, std::optional<uint32_t> qkey,
                              std::optional<Psn> sq_psn);
  roce::QpState state(Qpn qpn) const;
  // In SQD: what was begun has completed. No datagram is ever half sent.
  bool sq_drained(Qpn qpn) const;
  // Of a reliable connection.
  const roce::QueuePair& rc(Qpn qpn) const { return std::get<roce::QueuePair>(qps_.at(Raw(qpn)).qp); }
  // As QueuePair says, of a reliable connection; what it leads to is sent by Run.
  void ShareAcks(Qpn qpn, int asked, Nanos delay);
  bool AttachMulticast(Qpn qpn, Ip group);
  // False if it was not attached.
  bool DetachMulticast(Qpn qpn, Ip group);
  // Nothing is sent before Run; a receive leads to nothing that is.
  roce::PostResult PostSend(Qpn qpn, const roce::SendWr& wr);
  // All of them in their order, or none, with the result of the first that cannot be posted.
  roce::PostResult PostSends(Qpn qpn, std::span<const roce::SendWr> wrs);
  roce::PostResult PostRecv(Qpn qpn, const roce::RecvWr& wr);

  // One packet from the network that was parsed and has a right ICRC. False if it was dropped because it is
  // to none of its addresses, though one of its queue pairs has the number.
  bool OnPacket(Nanos now, const roce::Packet& packet);
  // Sends what is to be sent and handles timers that are due. If it finds no memory (bad_alloc), the next
  // call goes on with what is left.
  void Run(Nanos now, roce::PacketSink& sink);
  // When Run is to be called again: 0 at once, kNever if only a call or a packet can change anything.
  Nanos next_deadline() const {
    return dirty_.empty() && running_.empty() && loop_.empty()
               ? std::min(timers_.NextDeadline(), read_tick_at_)
               : 0;
  }

  // The oldest event, null if there is none; it stays until it is taken.
  const Event* FirstEvent() const { return next_event_ < events_.size() ? &events_[next_event_] : nullptr; }
  void TakeEvent();
  // Of what the adapter cannot see itself.
  void RaiseOfPort(Event::Kind kind) { events_.push_back({kind, 0}); }
  bool NextEvent(Event* out);
  const NicCounters& counters() const { return counters_; }

 private:
  struct Cq {
    Cq(uint32_t depth, bool tells_overrun) : works(depth), overrun(!tells_overrun) {}
    roce::Ring<Work> works;
    enum class Arm : uint8_t { kNo, kSolicited, kNext } arm = Arm::kNo;
    bool overrun;  // has been told, or nobody asks
  };
  struct Srq {
    explicit Srq(uint32_t depth) : receives(depth) {}
    roce::Ring<roce::RecvWr> receives;
    uint32_t limit = 0;
  };
  struct Qp {
    QpInit init;
    std::variant<roce::QueuePair, roce::UcQueuePair, roce::UdQueuePair> qp;
    bool dirty = false;          // in dirty_, or still in running_
    bool busy = false;           // counted in busy_
    bool told_end = false;       // of ERR or of a drained send queue
    bool waits_to_read = false;  // in readers_
    int64_t reads_counted = 0;   // in reads_awaited_, if it was in this round
    int64_t reads_asked = 0;     // so far, as it says
    int64_t asked_before = 0;    // of those, in earlier rounds
    uint64_t read_round = 0;     // that it was last counted in
    Nanos timer_at = kNever;     // in timers_; may be earlier than the queue pair needs
  };
  class QpMemory;
  class LoopSink;
  struct Looped {
    roce::Packet head;
    std::vector<uint8_t> payload;
  };

  template <typename Kind>
  roce::ModifyResult ModifyConnected(uint32_t qpn, const roce::QpChange& change);
  // A queue pair was told to go from one state to the other, or to stay.
  void Entered(uint32_t qpn, Qp& qp, roce::QpState from, roce::QpState to);
  bool IsOwn(Ip ip) const;
  void MarkDirty(uint32_t qpn, Qp& qp);
  void Deliver(Nanos now, uint32_t qpn, Qp& qp, const roce::Packet& packet);
  void RunQp(Nanos now, uint32_t qpn, Qp& qp, roce::PacketSink& sink);
  void CountBusy(Qp& qp, bool busy);
  // RDMA Reads, of which few enough are under way that their responses find room (nic_reads.cc).
  void LimitReads(uint32_t qpn, Qp& qp, roce::QueuePair& rc);
  int64_t ReadsCounted(const Qp& qp) const { return qp.read_round == read_round_ ? qp.reads_counted : 0; }
  void CountReads(uint32_t qpn, Qp& qp, const roce::QueuePair& rc);
  void ForgetReads(uint32_t qpn, Qp& qp);
  void LetReadOn();
  void OnReadTick();
  void TakeCompletions(uint32_t qpn, Qp& qp);
  void PushWork(uint32_t cq, const Work& work);
  void TellEnd(uint32_t qpn, Qp& qp);
  void ReserveEvents();

  static constexpr int64_t kMaxReadWindow = 512;

  Ip ip_;
  std::vector<Ip> more_ips_;
  uint32_t mtu_;
  roce::Policy policy_;
  MemoryTable memory_;
  Nanos now_ = 0;  // the latest that was told
  Nanos waited_ = 0;
  uint32_t next_id_ = 1;
  std::map<uint32_t, Cq> cqs_;
  int armed_cqs_ = 0;
  std::map<uint32_t, Srq> srqs_;
  std::map<uint32_t, Qp> qps_;  // by QPN
  // QPNs, each once; running_ those that Run looks at. Both have room for all.
  std::vector<uint32_t> dirty_, running_;
  int busy_ = 0;  // reliable connections that wait for acknowledgements
  int64_t read_window_ = kMaxReadWindow;
  int64_t reads_awaited_ = 0;     // packets of responses, of all queue pairs, asked for in this round
  std::deque<uint32_t> readers_;  // those that wait for the others' Reads, in turn
  uint64_t read_round_ = 0;
  Nanos read_tick_at_ = kNever;  // while some wait
  int idle_ticks_ = 0;           // since an answer came or one of them was let on
  int round_ticks_ = 0;          // since the round began
  TimerQueue timers_;
  std::deque<Looped> loop_;
  // With room for those that may be raised before somebody takes them: none is lost for want of memory.
  std::vector<Event> events_;
  size_t next_event_ = 0;
  NicCounters counters_;
};

}  // namespace epic::softnic
