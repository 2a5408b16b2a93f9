// The collectives between the hosts themselves, over RC connections from rank to rank: what one rank posts to
// which, and when, and where the bytes lie (docs/PROTOCOL.md, section 11). The library and the simulated
// hosts run it alike. As RankCalls, which does the same for a group's connection to its switch: calls go in;
// work requests with their addresses come out, to be posted; completions go in; calls that have ended, with
// their results in the callers' buffers, come out.
//
// A value, but for the callers' buffers: copying it is a snapshot. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/snapshot.h"
#include "commlib/core/host_algorithm.h"
#include "commlib/core/host_call.h"
#include "commlib/core/host_exchange.h"
#include "commlib/core/host_multicast.h"
#include "commlib/core/host_peers.h"
#include "commlib/core/host_ring.h"
#include "commlib/core/rank_core.h"
#include "protocol/control.h"

namespace epic {

struct HostPathConfig {
  uint32_t rank = 0;
  uint32_t world_size = 2;  // 2 to kMaxHostRanks
  Algorithm algorithm = Algorithm::kAuto;
  // Whether the ranks agree on each call by its exchange, over their own connections. If not, somebody else
  // sees to that, before Agreed: in a group with switches, those do. Then only calls whose data are inlined
  // have an exchange, for these.
  bool agrees_by_exchange = true;
  uint32_t message_bytes = 64 * 1024;  // most of a data message
  // For what a rank receives and may not put into its result yet; at least 8 bytes per rank, as message_bytes
  // and inline_bytes; of calls in blocks 64 for each part. All three are the same on all ranks.
  uint64_t staging_bytes = 4 * 1024 * 1024;
  uint64_t inline_bytes = kMaxInlineBytes;  // most data by doubling
  // Of a group with datagrams, by kMulticast or kAuto, the same on all ranks: the path MTU, and as of
  // HostMulticastConfig. 0: there are none.
  uint32_t chunk_bytes = 0;
  uint32_t receive_bytes = 0;
  uint32_t staging_chunks = 1024;
  uint32_t tokens = 4;
  uint32_t addresses = 1;
  uint32_t empty_reads = kFetchReads;
};

// What a request to send is; of HostVerb::kQkey nothing is posted.
enum class HostVerb : uint8_t {
  kSend,  // a Send with Immediate
  kRead,  // an RDMA Read, from the other end's memory into `address`
  kQkey,  // the queue pair for datagrams takes the Q_Key of epoch `imm` from now on
};

// Requests of one direction that can be outstanding on a connection: what to ask for when creating its queue
// pair.
inline constexpr uint32_t kHostQueueDepth = 1200;

class HostPath {
 public:
  using Where = HostWhere;
  // One ibv_post_send or ibv_post_recv on a connection (host_peers.h). Every request is signalled; every Send
  // has immediate data.
  struct Request {
    uint32_t peer = 0;  // the connection
    bool is_recv = false;
    HostVerb verb = HostVerb::kSend;
    uint32_t imm = 0;
    uint64_t wr_id = 0;  // of its direction of the connection; lowest bit: is_recv
    OpId op = 0;
    Where where = Where::kOwn;
    uint8_t* address = nullptr;
    uint32_t length = 0;  // never 0, but of kQkey and of a Read of no bytes
    RemoteMemory remote;  // of kRead
    uint32_t group = 0;   // of kDatagrams: to which of the addresses
  };
  explicit HostPath(const HostPathConfig& config);

  HostMulticastConfig MulticastConfig() const;

  // Messages and staging: where the NIC reads and writes beside the callers' buffers. Does not move.
  std::span<uint8_t> memory() { return memory_; }

  // Most data of an invocation of this call, all parts together, a multiple of what one element of each part
  // takes: longer calls are made in slices. The same on every rank, for calls in place too.
  uint64_t MostBytes(const ControlHeader& header) const;

  // Starts a call; see RankCalls::Post, and CopyOwnPart, which is the caller's to do, with the stride.
  // WrongField(header, world_size) must be kNone, and the type have the operation. Calls run in program
  // order, one at a time; the rest wait here.
  OpId Post(const HostCall& call);
  // If they do not agree by exchange: every rank has made the call, and the same one.
  void Agreed(OpId op);
  // All receives of the call have been given out: a rank may say that it has made the call.
  bool MayAgree(OpId op) const;

  // Connections that the calls here need and that are not there yet; ascending. That for datagrams is there
  // from the beginning.
  std::vector<uint32_t> Wanted() const;
  // The queue pair to the peer can send and receive. When what NextRequest then gives has been posted, the
  // peer may be told so. `peer` is one of PeersOf, or on the fetch ring.
  void SetConnected(uint32_t peer);
  // The peer has told so: messages may be sent to it.
  void SetReady(uint32_t peer);

  // The next request to post, receives before the sends that answer them. False if nothing may be posted now.
  bool NextRequest(Request* request);
  // In the order in which the connection's queue pair reports them, in each direction; not of those that
  // failed, or were flushed: OnFlushed. What the peer sent against the rules makes this fail.
  void OnComplete(uint32_t peer, uint64_t wr_id, uint32_t bytes, std::optional<uint32_t> imm);
  void OnFlushed() { --posted_; }
  // The same of what a datagram has been received into: `bytes` without the GRH; `from`: the rank whose it
  // is, if it is one's. Completions of all connections are to come in the order in which the NIC reported
  // them.
  void OnDatagram(uint64_t wr_id, std::optional<uint32_t> from, uint32_t bytes, uint32_t imm);
  // Requests that the queue pairs have not given back. Where the ranks agree by exchange, receives for the
  // next one are always among them.
  int64_t posted() const { return posted_; }

