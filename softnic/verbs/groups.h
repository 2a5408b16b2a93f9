// What softnic's libibverbs exports beyond verbs of multicast groups. commlib looks the function up by name.
#pragma once

#include <infiniband/verbs.h>

// 1: an attached queue pair has every datagram of its group, those of its own machine and its own too, and
// the kernel joins the group on the device's interface (docs/SOFTNIC.md).
extern "C" __attribute__((visibility("default"))) int epic_softnic_serves_groups(ibv_context* context);

// From now on what a UD queue pair sends to the group, of IPv4, leaves by the wire alone: no other queue pair
// of this machine is to have it, nor is this one. One group at a time; ends with the queue pair. 0 or an
// errno (EINVAL).
extern "C" __attribute__((visibility("default"))) int epic_softnic_send_by_wire_alone(ibv_qp* qp,
                                                                                      const ibv_gid* group);
