// What some libibverbs offer beyond verbs; others do not have the functions, and then the answer is no.
#pragma once

#include <cstdint>
#include <optional>

union ibv_gid;
struct ibv_context;
struct ibv_cq;
struct ibv_qp;

namespace epic::verbs {

// Whether the NIC takes super-frames and can send them (docs/PROTOCOL.md, section 9).
bool TakesSuperFrames(ibv_context* context);

// Packets that a queue pair of the NIC can have unacknowledged, if it says so.
std::optional<uint32_t> MaxOutstanding(ibv_context* context);

// Whether the NIC gives attached queue pairs all datagrams of their groups, what is sent on this host too,
// and has the kernel join these groups.
bool ServesGroups(ibv_context* context);

// Lets a connected queue pair's packets leave in super-frames: its other end takes them. Only for a NIC that
// says so itself. False if it does not.
bool SendSuperFrames(ibv_qp* qp);

// The same of an unreliable queue pair's datagrams to a group: all its members, and all links to them, take
// super-frames.
bool SendSuperFramesToGroup(ibv_qp* qp, const ibv_gid& group);

// What an unreliable queue pair sends to the group leaves by the wire alone, and comes to no queue pair of
// this host. Without effect on a NIC that has no way to: there it comes.
void SendByWireAlone(ibv_qp* qp, const ibv_gid& group);

// Lets the queue pair acknowledge only every so-many-th message (1: each), or after the delay. Without effect
// on a NIC that has its own ways.
void ShareAcks(ibv_qp* qp, uint32_t messages, uint32_t delay_us);

// For a thread that is about to sleep until a completion comes: asks for the queue's event and returns a
// descriptor that is readable when it had better poll, the event or no event; -1 if there is none, and
// nothing has been asked for.
int BeginSleep(ibv_cq* cq);

// After BeginSleep, which had one. True if the event that was asked for will not come any more.
bool EndSleep(ibv_cq* cq);

}  // namespace epic::verbs
