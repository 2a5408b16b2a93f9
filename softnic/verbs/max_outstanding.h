// What softnic's libibverbs exports beyond verbs of the window of its queue pairs. commlib looks the function up
// by name.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

// Packets that a reliable queue pair of the device can have unacknowledged, if few others are at work: they
// share what the adapter has under way (docs/SOFTNIC.md).
extern "C" __attribute__((visibility("default"))) uint32_t epic_softnic_max_outstanding(ibv_context* context);
