// What the manager has said in one session: its messages come in, what they mean for the rank comes out. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/types.h"
#include "commlib/arguments.h"
#include "commlib/verbs/datagram_qp.h"
#include "commlib/verbs/queue_pair.h"
#include "epic/epic.h"
#include "protocol/types.h"

namespace epic::proto {
class ServerMessage;
}

namespace epic::internal {

// One end of a connection between two ranks (proto/manager.proto, PeerEnd).
struct PeerEndInfo {
  uint32_t rank = 0;  // said by us: whom it is for; said to us: who says it
  Ipv4 ip{};          // of the end; filled in by the manager
  uint32_t qpn = 0;
  uint32_t psn = 0;  // of its first packet
  bool ready = false;
  bool super_frames = false;  // it takes them, and so does the way to it; filled in by the manager
  bool fetches = false;       // of the fetch ring (docs/PROTOCOL-MULTICAST.md, section 2)

  friend bool operator==(const PeerEndInfo&, const PeerEndInfo&) = default;
};

// The multicast group of a group's ranks (proto/manager.proto, MulticastGroup).
struct MulticastInfo {
  Ipv4 address{};
  uint32_t qkey = 0;                        // of the first 65,536 invocations; its uppermost bit is 0
  std::vector<verbs::DatagramSource> ends;  // by rank: from where its datagrams come
  bool super_frames = false;                // all members take them, and so does every link between them
  uint32_t receives = 0;                    // for so many datagrams each member has room; never 0
  bool takes_counts = false;                // the manager takes DatagramsSeen

  friend bool operator==(const MulticastInfo&, const MulticastInfo&) = default;
};

struct JoinedInfo {
  uint64_t group_id = 0;
  uint32_t generation = 0;
  std::string secret;    // with which the rank comes back to it; empty: it may not
  bool durable = false;  // also to the next manager; else the group ends with its manager
  // kNetwork or kHosts, and why the latter. By the hosts' path there is no switch, and what tells of one is
  // not set: `mode`, the other end's address, QPN and PSNs in `connect`, M, W.
  PathChoice path = PathChoice::kNetwork;
  std::string path_reason;
  int mode = 0;
  verbs::ConnectInfo connect;
  uint32_t message_packets = 0;  // M
  uint32_t window_messages = 0;  // W
  uint32_t start_messages = 0;   // the send window to begin with, at most W; 0: W, and no other is tried
  uint32_t inline_bytes = 0;     // most data of a call that travel in its control message
  // Most data of an invocation in the network, all parts together: a longer call is made in slices. All ranks
  // have the same; the manager does not choose it. At least what fits into a rank's bounce buffer, since
  // calls that travel there are not cut.
  uint64_t invocation_bytes = kMaxBytes;
  GroupAbilities abilities;  // of its switches
  // If the network carries datagrams of this group, for which all ranks asked, or which all would take; else
  // why not, or nothing.
  std::optional<MulticastInfo> multicast;
  std::string multicast_reason;
  ErrorCode multicast_error = ErrorCode::kUnsupported;
};

class SessionState {
 public:
  // Of a group of so many ranks.
  explicit SessionState(uint32_t world_size = 0) : world_size_(world_size) {}

  // True if the session has failed by this message: by a Failure, a Joined or a PeerEnd that no queue pair
  // can be given (kUnsupported, naming the field), or a Joined with a multicast group that is none
  // (kInternal, naming the field). Only the first answer to the join counts.
  bool OnMessage(const proto::ServerMessage& message);
  // True if that is news: the first failure stays, and there is none after Left.
  bool Fail(const Error& failure);
  // Whatever breaks from now on is no failure.
  void SetLeft() { left_ = true; }

  const std::optional<JoinedInfo>& joined() const { return joined_; }
  const std::optional<Error>& failure() const { return failure_; }
  bool left() const { return left_; }
  // The switch that the manager wants to be asked for an echo; once.
  std::optional<Ipv4> TakeProbe() { return std::exchange(probe_, std::nullopt); }
  // Whether the manager asks what this rank has called; once.
  bool TakeCallsAsked() { return std::exchange(calls_asked_, false); }
  // What other ranks have said of their ends since the last time, in order.
  std::vector<PeerEndInfo> TakePeers() { return std::exchange(peers_, {}); }
  bool has_peers() const { return !peers_.empty(); }
  // Which ranks have not come, in words.
  const std::string& waiting() const { return waiting_; }

 private:
  // False if the manager says more of other ranks than there can be. What it has said before is passed over:
  // a rank that comes back is told all again.
  bool TakePeer(const PeerEndInfo& end);

  const uint32_t world_size_;
  std::optional<JoinedInfo> joined_;
  std::optional<Error> failure_;
  std::optional<Ipv4> probe_;
  bool calls_asked_ = false;
  std::vector<PeerEndInfo> peers_;
  // What was said last of each end, by its rank and `fetches`.
  std::map<std::pair<uint32_t, bool>, PeerEndInfo> ends_;
  std::string waiting_ = "it has said nothing about missing ranks";
  bool left_ = false;
};

}  // namespace epic::internal
