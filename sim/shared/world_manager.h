// The manager of a world, as the ranks, the crashes and the operator of its jobs know it.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "incmanager/groups/group_life.h"
#include "sim/world.h"

namespace epic::sim {

struct Leaves {};
struct Aborts {
  std::string reason;
};
struct Ends {};  // the rank's process ends, and its session with it
// What a rank says, its join first.
using RankWord = std::variant<manager::JoinRequest, manager::PeerEnd, Leaves, Aborts, Ends>;

// What ranks are told.
class RankSessions {
 public:
  virtual ~RankSessions() = default;
  // The manager sends it; nobody has it yet. The manager must not be called. Of a JoinedReply: of all ranks
  // of a group before one of them has it.
  virtual void OnSent(manager::SessionId session, const manager::SessionEvent& event) = 0;
  // It is there.
  virtual void OnEvent(manager::SessionId session, const manager::SessionEvent& event) = 0;
};

class WorldManager {
 public:
  virtual ~WorldManager() = default;

  virtual void Say(manager::SessionId session, const RankWord& word) = 0;
  // A rank's process is gone without a word.
  virtual void Miss(manager::SessionId session) = 0;
  // The engine of a switch loses all its groups, and is back at a time. The manager is told so then; of some
  // also that they are down.
  virtual void CrashEngine(int s, Nanos until) = 0;
  // Something has been lost, so that a group may end with that.
  virtual bool Explains(const manager::Failure& failure) const = 0;
  // All that was said up to now of who is gone has been carried out by then.
  virtual Nanos KnownBy() const = 0;

  // The operator, before and behind all jobs.
  virtual Status SetTenant(const manager::Tenant& tenant) = 0;
  virtual Status RemoveTenant(const std::string& name) = 0;
  virtual void SetDefaultPolicy(manager::Policy policy) = 0;
  virtual Status Create(const manager::GroupSpec& spec) = 0;
  virtual Status Destroy(const std::string& name) = 0;
  virtual std::vector<std::string> Names() const = 0;

  // The first thing that went wrong between manager, ranks and engines. Empty if nothing.
  virtual const std::string& wrong() const = 0;
  // What a switch, the manager or its QPNs still have of groups; empty if nothing, and nothing is to come.
  virtual std::string Leftovers() const = 0;
  // Of the manager: what has become of it, for the summary.
  virtual void AddTo(struct Counts* counts) const = 0;
};

}  // namespace epic::sim
