// Hosts that lend memory to groups whose payloads lie in a switch's pool, and what is asked of them and
// answered (docs/PROTOCOL-CONTROL.md, section 7.5). Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/types.h"
#include "incmanager/failure.h"
#include "incmanager/topology.h"

namespace epic::manager {

// A host whose daemon is here, and lends.
struct LendingHost {
  NodeId host = kNoNode;
  uint64_t all_bytes = 0;   // for all groups together
  uint64_t left_bytes = 0;  // of these, when groups have had theirs
  bool port_is_up = true;   // by which it lends
};

// Whoever knows them.
class LendingHosts {
 public:
  virtual ~LendingHosts() = default;
  // All of them, each once, as it is now. left_bytes is not looked at.
  virtual std::vector<LendingHost> List() const = 0;
};

// What groups have of hosts' memory: a host that has just come back, or been asked, does not know it yet.
class Lending {
 public:
  // Until it is called nobody lends. They outlive this.
  void Use(const LendingHosts* hosts) { hosts_ = hosts; }
  // With what is left.
  std::vector<LendingHost> Left() const;
  // Of all that a host lends.
  uint64_t LeftOf(NodeId host, uint64_t all_bytes) const;
  void Take(NodeId host, uint64_t bytes) { taken_[host] += bytes; }
  // What has been taken.
  void GiveBack(NodeId host, uint64_t bytes);
  const std::map<NodeId, uint64_t>& taken() const { return taken_; }

 private:
  const LendingHosts* hosts_ = nullptr;
  std::map<NodeId, uint64_t> taken_;  // where there is any
};

// The server that a host is to make for a group. The PSNs are the first ones.
struct ServerRequest {
  uint64_t group_id = 0;
  uint32_t generation = 0;
  std::string name;
  uint32_t world_size = 0;
  uint32_t path_mtu = 0;         // bytes
  uint32_t message_packets = 0;  // M
  uint32_t slots = 0;            // N
  uint32_t accumulator_mtus = 0;
  uint64_t bytes = 0;  // that it takes of the host's memory (LentBytes)
  // The switch's end of the leg.
  std::string switch_name;
  Ipv4 switch_ip{};
  uint32_t switch_qpn = 0;
  uint32_t switch_psn = 0;    // of the switch
  uint32_t server_psn = 0;    // of the server
  bool super_frames = false;  // the switch's end and all links to it take super-frames
};

// The host's end, or why there is none.
struct ServerAnswer {
  Failure refused;  // ok: the server is there
  Ipv4 ip{};        // of the host, which has others, too
  uint32_t qpn = 0;
  bool super_frames = false;  // its NIC takes super-frames, and can send them
};

}  // namespace epic::manager
