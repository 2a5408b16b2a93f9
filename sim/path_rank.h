// A rank's calls where some or all of them go between the hosts: what they post to other ranks, on the rank's
// queue pairs to these, beside its queue pair to its switch (docs/PROTOCOL.md, section 11). What is posted,
// and when, the library's GroupCalls says, which the rank's Host runs.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "commlib/core/host_path.h"
#include "sim/host.h"
#include "sim/peers.h"

namespace epic::sim {

// What a rank gives to a call and where its result comes: SendBytes and RecvBytes of it.
struct RankBuffers {
  std::span<const uint8_t> send;
  std::span<uint8_t> recv;
  bool registered = false;  // as of Host::Start
};

class PathRank final : public PeerDriver {
 public:
  // What it asks of others who are told of all ranks' connections. Not called from within SetConnected and
  // SetReady.
  struct Asks {
    // A queue pair to the peer; then SetConnected is called. Asked once for each.
    std::function<void(int peer)> connect;
    // That the peer be told: what it may send to has been posted (SetReady there).
    std::function<void(int peer)> tell;
  };

  // The host is the rank's, which has made no call yet; borrowed.
  PathRank(const HostPathConfig& config, Host& host, Asks asks);
  PathRank(const PathRank&) = delete;
  PathRank& operator=(const PathRank&) = delete;

  // Who has its queue pairs; borrowed. Before the first call.
  void SetPeers(Peers& peers) { peers_ = &peers; }

  // The queue pair to the peer is there. Then Peers::WantPoll is due, as after SetReady.
  void SetConnected(int peer);
  // The peer receives what is sent to it.
  void SetReady(int peer) { host_.core().SetReady(static_cast<uint32_t>(peer)); }

  void OnCompletion(Nanos now, int peer, const roce::Completion& completion) override;
  void Poll(Nanos now, Peers& peers) override;
  // At once, when what has come from the switch is news for the connections.
  Nanos next_deadline() const override { return HasNews() ? 0 : kNever; }

 private:
  bool HasNews() const {
    return host_.core().failed() ? !closed_ : host_.core().wants_connections();
  }
  void Post(const GroupCalls::Request& request);
  void Ask();

  Host& host_;
  const Asks asks_;
  Peers* peers_ = nullptr;
  std::vector<uint32_t> asked_;  // for connections with these peers
  std::vector<int> untold_;      // connected ones that have not been told
  bool closed_ = false;
};

}  // namespace epic::sim
