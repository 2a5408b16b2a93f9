// Super-frames (docs/PROTOCOL.md, section 9): what softnic's libibverbs exports beyond verbs for those that
// have agreed on them with the other end. commlib looks the functions up by name.
//
// A program that knows verbs only is spoken for by whoever starts it: EPIC_SOFTNIC_SUPER_FRAMES lists the
// addresses, or prefixes of addresses, whose ports take super-frames, as "10.0.0.7,10.1.0.0/16".
#pragma once

#include <infiniband/verbs.h>

namespace epic::softnic {

struct Qp;

// Of a queue pair that has become RTR: as epic_softnic_send_super_frames, if its other end is listed. That
// its own device cannot is told on stderr, once.
void SendSuperFramesIfListed(Qp& qp);

// Of a queue pair whose requests nobody answers: where the list may be the reason, that is told on stderr.
void TellUnanswered(const Qp& qp);

}  // namespace epic::softnic

// 1 if the device takes super-frames and can send them, else 0.
extern "C" __attribute__((visibility("default"))) int epic_softnic_takes_super_frames(ibv_context* context);

// From now on packets of an RC queue pair, which knows its other end (RTR or later), may leave in
// super-frames: the other end takes them. Ends with the queue pair, or when that leaves RTR or RTS by
// ibv_modify_qp. 0 or an errno (EINVAL, EOPNOTSUPP).
extern "C" __attribute__((visibility("default"))) int epic_softnic_send_super_frames(ibv_qp* qp);

// The same of a UD queue pair's packets to a group of IPv4: all its members, and all links to them, take
// super-frames. Of one group at a time; ends with the queue pair.
extern "C" __attribute__((visibility("default"))) int epic_softnic_send_super_frames_to_group(
    ibv_qp* qp, const ibv_gid* group);
