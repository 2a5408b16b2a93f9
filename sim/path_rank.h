// A rank's calls where some or all of them go between the hosts: HostPath, as the library runs it, on the
// rank's queue pairs to other ranks, beside its queue pair to its switch (docs/PROTOCOL.md, section 11).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
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

  // The host is the rank's end towards its switch, by which the ranks agree on calls unless the config says
  // that they exchange; borrowed. `has_block`: the group's memory in switches has several owners, so that
  // calls by the network ask for it (docs/PROTOCOL-BLOCKS.md).
  PathRank(const HostPathConfig& config, Host& host, Asks asks, bool has_block = false)
      : config_(config), host_(host), asks_(std::move(asks)), has_block_(has_block), path_(config) {}

  // Starts a call by the hosts, or, if `by_hosts` is not set, by the network: not of ranks that exchange. The
  // number returned counts the calls of both ways from 0. Then Peers::WantPoll is due. Only while the host is
  // alive.
  int Start(const ControlHeader& header, const RankBuffers& buffers, bool by_hosts);

  CallState state(int call) const { return calls_[static_cast<size_t>(call)].state; }
  // Of a call that ended.
  epic::Outcome outcome(int call) const { return calls_[static_cast<size_t>(call)].outcome; }
  // Started so far.
  size_t calls() const { return calls_.size(); }
  // Whether its data go between the hosts, of a call for which that has been decided: from the beginning, or
  // since the switches have said so.
  bool goes_by_hosts(int call) const { return calls_[static_cast<size_t>(call)].by_hosts; }
  // When the last of those that have ended did.
  Nanos finished_at() const { return finished_at_; }
  bool all_done() const { return unfinished_ == 0; }
  const HostPath& path() const { return path_; }

  // The queue pair to the peer is there. Then Peers::WantPoll is due, as after SetReady.
  void SetConnected(int peer);
  // The peer receives what is sent to it.
  void SetReady(int peer) { path_.SetReady(static_cast<uint32_t>(peer)); }

  void OnCompletion(Nanos now, int peer, const roce::Completion& completion) override;
  void Poll(Nanos now, Peers& peers) override;
  // At once, when its end towards the switch has news.
  Nanos next_deadline() const override { return HasNews() ? 0 : kNever; }

 private:
  struct Call {
    CallState state = CallState::kRunning;
    epic::Outcome outcome = epic::Outcome::kOk;
    uint64_t slices = 1;  // that have not ended
    bool by_hosts = false;
  };
  // A call that has not begun.
  struct Held {
    size_t call = 0;
    ControlHeader header;
    RankBuffers buffers;
    bool by_hosts = false;
  };
  // A call of the network, or a slice of one by the hosts on which the switches see to it that all agree; or
  // a request, without buffers.
  struct Invocation {
    size_t call = 0;
    ControlHeader header;
    RankBuffers buffers;                    // of the network's
    std::optional<OpId> op = std::nullopt;  // on the path
    int at_host = -1;                       // its number there, once it has been made
  };

  bool HasNews() const;
  void Begin(const Held& held);
  void BeginHeld();
  void StartByHosts(const Held& held);
  void OnDecided(bool granted);
  void TakeReplies(Nanos now);
  void MakeInvocations();
  void PostWork(Peers& peers);
  void TakeFinished(Nanos now);
  void End(size_t call, epic::Outcome outcome, Nanos now);
  void Ask();

  const HostPathConfig config_;
  Host& host_;
  const Asks asks_;
  const bool has_block_;
  HostPath path_;
  std::vector<Call> calls_;
  size_t unfinished_ = 0;
  Nanos finished_at_ = 0;
  std::deque<size_t> on_path_;       // the calls of the path's invocations that have not ended
  std::deque<Invocation> waiting_;   // for the host, in program order
  std::deque<Invocation> agreeing_;  // made there
  std::optional<Held> asking_;       // the call whose request has not been answered
  std::deque<Held> held_;            // behind it
  std::vector<uint32_t> asked_;      // for connections with these peers
  std::vector<int> untold_;          // connected ones that have not been told
  bool closed_ = false;
};

}  // namespace epic::sim
