// Between what the manager has and the rows of its store (PROTOCOL-CONTROL.md, 15): pure functions, both
// ways.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "incmanager/groups/ended_groups.h"
#include "incmanager/groups/event_log.h"
#include "incmanager/groups/kept_groups.h"
#include "incmanager/store/store.h"
#include "proto/manager.pb.h"
#include "proto/store.pb.h"

namespace epic::manager {

// One moment by two clocks: the manager's, which stands still for nobody, and that of people.
struct Moment {
  Nanos now = 0;        // as all of the manager has it
  int64_t unix_us = 0;  // since 1970
};

constexpr size_t kClusterBytes = 16;

// What a former manager has left.
struct Kept {
  std::string cluster;                      // 16 bytes; empty: there was none
  uint64_t epoch = 0;                       // its
  KeptGroups groups;                        // but for first_id
  std::vector<Event> events;                // by number
  std::set<std::string> switches;           // that had registered
  std::vector<proto::StoredGroup> running;  // by id
  std::vector<GroupEnd> ended;              // by the time
};

// DATA_LOSS, with the row, if a value is not what its kind says.
StatusOr<Kept> ReadKept(const Contents& contents, const Moment& at);

// Makes the store that of the next epoch, and of a cluster if it is new; gives what is in it, with these two
// and first_id. Errors: those of the store, DATA_LOSS as above.
StatusOr<Kept> BeginEpoch(Store* store, const Moment& at);
// "3f2a...": for people.
std::string ClusterName(const std::string& cluster);
// The same contents for a manager whose predecessors may have begun later epochs than these rows know of: a
// backup. replaced: what is in the store that they replace, nothing if there is none, or it cannot be read.
// The epoch is beyond those of both, and so are the ids of groups. DATA_LOSS as above, of the backup;
// FAILED_PRECONDITION when there are no later epochs.
StatusOr<Contents> RestoredFrom(const Contents& contents, const Contents& replaced);

// Rows as they are to be.
RowChange RowOf(const std::string& cluster, uint64_t epoch);
RowChange RowOf(Policy policy);
RowChange RowOf(const GroupSpec& spec);
RowChange RowOfLives(const std::string& group, uint32_t lives);
RowChange RowOf(const Tenant& tenant);
RowChange RowOf(const Event& event, const Moment& at);
RowKey EventKey(uint64_t number);
RowChange RowOfSwitch(const std::string& name);
RowChange RowOf(const proto::StoredGroup& group);
RowKey GroupKey(uint64_t id);
RowChange RowOf(const GroupEnd& end, const Moment& at);
// As operators ask for such a group.
proto::CreateGroupRequest RequestOf(const GroupSpec& spec);

// A row for people, as one line of JSON: {"kind":"tenant","key":"red","value":{...}}. DATA_LOSS as above.
StatusOr<std::string> JsonOf(const RowKey& row, const std::string& value);

}  // namespace epic::manager
