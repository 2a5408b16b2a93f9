// Whether there may be such a group, and whether a rank may join it: looked at when it is asked for, before
// anything is taken or kept. Values in, a Failure out, which is ok where nothing is wrong. What an operator
// and a rank may both say is checked in one place, and each is told in the words of what he said.
//
// Always: nothing is changed, and nothing is kept beyond references to the network and its tenants. Of ranks
// that were not refused no two of a group have one number or one queue pair; each is below the world size,
// and on a host of the topology, which is the one that is reserved for it if there is one.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "incmanager/failure.h"
#include "incmanager/groups/group.h"
#include "incmanager/policies/tenants.h"
#include "incmanager/topology.h"

namespace epic::manager {

class Admission {
 public:
  // These outlive it. window_packets: as in GroupOptions.
  Admission(const Topology* topology, const Tenants* tenants, uint32_t window_packets)
      : topology_(topology), tenants_(tenants), window_packets_(window_packets) {}

  // Of a group that its operator asks for, WithDefaults: all but its name. Whether switches offer the mode is
  // seen when the ranks have joined. Errors: kInvalidArgument, kNotFound (a host, a switch, a tenant), with
  // the field.
  Failure RefusesGroup(const GroupSpec& spec) const;
  // Of a rank that joins this group, or is to be its first. Errors: kInvalidArgument, kNotFound (its
  // address), with the field; kSizeMismatch, kMismatch (others have said something else), kUnsupported (its
  // QPN), kDuplicateRank, kAlreadyExists (the group is being left).
  Failure RefusesRank(const Group& group, const JoinRequest& join) const;

 private:
  Failure WrongModes(const GroupSpec& spec) const;
  Failure WrongPolicy(const GroupSpec& spec) const;
  Failure WrongInPool(const GroupSpec& spec) const;
  Failure WrongHosts(const GroupSpec& spec) const;
  Failure WrongSizes(const GroupSpec& spec) const;
  Failure WrongJoin(const JoinRequest& join) const;
  Failure HeldAlready(const Group& group, const JoinRequest& join) const;

  const Topology* topology_;
  const Tenants* tenants_;
  const uint32_t window_packets_;
};

// kInvalidArgument if it is no name. what: what must be one, "group:".
Failure WrongName(const std::string& what, const std::string& name);
// What is wrong with what ranks say of themselves and of each other; empty if nothing is.
std::string WrongRank(uint32_t rank, uint32_t world_size);
std::string WrongQpn(uint32_t qpn);

// As an operator is told it.
Status StatusOf(const Failure& failure);

}  // namespace epic::manager
