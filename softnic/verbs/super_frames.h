// Super-frames (docs/PROTOCOL.md, section 9): what softnic's libibverbs exports beyond verbs for those that
// have agreed on them with the other end. commlib looks the functions up by name.
#pragma once

#include <infiniband/verbs.h>

// 1 if the device takes super-frames and can send them, else 0.
extern "C" __attribute__((visibility("default"))) int epic_softnic_takes_super_frames(ibv_context* context);

// From now on packets of an RC queue pair, which knows its other end (RTR or later), may leave in
// super-frames: the other end takes them. Ends with the queue pair, or when that leaves RTR or RTS by
// ibv_modify_qp. 0 or an errno (EINVAL, EOPNOTSUPP).
extern "C" __attribute__((visibility("default"))) int epic_softnic_send_super_frames(ibv_qp* qp);
