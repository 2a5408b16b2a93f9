// The connections of a communicator with other ranks, and the calls that go over them: HostPath
// (commlib/core/host_path.h) on queue pairs. How a connection is made is docs/PROTOCOL.md, section 11.1; this
// is its table's side of one rank, but for what blocks, which its owner does.
//
// Not thread-safe: guarded by the communicator's mutex.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "commlib/call.h"
#include "commlib/core/host_path.h"
#include "commlib/session_state.h"
#include "commlib/verbs/completion_queue.h"
#include "commlib/verbs/device.h"
#include "commlib/verbs/queue_pair.h"
#include "epic/epic.h"

namespace epic::internal {

class HostLinks {
 public:
  // Makes room for the connections' completions in `cq`. `connect` has what all connections have in common:
  // path MTU, times and repetitions. kNoResource or kInternal if verbs refuse.
  static Error Create(std::shared_ptr<verbs::Device> device, std::shared_ptr<verbs::CompletionQueue> cq,
                      const HostPathConfig& config, const verbs::ConnectInfo& connect,
                      std::unique_ptr<HostLinks>* links);

  // What is posted there has a Call here, in the same order: Post.
  HostPath& path() { return path_; }
  const HostPath& path() const { return path_; }

  // Posts a slice of the call; its buffers are registered, unless the slice needs none (see NeedsBuffers).
  OpId Post(const HostCall& slice, const std::shared_ptr<Call>& call);
  // Most data of a slice of the call, all parts together.
  uint64_t MostBytes(const ControlHeader& header) const;
  // Whether so many slices can be counted: kInvalidArgument if not.
  Error CheckLength(const ControlHeader& header) const;
  // Whether the NIC reads the call's own buffers; it writes them if RingReceivesResults.
  bool NeedsBuffers(const ControlHeader& header) const;
  // The call of an op that has not been taken by NextFinished; null if there is none.
  const Call* CallOf(OpId op) const;
  // A slice that has ended, in program order.
  struct Ended {
    std::shared_ptr<Call> call;
    Outcome outcome = Outcome::kOk;
  };
  std::optional<Ended> NextFinished();
  // Of those that are outstanding.
  template <typename Look>
  void ForEachCall(const Look& look) const {
    for (const auto& call : calls_) look(*call);
  }

  // Makes an end for each connection that calls want and that has none; tells of them in `tell`.
  Error MakeEnds(std::vector<PeerEndInfo>* tell);

  // Another rank has said something of its end: `tell` is what to answer. With a queue pair in *connect, that
  // is to be connected, without the mutex, and then OnConnected to be called; it is nobody else's until then.
  struct Connecting {
    uint32_t rank = 0;
    std::shared_ptr<verbs::QueuePair> qp;
    verbs::ConnectInfo info;
  };
  Error OnPeerEnd(const PeerEndInfo& end, std::vector<PeerEndInfo>* tell, std::optional<Connecting>* connect);
  // The receives for what comes first are posted by the next PostWork; then `tell` may be sent.
  void OnConnected(const Connecting& connecting, std::vector<PeerEndInfo>* tell);

  // Posts what may be posted now. After an error, nothing of what could not be posted is counted any more.
  Error PostWork();
  // The error that a failed request means, if it is the first one; also of flushed requests, which mean
  // nothing. False if the queue pair is none of these.
  bool OnCompletion(const ibv_wc& completion, Error* error);

  // All queue pairs to the error state: their requests are flushed.
  void ToError();
  // Destroys them: the NIC touches no buffer any more. One that is being connected is left to who does that.
  void DestroyQps();

 private:
  // A connection. The manager passes on what its ends say in order.
  struct Link {
    uint32_t rank = 0;
    std::shared_ptr<verbs::QueuePair> qp;  // from when this end has been told of
    uint32_t psn = 0;                      // of our first packet
    std::optional<PeerEndInfo> remote;
    bool connecting = false;
    bool connected = false;
    bool ready = false;  // the other end receives
  };
  struct Batch;

  HostLinks(std::shared_ptr<verbs::Device> device, std::shared_ptr<verbs::CompletionQueue> cq,
            const HostPathConfig& config, const verbs::ConnectInfo& connect);
  Link* LinkWith(uint32_t rank);
  // Most of each part in a slice.
  uint64_t MostElements(const ControlHeader& header) const;
  std::string NameOf(const Link& link) const;
  Error MakeEnd(Link* link, std::vector<PeerEndInfo>* tell);
  ibv_sge SgeOf(const HostPath::Request& request) const;
  Error Flush(Batch* batch);

  const std::shared_ptr<verbs::Device> device_;
  const std::shared_ptr<verbs::CompletionQueue> cq_;
  const HostPathConfig config_;
  const verbs::ConnectInfo connect_;
  HostPath path_;  // its memory outlives the registration
  std::shared_ptr<verbs::Memory> own_memory_;
  std::vector<Link> links_;  // with each rank that this one may have to do with
  std::deque<std::shared_ptr<Call>> calls_;
  OpId first_call_ = 0;
  std::mt19937 random_{std::random_device{}()};  // for PSNs
};

}  // namespace epic::internal
