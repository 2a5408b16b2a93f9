// What there is to know of a group: what was asked for, its ranks, where it is placed, and what has become of
// it. Plain values, which Admission judges, Placer finds a way for, and GroupLife owns and changes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/path_mtu.h"
#include "base/types.h"
#include "incmanager/failure.h"
#include "incmanager/groups/health_watch.h"
#include "incmanager/groups/multicast_pool.h"
#include "incmanager/groups/plan.h"
#include "incmanager/policies/load.h"
#include "incmanager/policies/place.h"
#include "incmanager/policies/window.h"
#include "protocol/control.h"
#include "protocol/priority.h"

namespace epic::manager {

struct GroupOptions {
  Nanos join_timeout = 120 * kSecond;
  Nanos linger = 5 * kSecond;  // how long a failed group's contexts wait for its sessions to end
  uint32_t max_path_mtu = kMaxPathMtu;
  uint32_t window_packets = 64;  // bound of M*W
  uint64_t prompt_ns = 20 * kMillisecond;
  // Of groups that ask for none: what two packets of the largest MTU take beside the header. Copies go up
  // every edge and reductions down every edge in full when they are inlined, so that more would cost more
  // than it saves.
  uint32_t inline_bytes = 2 * kMaxPathMtu - kControlBytes;
  std::optional<uint32_t> start_psn;  // for tests: of every endpoint; else random
  // Of the addresses of multicast groups; nothing: no group has multicast.
  std::optional<MulticastRange> multicast = MulticastRange{};
  // Bounds: what is beyond them is refused, so that nobody takes all memory and time of the manager.
  uint32_t max_reserved = 100'000;  // groups
  uint32_t max_tenants = 1'000;
  uint32_t max_waiting = 4'096;       // ranks of one address that wait for others
  uint32_t refusals_a_second = 100;  // of one peer that are told each by itself; more are counted
};

// A group that the operator asked for; see CreateGroupRequest in proto/manager.proto.
struct GroupSpec {
  std::string name;
  uint32_t world_size = 0;
  std::vector<std::string> hosts;            // by rank; empty: learned when the ranks join
  Mode mode = Mode::kUnspecified;            // the default
  std::map<std::string, Mode> switch_modes;  // by name, of switches that differ from the group
  bool reproducible = false;                 // sums in the order of children: the same bits each time
  uint32_t path_mtu = 0;                     // 0: the largest that the path carries
  uint32_t message_packets = 0;
  uint32_t window_messages = 0;
  std::optional<uint32_t> start_psn;
  std::optional<uint32_t> inline_bytes;  // most data of a call that travel in its control message
  Abilities needs;                       // that each switch of the tree must have
  uint64_t max_bytes = 0;                // of the longest call that it is for; 0: of any length
  float scale = 0;                       // what FP32 is multiplied by to be summed as INT32; 0: it is not
  bool int8 = false;                     // sums of FP32, FP16 and BF16 travel as blocks of INT8
  Priority priority_limit = 0;           // of calls in a pool; 0: no limit
  std::string wrong;                     // with what was asked for, as far as it did not fit here
  Path path = Path::kUnspecified;        // auto
  Policy policy = Policy::kUnspecified;  // the manager's default
  Prefer prefer = Prefer::kUnspecified;  // of policies spatial and temporal: auto
  uint64_t rate_kbps = 0;                // of the same: to be reserved; 0: none
  std::string tenant;                    // empty: of none
  uint32_t duty = 0;                     // of policy temporal, in millionths, like these two; 0: all the time
  std::string job, phase;
};

// What a group has of the time of its blocks.
TimeShare ShareOf(const GroupSpec& spec);

// With mode, path and policy where none are asked for; policy: the default one.
GroupSpec WithDefaults(GroupSpec spec, Policy policy);

// What each switch of the tree must have: what was asked for; of a group with a scale INT32 and its
// saturating sum, in place of FP32; of one with blocks of INT8 these, and their sum.
Abilities NeedsOf(const GroupSpec& spec);

// For the sum of a packet while it is built, in path MTUs, at each switch: as many as the types need that
// were declared, else those of FP16 and BF16. What is not declared and would need more is not for the
// switches.
uint32_t AccumulatorMtus(const GroupSpec& spec);

enum class GroupPhase : uint8_t { kReserved, kJoining, kInstalling, kRunning, kLeaving, kFailed };
const char* Name(GroupPhase phase);

// From when its ranks are told that it runs until the first of them is told that it does not.
inline bool IsInUse(GroupPhase phase) {
  return phase == GroupPhase::kRunning || phase == GroupPhase::kLeaving;
}

// The send window that a rank says it uses; see WindowInUse in proto/manager.proto.
struct WindowInUse {
  uint32_t messages = 0;
  uint32_t ns_per_packet = 0;
  uint32_t before_messages = 0;
  uint32_t before_ns_per_packet = 0;
};

// What a rank says has become of its datagrams so far; see DatagramsSeen in proto/manager.proto.
struct DatagramsSeen {
  uint64_t expected = 0;  // chunks
  uint64_t came = 0;
  uint64_t read = 0;
  uint64_t stranger = 0, stale = 0, alien = 0, length = 0, again = 0;  // dropped
};

// One end of a connection between two ranks; see PeerEnd in proto/manager.proto.
struct PeerEnd {
  uint32_t rank = 0;  // said by a rank: whom it is for; said to a rank: who says it
  Ipv4 ip{};          // said to a rank
  uint32_t qpn = 0;
  uint32_t psn = 0;
  bool ready = false;
  bool super_frames = false;  // said to a rank: it may send them
  bool fetches = false;       // of the ring by which lost datagrams are fetched, beside the other connection
};

struct Member {
  JoinRequest join;
  NodeId host = kNoNode;
  SessionId session = 0;
  Nanos deadline = 0;  // of its join
  bool open = true;    // the session still lives
  bool away = false;   // it has none, and may come back
  bool returned = false;      // it has come back once, or is to: it may say again what it has said
  Nanos away_from = 0;
  std::string away_since;     // what then was, for people: "the manager was away"
  bool away_with_manager = false;  // it was: its time ends with that of those who are back
  Nanos back_by = kNever;     // of one that is away
  std::string secret;         // with which it does; empty: it may not
  bool left = false;
  Failure refused;                         // with which it left
  std::optional<WindowInUse> window;       // once it has tried others
  std::optional<DatagramsSeen> datagrams;  // that it has said last
  // That it has said last, by the rank that they are for, and PeerEnd::fetches.
  std::map<std::pair<uint32_t, bool>, PeerEnd> ends;
};

// One life of a group, from the first join to the removal of its contexts.
struct Group {
  GroupSpec spec;
  bool reserved = false;  // by the operator: goes back to reserved
  uint64_t id = 0;
  uint32_t generation = 1;
  GroupPhase phase = GroupPhase::kReserved;
  std::map<uint32_t, Member> members;  // by rank
  GroupPlan plan;
  Footprint footprint;  // of the plan
  Nanos placed = 0;     // when it was made
  Nanos ran = 0;        // since when all its switches have their contexts; 0: since before this manager
  uint32_t path_mtu = 0;
  Window window;
  uint32_t inline_bytes = 0;
  std::vector<Lack> lacks;               // of the switches of the plan
  Path path_taken = Path::kUnspecified;  // kNetwork or kHosts, once that is decided
  std::string path_asked_by;             // of a path other than auto: "its operator" or "rank 2"
  std::string path_reason;               // as in JoinedReply
  bool hosts_reach = false;
  bool hosts_connect = false;               // its footprint has the ways between its hosts
  std::optional<MulticastGroup> multicast;  // of its ranks, until its contexts are removed
  Failure no_multicast;                     // why it has none, if some rank asks for it or would take it
  // Of a group that goes by the hosts since a switch refused its context: what was asked of the switches, and
  // those that have not removed it yet.
  GroupPlan refused;
  std::set<NodeId> removing_refused;
  // What it has of links and switches, until the last of these has removed its context.
  std::optional<Allocation> allocation;
  // While it has, or may have, its memory: until the last switch has removed its context.
  std::optional<GroupServer> server;
  Nanos server_due = kNever;  // while the host is asked for it: by then it has answered
  uint64_t width_kbps = 0;  // as RootChoice, when it was placed
  Failure failure;
  Nanos next_waiting = 0;
  Nanos join_deadline = kNever;  // of those who wait for others the first, or earlier
  Nanos due = kNever;            // when something is to be looked at
  Nanos remove_at = kNever;     // of a failed group
  std::set<NodeId> unsure;      // switches that have not said yet whether they still have their contexts of it
  std::set<NodeId> installing;  // switches that have not answered yet
  std::set<NodeId> removing;
  bool removal_started = false;
};

// "h0 (pid 17)"
std::string WhereIs(const Member& member);

// What those who are still there are told of a rank that is gone, for this reason. They all get a switch's
// refusal themselves, but only as long as it can be repeated.
Failure RankGone(const Member& member, const std::string& why);
// How a group has ended whose ranks have all left, in words: with what a switch refused, if that was it. Of
// ranks that were told different things it takes who was told most: one whose call differs knows its own
// value, too.
std::string HowAllLeft(const Group& group);

// Whether some rank that has joined asks for multicast; those that would only take it do not.
bool AsksForMulticast(const Group& group);

// The host of each rank that has joined, by rank; ranks may share one.
std::vector<NodeId> HostsOf(const Group& group);

}  // namespace epic::manager
