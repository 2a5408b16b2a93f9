// What a rank says of itself when it joins a group.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "base/types.h"
#include "commlib/verbs/device.h"
#include "epic/epic.h"

namespace epic::proto {
class ClientMessage;
}

namespace epic::internal {

struct JoinInfo {
  std::string group;
  uint32_t rank = 0;
  uint32_t size = 0;
  Ipv4 ip{};
  uint32_t qpn = 0;
  uint32_t max_path_mtu = 0;
  uint32_t max_outstanding = 0;  // packets that the NIC can have unacknowledged
  std::chrono::milliseconds join_timeout{0};
  std::chrono::milliseconds manager_timeout{10'000};  // until the manager is reached, who is not told
  std::function<bool()> gives_up;  // as in Options
  // How long a manager that goes away is waited for, who is told only whether it is at all; 0: not.
  std::chrono::milliseconds away_timeout{60'000};
  int mode = 0;               // wanted; 0: any
  bool super_frames = false;  // the NIC takes them
  PathChoice path = PathChoice::kDefault;
  uint64_t max_bytes = 0;  // as in Options, like the types
  std::string types;
  float quantise = 0;
  bool quantise_int8 = false;
  // Of a rank that asks for the algorithm multicast, or would take it, else 0: its queue pair for datagrams,
  // and whose datagrams its NIC gives it.
  uint32_t datagram_qpn = 0;
  verbs::DatagramReach datagram_reach = verbs::DatagramReach::kNone;
  bool datagrams_offered = false;  // it would take it, and does not ask
  uint32_t datagram_receives = 0;  // for so many datagrams the queue pair has room
};

// As the first message of a session, with this process, its host, and a random number of its own.
proto::ClientMessage ToProto(const JoinInfo& info);

}  // namespace epic::internal
