// What a ParallelCommunicator computes without any call: who is where, how a call is divided, and how an
// error travels from ring to ring.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "epic/epic.h"

namespace epic::internal {

// Where a rank is, as all ranks tell each other: texts that end with a zero.
struct RankHost {
  std::array<char, 64> name{};  // for people
  std::array<char, 64> id{};    // the same on the ranks of a host, and on no others
};

// Of this process. `host`: as ParallelCommunicator::Init's, both name and id; if it is empty the system says.
// kInvalidArgument if it is too long.
Error FindRankHost(const std::string& host, RankHost* out);

// A rank's place in the table of hosts and ranks on hosts.
struct ParallelPlace {
  int host = 0;  // counted by the hosts' first ranks
  int hosts = 1;
  int local_rank = 0;  // counted by ranks; its ring
  int local_size = 1;
};

// The place of `rank`; kInvalidArgument, the same for every rank, if hosts have different numbers of ranks.
Error PlaceRank(std::span<const RankHost> all, int rank, ParallelPlace* place);

// A call of `count` elements: each of the n ranks of a host has a share, and the elements behind the shares,
// fewer than n, go by every ring.
struct Division {
  size_t share = 0;
  size_t rest = 0;
  // A call without elements is a call, too: ranks that make others are found.
  bool has_rest_stage() const { return share == 0 || rest > 0; }
};
Division Divide(size_t count, int local_size);

// The reason to end other groups with, so that their ranks return the error as it is: with its code, if every
// rank is to have that (docs/HOST.md, "Errors and deadlines"), else as kAborted with its words.
std::string ReasonOf(const Error& error);
// What a rank whose group was ended so returns; any other error as it is.
Error ErrorOf(const Error& error);
// The error of one of a rank's groups, with the group's name in front of its words, unless it came from
// another rank's ReasonOf.
Error OfGroup(const std::string& group, const Error& error);

// A bit for each type and operation of AllReduce that a group can do, of all there are.
constexpr size_t kOpsOfType = 16;
using Doable = std::array<uint64_t, 4>;
Doable DoableBy(const Communicator& comm);
bool Has(const Doable& doable, Datatype type, RedOp op);

}  // namespace epic::internal
