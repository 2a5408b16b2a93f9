// What softnic's libibverbs exports beyond verbs of multicast groups. commlib looks the function up by name.
#pragma once

#include <infiniband/verbs.h>

// 1: an attached queue pair has every datagram of its group, those of its own machine and its own too, and
// the kernel joins the group on the device's interface (docs/SOFTNIC.md).
extern "C" __attribute__((visibility("default"))) int epic_softnic_serves_groups(ibv_context* context);
