// A rank's calls where some or all of them go between the hosts: what they post to other ranks, on the rank's
// queue pairs to these, beside its queue pair to its switch (docs/PROTOCOL.md, section 11). What is posted,
// and when, the library's GroupCalls says, which the rank's Host runs.
#pragma once

#include <cstdint>
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
    // A queue pair for the connection; then SetConnected is called. Asked once for each.
    std::function<void(int connection)> connect;
    // That the other end be told: what it may send to has been posted (SetReady there).
    std::function<void(int connection)> tell;
  };
  // How a group's datagrams go: the first of its addresses, which are one after the other; the Q_Key of its
  // first epoch; each rank's queue pair.
  struct Multicast {
    Ipv4 address{};
    uint32_t qkey = 0;
    std::vector<Qpn> members = {};
  };

  // The host is the rank's, which has made no call yet; borrowed.
  PathRank(const HostPathConfig& config, Host& host, Asks asks);
  PathRank(const PathRank&) = delete;
  PathRank& operator=(const PathRank&) = delete;

  // Who has its queue pairs; borrowed. Before the first call.
  void SetPeers(Peers& peers) { peers_ = &peers; }
  // If calls go by multicast. The same.
  void SetMulticast(const Multicast& multicast) { multicast_ = multicast; }

  // The connection's queue pair is there. Then Peers::WantPoll is due, as after SetReady.
  void SetConnected(int connection);
  // The other end receives what is sent to it.
  void SetReady(int connection) { host_.core().SetReady(static_cast<uint32_t>(connection)); }

  void OnCompletion(Nanos now, int connection, const roce::Completion& completion) override;
  void Poll(Nanos now, Peers& peers) override;
  std::optional<std::span<uint8_t>> MapForPeers(uint32_t rkey, uint64_t address, uint32_t length) override;
  // At once, when what has come from the switch is news for the connections.
  Nanos next_deadline() const override { return HasNews() ? 0 : kNever; }

 private:
  bool HasNews() const { return host_.core().failed() ? !closed_ : host_.core().wants_connections(); }
  void Post(const GroupCalls::Request& request);
  void OnDatagram(const roce::Completion& completion);
  void Ask();

  Host& host_;
  const Asks asks_;
  Peers* peers_ = nullptr;
  Multicast multicast_;
  uint32_t epoch_ = 0;           // whose Q_Key datagrams have
  std::vector<uint32_t> asked_;  // for connections of these numbers
  std::vector<int> untold_;      // whose other ends have not been told
  bool closed_ = false;
};

}  // namespace epic::sim
