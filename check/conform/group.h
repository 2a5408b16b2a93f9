// What a switch may send in one group, given what it has been sent: a model of docs/PROTOCOL.md,
// PROTOCOL-MODE-I.md and PROTOCOL-MODE-III.md that knows no timers and keeps every payload. A value.
//
// A packet that the switch could have used counts as used, though it may drop any packet as links do; what
// the documents say it must drop (gaps, packets that do not fit, too early, beyond the buffers) does not
// count. In modes I and III a NAK says that the packet that it names has not been used.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "check/conform/expected.h"
#include "check/conform/rules.h"
#include "check/conform/stream.h"
#include "incengine/state/config.h"
#include "protocol/modes.h"

namespace epic::conform {

class GroupModel {
 public:
  explicit GroupModel(const engine::GroupConfig& config);

  const engine::GroupConfig& config() const { return config_; }
  // Ends are the children in their order, then the parent, if there is one.
  size_t ends() const { return ends_.size(); }
  const engine::EndpointConfig& endpoint(size_t end) const { return ends_[end].config; }
  bool is_parent(size_t end) const { return end == config_.children.size(); }

  // The control plane has stopped the group.
  void Stop() { stopped_ = true; }
  bool stopped() const { return stopped_; }

  // A packet from the peer of an end: right QPN and source.
  void OnIn(size_t end, const roce::Packet& packet);
  // A packet to the peer of an end, to be judged.
  void OnOut(size_t end, const roce::Packet& packet, Judge& judge);

 private:
  // One end of an edge: what has come from its peer, what has gone there.
  struct End {
    engine::EndpointConfig config;
    Stream in;
    Stream out;
    int64_t taken = 0;                // positions of `in` that may have been used
    int64_t told = 0;                 // positions of `in` whose acknowledgement is known to be allowed
    int64_t sent = 0;                 // positions of `out` that have been sent
    int64_t acked = 0;                // of these, acknowledged by the peer
    int64_t awaited = 0;              // nothing that switches acknowledge lies in [acked, awaited) of `out`
    bool misfit = false;              // its stream has not fitted its positions
    bool congested = false;           // it has sent a packet that was marked on the way
    uint8_t last_negative = 0;        // the last syndrome from it that was no ACK
    std::optional<int64_t> ended_at;  // position of the control packet that ended `out` out of turn
    PacketBytes ended_with;
  };
  // What is known of an index.
  struct Item {
    std::vector<Contribution> from;     // in order of arrival
    std::optional<PacketBytes> sum;     // as sent to the parent
    std::optional<PacketBytes> result;  // as the parent sent it; at the root as it was sent first
  };
  struct Shape {
    roce::Opcode opcode;
    uint32_t bytes;
  };

  bool is_root() const { return !config_.parent.has_value(); }
  // The rules of modes I, II and III; of another mode those of the one that it is like in its row.
  const ModeInfo& Info() const { return *FindMode(config_.mode); }
  bool Terminated() const { return Info().ends_connections; }
  bool Translated() const { return Info().reliability == Reliability::kEndToEnd; }
  bool Augmented() const { return !Terminated() && !Translated(); }
  size_t children() const { return config_.children.size(); }
  End& parent() { return ends_.back(); }
  const Call* CallOf(Index index) const;
  Shape ShapeOf(const Call& call, Index index) const;
  // Of the packet, which may be a header with a bad status, alone in its message.
  Shape ShapeOf(const Call& call, Index index, const roce::Packet& packet) const;
  bool Disagrees(const Call& call) const;
  bool Acknowledged(Index index) const;
  // The index of the last packet of the message that this one is in.
  Index MessageEnd(const Call& call, Index index) const;
  Index FirstUnacknowledged(const End& end) const { return end.out.IndexAt(end.acked).value_or(0); }
  // Mode II: the first index sent to this end that switches acknowledge to each other and that it has not
  // acknowledged; INT64_MAX if there is none.
  Index FirstAwaited(End& end);
  Index DownStart();
  Index UpStart();

  // group_intake.cc
  void OpenCall(const ControlHeader& header);
  void TakeAeth(End& end, const roce::Packet& packet);
  bool TakeContribution(size_t child, int64_t position, const roce::Packet& packet);
  bool TakeControl(size_t child, Index index, const roce::Packet& packet);
  bool TakeResult(int64_t position, const roce::Packet& packet);
  void StepOverUnreceived();

  // group_data.cc
  void JudgeData(size_t end, const roce::Packet& packet, Judge& judge);
  bool JudgeEnding(End& end, int64_t position, const roce::Packet& packet, Judge& judge);
  bool JudgeShape(const Call& call, Index index, const roce::Packet& packet, Judge& judge);
  void JudgeRepeat(bool up, Index index, const roce::Packet& packet, Judge& judge);
  void JudgeSum(const Call& call, Index index, const PacketBytes& seen, Judge& judge);
  void JudgePassing(const Call& call, Index index, Index awaited, Judge& judge);
  void JudgeWindow(bool up, const Call& call, Index index, Judge& judge);
  void NoteReply(const Call& call, const PacketBytes& payload);

  // group_aeth.cc
  void JudgeAeth(size_t end, const roce::Packet& packet, Judge& judge);
  void JudgeAck(size_t end, int64_t position, Judge& judge);
  void JudgeNak(size_t end, int64_t position, uint8_t syndrome, Judge& judge);
  void JudgeCnp(size_t end, Judge& judge);
  bool GroupAcknowledged(Index index);
  bool MayTell(size_t end, int64_t position);
  bool MayTellBefore(size_t end, int64_t position);
  bool TakeBack(size_t end, int64_t position);

  engine::GroupConfig config_;
  std::vector<uint32_t> first_rank_;  // by child
  std::vector<End> ends_;
  std::deque<Call> calls_;
  std::map<Index, Item> items_;
  int64_t calls_opened_ = 0;
  int64_t replies_ = 0;    // control packets whose reply has passed
  Index results_end_ = 0;  // every index below it for which a result comes here has one
  bool stopped_ = false;
  bool failed_ = false;  // a reply with a bad status has passed
  bool ending_ = false;  // mode I: somebody has broken a stream
};

}  // namespace epic::conform
