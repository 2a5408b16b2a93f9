// What some libibverbs offer beyond verbs; others do not have the functions, and then the answer is no.
#pragma once

struct ibv_context;
struct ibv_qp;

namespace epic::verbs {

// Whether the NIC takes super-frames and can send them (docs/PROTOCOL.md, section 9).
bool TakesSuperFrames(ibv_context* context);

// Lets a connected queue pair's packets leave in super-frames: its other end takes them. Only for a NIC that
// says so itself. False if it does not.
bool SendSuperFrames(ibv_qp* qp);

}  // namespace epic::verbs
