// Between the manager's plain values and the messages of proto/: policies and tenants.
#pragma once

#include <string>

#include "incmanager/groups/group_life.h"
#include "proto/manager.pb.h"

namespace epic::manager {

// What of the request says how the group is placed and whose it is. What is none of these is left in
// GroupSpec::wrong, by its field's name.
void AddPolicy(const proto::CreateGroupRequest& request, GroupSpec* spec);
proto::GroupPlacement PlacementOf(const Group& group);
// What the owners of its blocks take together, into the tree's nodes.
void AddBlocks(const Load& load, const Group& group, proto::GroupState* state);
// How many of its requests were granted, by the tables of its root, and how many found a switch busy.
void AddRequests(const proto::DumpReply& tables, uint64_t group_id, proto::GroupPlacement* placement);

// Errors: INVALID_ARGUMENT naming the policy.
StatusOr<Policy> PolicyFromProto(const proto::PolicyRequest& request);
// Errors: INVALID_ARGUMENT naming the field.
StatusOr<Tenant> FromProto(const proto::Tenant& tenant);
proto::Tenant ToProto(const Tenant& tenant);
proto::TenantsReply ToProto(const Topology& topology, const Tenants& tenants, const Load& load);

// A rate that is told in Gbit/s.
double GbpsOf(uint64_t kbps);

}  // namespace epic::manager
