// Collects what Judge needs to know: asks those next to a switch whether it answers them, once its agent is
// silent. Sans-IO: time and answers come in, what is to be asked goes out.
//
// A witness is asked again and again: its answer to one request says what became of the one before
// (ProbeReply in proto/switch.proto), so that it need not wait for the echo. While all is well it is asked
// until the first echo has come, for only then does a later silence say anything.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "base/types.h"
#include "incmanager/groups/health.h"
#include "incmanager/groups/switch_table.h"
#include "incmanager/topology.h"

namespace epic::manager {

using SessionId = uint64_t;

// The engine of a neighbouring switch, or a rank on a host at the switch.
struct Witness {
  bool is_rank = false;
  uint64_t id = 0;  // SessionId of a rank, else NodeId

  friend auto operator<=>(const Witness&, const Witness&) = default;
};

// The switches that running groups cross, and ranks at each of them.
using WatchedSwitches = std::map<NodeId, std::vector<SessionId>>;

class HealthWatch {
 public:
  struct Ask {
    NodeId about = kNoNode;
    Witness witness;
  };

  // topology and switches outlive this.
  HealthWatch(const Topology* topology, const SwitchTable* switches);

  // Whether it is time to call Due.
  bool IsDue(Nanos now) const { return now >= next_round_; }
  // Who is to be asked about whom now; each ask is answered by OnAnswer or OnNoAnswer. Forgets what it knows
  // of switches that are not watched any more.
  std::vector<Ask> Due(Nanos now, const WatchedSwitches& watched);
  // asked, answered: as in ProbeReply. What was not asked for changes nothing.
  void OnAnswer(Nanos now, NodeId about, Witness witness, bool asked, bool answered);
  void OnNoAnswer(NodeId about, Witness witness);

  Verdict VerdictOf(Nanos now, NodeId node) const { return Judge(EvidenceOf(now, node)); }
  // One end of each link that is lost now.
  std::vector<LinkEnd> LostLinks(Nanos now) const;
  // Whom the switch has not answered lately.
  std::vector<Witness> WhoMisses(NodeId node) const;

 private:
  struct Asked {
    bool open = false;  // asked, not answered yet
    Nanos at = 0;       // of the last ask
    Nanos before = 0;   // of the ask before it
    uint32_t count = 0;
    Nanos answered_at = kNever;   // when the last request was sent that was answered; kNever: none was
    Nanos missing_from = kNever;  // when the first one was sent that was not; kNever: the last was answered
    Nanos missing_until = 0;      // when that was said last
  };

  SwitchEvidence EvidenceOf(Nanos now, NodeId node) const;
  std::vector<Witness> WitnessesOf(NodeId node, const std::vector<SessionId>& ranks) const;
  bool IsSilent(Nanos now, NodeId node) const;
  Nanos DownFor(Nanos now, LinkEnd end) const;

  const Topology* topology_;
  const SwitchTable* switches_;
  Nanos next_round_ = 0;
  std::map<NodeId, std::map<Witness, Asked>> asked_;  // by the switch asked about
};

}  // namespace epic::manager
