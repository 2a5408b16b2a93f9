// What the user has set of EPIC under MPI: read on every rank, of which rank 0's are used by all.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/environment.h"

namespace epic::mpi {

struct Settings {
  std::string manager;                   // HOST:PORT; empty: no EPIC
  std::string ifname;                    // for the ranks that have none of their own
  std::string path;                      // "auto", "network", "hosts", or empty: auto
  std::string algorithm;                 // "auto", "doubling", "ring", "multicast", or empty: auto
  std::string types;                     // that groups are for, as "int32,float64"; empty: any
  int mode = 0;                          // a mode's number; 0: the manager's choice
  std::chrono::milliseconds timeout{0};  // of a call; 0: none
  // All ranks are there when they join: whoever is missing then has been refused.
  std::chrono::milliseconds join_timeout{20'000};
  std::chrono::milliseconds manager_timeout{10'000};  // to reach the manager
  uint64_t min_bytes = 0;           // smaller calls are the MPI's
  uint64_t max_bytes = UINT64_MAX;  // larger ones, too
  // A communicator asks for a group before its call of this number, or with which its calls have so many
  // bytes. 1: before its first one, and waits for it. The default is more than the MPI makes within ten times
  // of what a group takes (docs/MPI.md has figures).
  uint64_t from_call = 2000;
  uint64_t from_bytes = 256 << 20;
  // For how long the group of a communicator that has been freed is kept for another one of the same ranks;
  // 0: not at all. To make it anew takes less than a hundredth of that time.
  std::chrono::milliseconds keep{10'000};
  bool off = false;                 // EPIC_MPI=off
  bool report = false;              // EPIC_MPI_REPORT=1
  std::string wrong;                // a variable with a value that it cannot have; EPIC is not used then

  // Whether communicators may get groups.
  bool usable() const { return !off && !manager.empty() && wrong.empty(); }
  bool operator==(const Settings&) const = default;
};

// From EPIC_… variables. `manager` is what the MPI's own means of configuration say; EPIC_MANAGER goes first.
Settings FromEnvironment(const GetEnv& get_env, std::string_view manager);

// As lines of text that travel to other ranks, and back. What cannot be read gives settings with `wrong` set.
std::string Encode(const Settings& settings);
Settings Decode(std::string_view text);

}  // namespace epic::mpi