  // As RankCore's, but that ranks which have been refused stay so: once failed no work is given out and
  // completions are ignored; after OnDrained the outstanding calls end.
  void Abort();
  void OnDrained();
  bool failed() const { return failure_.has_value(); }
  Outcome failure() const { return failure_.value_or(Outcome::kOk); }
  // Whose message broke the rules, with kProtocol, if it was one rank's.
  std::optional<uint32_t> culprit() const { return culprit_; }
  // The merged header that refused, with kRefused.
  const ControlHeader& failure_reply() const { return failure_reply_; }
  // Peers from which something must come before the first call goes on: a connection or its readiness, a
  // message, an acknowledgement. Ascending; empty if there is no call, or nothing of a peer is missing.
  std::vector<uint32_t> Awaited() const;
  void SetOwnMemory(const RemoteMemory& own) { multicast_.SetOwnMemory(own); }
  // As HostMulticast's, after HostVerb::kQkey; until then NextRequest gives nothing.
  void OnQkeySet() { multicast_.OnQkeySet(); }
  // Where that datagram lies, GRH and all.
  const uint8_t* DatagramAt(uint64_t wr_id) const {
    return memory_.data() + multicast_.ReceivePlace(wr_id >> 1);
  }
  // What has become of datagrams.
  const MulticastCounts& multicast() const { return multicast_.counts(); }
  // No call is open.
  bool idle() const { return calls_.empty(); }
  // Calls that ended, in program order; of those that ended with kOk the result is in the caller's buffer.
  std::optional<Finished> NextFinished();

 private:
  friend struct epic::Snapshot;
  struct Connection {
    uint32_t peer = 0;
    bool in_cube = false;
    bool connected = false;
    bool ready = false;
    // So many messages, in each direction; receives and sends that have been given out, and completed.
    uint64_t recvs = 0, recvs_done = 0;
    uint64_t sends = 0, sends_done = 0;
    uint32_t messages = 0;                                // of these sends: Reads take no number
    int64_t exchange_recvs = 0, exchange_recvs_done = 0;  // of these receives
  };
  enum class Phase : uint8_t {
    kConnect,   // of the first call; or there is none
    kPost,      // receives
    kAgree,     // if they do not by exchange
    kExchange,  // if it has one
    kData,      // and its end
  };

  HostRingConfig RingConfig() const;
  size_t IndexOf(uint32_t peer) const;
  Connection& To(uint32_t peer) { return connections_[IndexOf(peer)]; }
  Algorithm AlgorithmOf(Collective collective, uint64_t call_bytes) const {
    return ChooseAlgorithm(collective, call_bytes, config_.world_size, config_.algorithm,
                           config_.chunk_bytes > 0);
  }
  uint64_t MostBytesBy(Algorithm algorithm, const ControlHeader& header) const;
  // Of one that has been posted, which has its algorithm.
  bool IsMulticast(const HostCall& call) const {
    return IsByMulticast(call.header, AlgorithmIn(call.header.flags));
  }
  bool IsRing(const HostCall& call) const {
    return !IsInlined(call.header) && CallBytes(call.header) > 0 && !IsMulticast(call);
  }
  bool HasExchange(const HostCall& call) const {
    return config_.agrees_by_exchange || IsInlined(call.header);
  }
  // Does the call need the connection?
  bool Needs(const HostCall& call, size_t connection) const;
  bool IsConnected(const HostCall& call) const;
  // Whether all ranks have made the same call.
  bool Agrees() const;
  bool NextReceive(Request* request);
  bool NextMulticastReceive(Request* request);
  bool NextMulticastSend(Request* request);
  // All data of the call are here, and nothing is to be sent any more.
  bool IsDataDone() const { return ring_.done() && multicast_.done(); }
  bool NextSend(Request* request);
  bool Give(Connection* on, bool is_recv, Where where, uint8_t* address, uint32_t length, Request* request,
            HostVerb verb = HostVerb::kSend);
  bool GiveExchangeReceive(Connection* on, Request* request);
  uint8_t* Address(const HostPiece& piece);
  uint8_t* staging() { return memory_.data() + exchange_.memory_bytes(); }
  bool OnReceived(Connection* from, uint32_t bytes);
  void Begin();
  void Advance();
  void EndCall();
  void Fail(Outcome outcome) { failure_ = outcome; }
  void Refuse();

  HostPathConfig config_;
  HostExchange exchange_;
  HostRing ring_;
  HostMulticast multicast_;
  std::vector<uint8_t> memory_;          // the exchange's messages, staging, what the multicast has
  std::vector<Connection> connections_;  // by peer

  std::deque<HostCall> calls_;  // not ended, in program order; the first one runs
  OpId first_op_ = 0;       // of calls_, also the invocation
  Phase phase_ = Phase::kConnect;
  int64_t exchange_number_ = 0;  // of the first call's exchange, or the next one
  size_t ahead_ = 0;  // of connections_, those before it have the last exchange receive of the call
  size_t next_ = 0, previous_ = 0;  // around the ring, of connections_
  size_t right_ = 0, left_ = 0;     // on the fetch ring, if there are datagrams
  Connection datagrams_;
  size_t unopened_ = 0;  // connected ones whose first exchange's receive has not been given out
  int64_t unacked_ = 0;  // sends that have not completed
  int64_t posted_ = 0;

  std::optional<Outcome> failure_;
  std::optional<uint32_t> culprit_;
  ControlHeader failure_reply_;
  std::deque<Finished> finished_;
};

}  // namespace epic
