// Judges what a switch sends by what it has been sent. Sans I/O: the caller reports what crosses the boundary
// of the switch's core, in order, and numbers the events (the line of a trace). The same class serves traces
// of daemons, switches in virtual time and exhaustive checking: it is a value, copying it is a snapshot.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "check/conform/group.h"
#include "check/conform/rules.h"

namespace epic::conform {

class Monitor {
 public:
  // address: the switch's own; all that it sends must come from there.
  explicit Monitor(Ipv4 address) : address_(address) {}

  void OnInstall(const engine::GroupConfig& config);
  void OnRemove(uint64_t group_id, uint32_t generation);
  // The control plane stops the group (SwitchTable.Fail).
  void OnFail(uint64_t group_id, uint32_t generation);

  // A RoCE packet to the switch, its ICRC verified. Begins a step: what is sent until the next step is sent
  // because of it.
  void OnPacketIn(PortId port, const roce::Packet& packet);
  // A timer of a group begins a step.
  void OnTimer(uint64_t group_id) { step_ = group_id; }
  // Who begins steps is not known from here on, as where timers are not reported: isolation is not judged
  // until the next step.
  void OnUnknownStep() { step_.reset(); }

  // A packet from the switch; line is what a violation names. port may be kNoPort if it is not known.
  void OnPacketOut(uint64_t line, PortId port, const roce::Packet& packet);

  const Verdict& verdict() const { return verdict_; }

 private:
  struct EndRef {
    uint64_t group_id = 0;
    size_t end = 0;
  };
  using Address = std::pair<uint32_t, uint32_t>;  // IP address and QPN

  Ipv4 address_;
  std::map<uint64_t, GroupModel> groups_;
  std::map<uint32_t, EndRef> by_local_qpn_;
  std::map<Address, EndRef> by_remote_;
  std::map<Address, uint64_t> removed_;  // peers of groups that have been removed
  std::optional<uint64_t> step_;         // the group of the current step
  Verdict verdict_;
};

}  // namespace epic::conform
