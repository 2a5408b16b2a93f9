// Collects what Judge needs to know: asks those next to a switch whether it answers them, once its agent is
// silent. Sans-IO: time and answers come in, what is to be asked goes out.
//
// A witness is asked again and again: its answer to one request says what became of those before
// (ProbeReply in proto/switch.proto), so that it need not wait for the echo. While all is well it is asked
// until the first echo has come, for only then does a later silence say anything.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "base/silence.h"
#include "base/types.h"
#include "incmanager/groups/health.h"
#include "incmanager/groups/switch_table.h"
#include "incmanager/topology.h"
#include "protocol/echo_history.h"

namespace epic::manager {

using SessionId = uint64_t;

// Who is asked: the engine of a neighbouring switch, or a rank, which speaks for its host.
struct Witness {
  bool is_rank = false;
  uint64_t id = 0;  // SessionId of a rank, else NodeId

  friend auto operator<=>(const Witness&, const Witness&) = default;
};

// The switches that running groups cross, and the ranks at each of them, by host.
using WatchedSwitches = std::map<NodeId, std::map<NodeId, std::vector<SessionId>>>;

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
  void OnAnswer(Nanos now, NodeId about, Witness witness, bool asked, uint32_t answered);
  void OnNoAnswer(NodeId about, Witness witness);

  // Aborts if something does not hold that always does: who has not
  // been asked has said nothing, and nobody has answered what he was not asked.
  void CheckInvariants() const;

  Verdict VerdictOf(Nanos now, NodeId node) const { return Judge(EvidenceOf(now, node)); }
  // One end of each link that is told to have no carrier, and whether it is lost for a group that has run
  // over it since then.
  std::vector<LinkEnd> DownLinks() const;
  bool IsLinkLost(Nanos now, LinkEnd end, Nanos since) const;
  // Whether the switch has answered somebody since it is watched.
  bool IsProven(NodeId node) const;
  // The switches and hosts that count against the switch: those that miss it.
  std::vector<NodeId> WhoMisses(Nanos now, NodeId node) const;

 private:
  // A witness says which of so many requests before the present one is the newest that was answered.
  static constexpr uint32_t kRequestsBefore = EchoHistory::kRequests;
  // So much of the time between two asks counts as missed at most. If it is longer the manager was late; and
  // the witness, when it answers, may not have seen an echo that has waited for it meanwhile.
  static constexpr Nanos kMissedPerAsk = 400 * kMillisecond;

  struct Asked {
    NodeId at = kNoNode;  // the switch or host that it speaks for
    bool open = false;    // asked, not answered yet
    uint32_t count = 0;
    Nanos asked_at = 0;  // last
    // When the last asks had been answered, the newest first: by then the witness had sent its request. It
    // may be late with that, and so may the manager: that is no silence of the switch.
    std::array<Nanos, 1 + kRequestsBefore> times{};
    uint32_t answered = 0;        // the newest ask whose request was answered, counted from 1; 0: none was
    Nanos answered_at = kNever;   // when that was sent; kNever: none was
    Nanos missing_from = kNever;  // when the first one after it was sent of this silence; kNever: none was
    Silence missing{kMissedPerAsk};  // since then, of the times between an answer and the next ask
  };
  using AskedOf = std::map<Witness, Asked>;
  // Those who can speak for one switch or host; another one does if the first is mute.
  struct WitnessSite {
    NodeId at = kNoNode;
    std::vector<Witness> witnesses;
  };

  std::vector<WitnessSite> PlacesAround(NodeId node,
                                        const std::map<NodeId, std::vector<SessionId>>& hosts) const;
  // Whom of a place to ask now; nobody if that is not due.
  const Witness* ToAsk(Nanos now, bool silent, const WitnessSite& place, AskedOf* asked) const;
  // By the switch or host that the witnesses speak for.
  std::map<NodeId, WitnessEvidence> WitnessesOf(Nanos now, NodeId node) const;
  SwitchEvidence EvidenceOf(Nanos now, NodeId node) const;
  bool IsSilent(Nanos now, NodeId node) const;
  // Whether what a silent agent has told of this link last says nothing any more.
  bool IsOutdated(Nanos now, LinkEnd end) const;
  // Adds to the evidence what this end has told of its link.
  void AddWordOf(Nanos now, LinkEnd end, LinkEvidence* link) const;

  const Topology* topology_;
  const SwitchTable* switches_;
  Nanos next_round_ = 0;
  std::map<NodeId, AskedOf> asked_;  // by the switch asked about
};

}  // namespace epic::manager
