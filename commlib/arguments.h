// The arguments of a call, checked and put into a control header. Everything that is wrong with them is found
// here, before anything is sent.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "commlib/core/rank_calls.h"
#include "epic/epic.h"
#include "protocol/abilities.h"
#include "protocol/control.h"

namespace epic::internal {

// As the caller gave them; `root` and `op` are 0 and kSum where the collective has none.
struct CallArguments {
  Collective collective = Collective::kBarrier;
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;
  Datatype type = Datatype::kFloat32;
  RedOp op = RedOp::kSum;
  int root = 0;
};

// What all switches of a group have, and of what some lack, who does: "operation product" lies at "leaf1
// (version 0.1.0)".
struct GroupAbilities {
  Abilities has = Abilities::All();
  std::map<std::string, std::string> where;
  // What they lack may go between the hosts; else why not, if that is known.
  bool hosts_reach = false;
  std::string why_not_hosts;
  // The group has datagrams (docs/PROTOCOL-MULTICAST.md); if it goes through switches, Broadcast and
  // AllGather go between the hosts, as such.
  bool multicast = false;
  // What FP32 is multiplied by to be summed as INT32 (docs/PROTOCOL.md, section 8); 0: it is not.
  float scale = 0;
  // Sums of FP32, FP16 and BF16 with more data than plain_bytes travel as blocks of INT8, if they are asked
  // for.
  bool blocks = false;
  uint64_t plain_bytes = 0;
  uint32_t levels = 0;  // of switches, in the group's tree
  // The memory in switches has several owners: calls with data ask for it (docs/PROTOCOL-BLOCKS.md).
  bool asks = false;
  // Control packets may say the call's priority (docs/PROTOCOL-MODE-V.md).
  bool priorities = false;
};

// Why a call that has kByHostsFlag goes between the hosts: what switches lack, with where, "operation product
// is not in leaf1 (version 0.1.0)"; else that such calls go as datagrams, do not ask for memory, or that less
// passes a link, and from which size on.
std::string WhyByHosts(const GroupAbilities& group, const ControlHeader& header);
// Whether it does because switches lack something; else it is the better way, or the only one of its kind.
bool IsLacking(const GroupAbilities& group, const ControlHeader& header);

// All shares of a call together are at most so many bytes.
inline constexpr uint64_t kMaxCallBytes = 1ull << 46;

// Fills in *header but for the invocation; its count is the whole call's, which may be more than an
// invocation has. kInvalidArgument (root, count) or kUnsupported (type, operation), with the culprit's name.
// Not looked at: the buffers.
Error MakeHeader(const CallArguments& arguments, int size, ControlHeader* header);

// By switches or hosts. In a group with a scale reductions of FP32 are those of INT32 with kQuantisedFlag,
// and copies of FP32 travel as INT32, too; kUnsupported of what has no meaning then (a product). In one with
// blocks larger sums of floating-point numbers are those of blocks with kQuantisedFlag, if `in_blocks`. A
// copy whose type a switch lacks travels as bytes: its count is then that of its bytes. What a switch lacks
// all the same, and what takes less time there, goes between the hosts, where they reach: kByHostsFlag.
// kUnsupported of what a switch lacks if they do not, with the culprit's name.
Error ChooseWay(const GroupAbilities& group, bool in_blocks, ControlHeader* header);

// Both, and the buffers between: kInvalidArgument if one is missing or they overlap.
Error CheckArguments(const CallArguments& arguments, int rank, int size, const GroupAbilities& group,
                     bool in_blocks, ControlHeader* header);

}  // namespace epic::internal
