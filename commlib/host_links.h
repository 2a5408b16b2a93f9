// The connections of a communicator with other ranks: their queue pairs and how these are made
// (docs/PROTOCOL.md, section 11.2), but for what blocks, which its owner does. What goes over them is
// commlib/core/group_calls.h's to say.
//
// Not thread-safe: guarded by the communicator's mutex.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "commlib/core/group_calls.h"
#include "commlib/session_state.h"
#include "commlib/verbs/completion_queue.h"
#include "commlib/verbs/datagram_qp.h"
#include "commlib/verbs/device.h"
#include "commlib/verbs/queue_pair.h"
#include "commlib/work_batch.h"
#include "epic/epic.h"

namespace epic::internal {

// A rank's queue pair for datagrams, and the group to which it is to be attached.
struct Datagrams {
  std::unique_ptr<verbs::DatagramQp> qp;
  MulticastInfo info;
};

class HostLinks {
 public:
  // Of a rank. Makes room for the connections' completions in `cq`. `connect` has what all connections have
  // in common: path MTU, times and repetitions. `calls` has its way between the hosts, is told of connections
  // and completions, and outlives this; its hosts_memory is registered here. With `datagrams`, the group is
  // joined. kNoResource, kTransport or kInternal if verbs refuse.
  static Error Create(std::shared_ptr<verbs::Device> device, std::shared_ptr<verbs::CompletionQueue> cq,
                      uint32_t rank, uint32_t world_size, const verbs::ConnectInfo& connect,
                      GroupCalls* calls, std::optional<Datagrams>* datagrams,
                      std::unique_ptr<HostLinks>* links);

  const verbs::Memory* own_memory() const { return own_memory_.get(); }
  // Posts what is for a connection (core/host_peers.h) that has an end, as WorkBatch::Post.
  int Post(WorkBatch* batch, size_t* unposted);
  // "the connection with rank 3 (10.0.0.4)", for messages.
  std::string NameOf(uint32_t connection) const;
  // Datagrams have the Q_Key of this epoch from now on.
  Error SetEpoch(uint32_t epoch);

  // Makes an end for each of these connections that has none; tells of them in `tell`.
  Error MakeEnds(const std::vector<uint32_t>& wanted, std::vector<PeerEndInfo>* tell);

  // Another rank has said something of its end: `tell` is what to answer. With a queue pair in *connect, that
  // is to be connected, without the mutex, and then OnConnected to be called; it is nobody else's until then.
  struct Connecting {
    uint32_t connection = 0;
    std::shared_ptr<verbs::QueuePair> qp;
    verbs::ConnectInfo info;
  };
  Error OnPeerEnd(const PeerEndInfo& end, std::vector<PeerEndInfo>* tell, std::optional<Connecting>* connect);
  // When what GroupCalls then gives out has been posted, `tell` may be sent.
  void OnConnected(const Connecting& connecting, std::vector<PeerEndInfo>* tell);

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
    uint32_t connection = 0;
    std::shared_ptr<verbs::QueuePair> qp;  // from when this end has been told of
    uint32_t psn = 0;                      // of our first packet
    std::optional<PeerEndInfo> remote;
    bool connecting = false;
    bool connected = false;
    bool ready = false;  // the other end receives
  };

  HostLinks(std::shared_ptr<verbs::Device> device, std::shared_ptr<verbs::CompletionQueue> cq,
            const verbs::ConnectInfo& connect, GroupCalls* calls, std::optional<Datagrams> datagrams);
  Error JoinGroup();
  void OnDatagram(const ibv_wc& completion);
  void OnCompletionOf(uint32_t connection, const ibv_wc& completion, Error* error);
  Link* LinkOf(uint32_t connection);
  // Requests of each direction that can be outstanding.
  uint32_t SendsOn(const Link& link) const;
  uint32_t RecvsOn(const Link& link) const;
  std::string NameOf(const Link& link) const;
  Error MakeEnd(Link* link, std::vector<PeerEndInfo>* tell);

  const std::shared_ptr<verbs::Device> device_;
  const std::shared_ptr<verbs::CompletionQueue> cq_;
  const verbs::ConnectInfo connect_;
  GroupCalls& calls_;
  std::shared_ptr<verbs::Memory> own_memory_;
  std::vector<Link> links_;  // with each rank that this one may have to do with
  std::optional<Datagrams> datagrams_;
  std::unordered_map<uint64_t, uint32_t> rank_of_source_;  // of datagrams
  std::mt19937 random_{std::random_device{}()};            // for PSNs
};

}  // namespace epic::internal
