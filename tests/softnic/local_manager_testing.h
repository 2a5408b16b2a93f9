// A manager in the test's own process, without gRPC: local_session.cc is a Session that talks to it, to be
// linked instead of commlib's. So everything that runs, but for system libraries, is built by us, and
// ThreadSanitizer sees all of it.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <queue>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "commlib/session.h"
#include "softnic/verbs/use_network.h"
#include "tests/softnic/virtual_switch_testing.h"

namespace epic::softnic {

// Groups on one switch, or between the hosts where the ranks ask for that, made when all their ranks have
// joined. One at a time: sessions find it by themselves.
class LocalManager {
 public:
  explicit LocalManager(VirtualSwitch* a_switch);
  ~LocalManager();
  LocalManager(const LocalManager&) = delete;
  LocalManager& operator=(const LocalManager&) = delete;
  // Of this process.
  static LocalManager& Get();

  // All of them from any thread; the failure handlers run on a thread of the manager's.
  Error Join(const internal::JoinInfo& info, internal::JoinedInfo* joined);
  void SetFailureHandler(const std::string& group, uint32_t rank, internal::Session::FailureHandler handler);
  // No handler of the rank runs when it has returned.
  void Forget(const std::string& group, uint32_t rank);
  void Abort(const std::string& group, uint32_t rank, const std::string& reason);
  void TellMismatch(const std::string& group, uint32_t rank, const std::string& how);
  // All ranks are told, the one that says it included.
  void TellNotFinite(const std::string& group, const std::string& how);
  Error Leave(const std::string& group, uint32_t rank);

  // What the switch has in groups that are made from now on; what it lacks goes between the hosts. Those that ask
  // have one block together.
  void SetAbilities(const internal::GroupAbilities& abilities);
  // The same of one group, of which hosts_reach is as it says.
  void SetAbilitiesOf(const std::string& group, const internal::GroupAbilities& abilities);
  // A rank that joins this group from now on is refused at once; the others wait for it, until they give up.
  void Refuse(const std::string& group, uint32_t rank);
  // How much data an invocation has at most (JoinedInfo), in groups on the switch that are made from now on.
  void SetInvocationBytes(uint64_t bytes);
  // Whether ranks of groups that are made from now on are to tell what has become of datagrams; else they do
  // as with an earlier manager.
  void SetTakesCounts(bool takes);
  // Whether ranks between the hosts get multicast if all of them would take it and none asks; else they are
  // told that the network is an old one.
  void SetGivesUnasked(bool gives);

  // As of a session.
  void SetPeerHandler(const std::string& group, uint32_t rank, internal::Session::PeerHandler handler);
  void TellPeer(const std::string& group, uint32_t rank, const internal::PeerEndInfo& end);

  // As of a session; what a rank has told so far, in order; waits until it has told that so many chunks are there.
  void TellDatagrams(const std::string& group, uint32_t rank, const MulticastCounts& counts);
  std::vector<MulticastCounts> DatagramsTold(const std::string& group, uint32_t rank);
  void WaitDatagramsTold(const std::string& group, uint32_t rank, uint64_t expected);

  // The group fails for all ranks.
  void Fail(const std::string& group, const Error& error);
  // Waits until a rank has aborted the group, and says why.
  std::string WaitAborted(const std::string& group);

 private:
  struct Group {
    uint64_t id = 0;
    uint32_t size = 0;
    bool installed = false;
    std::map<uint32_t, uint32_t> qpn_of_rank;
    std::vector<verbs::DatagramSource> datagram_ends;  // by rank, if all ask for multicast
    uint32_t receives = 0;                             // the fewest of one
    std::map<uint32_t, internal::Session::FailureHandler> handlers;
    std::map<uint32_t, internal::Session::PeerHandler> peer_handlers;
    std::map<uint32_t, std::vector<internal::PeerEndInfo>> unheard;   // by ranks without a handler so far
    std::map<uint32_t, std::vector<MulticastCounts>> datagrams_told;  // by rank
    std::set<uint32_t> left;
    std::string aborted;
  };
  // If all ranks ask for it.
  std::optional<internal::MulticastInfo> MulticastOf(const Group& group) const;
  void Tell(Group& group, const Error& error);
  void Run();

  // To the rank's handler, if it has one.
  void TellPeers(Group& group, uint32_t rank);

  VirtualSwitch* const switch_;
  internal::GroupAbilities abilities_;
  std::map<std::string, internal::GroupAbilities> abilities_of_;
  std::set<std::pair<std::string, uint32_t>> refused_;  // group and rank
  uint64_t invocation_bytes_ = kMaxBytes;
  bool takes_counts_ = true;
  bool gives_unasked_ = true;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Group> groups_;
  std::queue<std::function<void()>> tell_;
  bool telling_ = false;
  bool stop_ = false;
  std::thread thread_;
};

// Switch, manager and softnic's network for as long as it lives.
class LocalWorld {
 public:
  LocalWorld() {
    network_->AddInterface("virt0", kHostIp);
    epic_softnic_use_network(network_.get());
    switch_ = std::make_unique<VirtualSwitch>(network_.get());
    manager_ = std::make_unique<LocalManager>(switch_.get());
  }
  ~LocalWorld() {
    epic_softnic_use_network(nullptr);
    manager_ = nullptr;
    network_ = nullptr;  // before the switch, whose timers it has
  }
  LocalWorld(const LocalWorld&) = delete;
  LocalWorld& operator=(const LocalWorld&) = delete;
  LocalManager& manager() { return *manager_; }
  VirtualNetwork& network() { return *network_; }
  VirtualSwitch& a_switch() { return *switch_; }

 private:
  std::unique_ptr<VirtualNetwork> network_ =
      std::make_unique<VirtualNetwork>(VirtualNetwork::Config{.super_frames = true});
  std::unique_ptr<VirtualSwitch> switch_;
  std::unique_ptr<LocalManager> manager_;
};

// How a rank of a group joins it.
inline Options LocalOptions(const std::string& group, int rank, int size,
                            PathChoice path = PathChoice::kNetwork) {
  return {.group = group, .rank = rank, .size = size, .manager = "local", .path = path};
}

}  // namespace epic::softnic
