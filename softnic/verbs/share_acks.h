// Acknowledgements that wait for each other: what softnic's libibverbs exports beyond verbs for those whose
// peer can do without them for a while. commlib looks the function up by name.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

// From now on an RC queue pair acknowledges only every so-many-th message that asks for it (1 to 1024), or
// after delay_us: each acknowledgement covers all before. 1 is every message, as by itself; what has waited
// leaves at once. 0 or an errno (EINVAL).
extern "C" __attribute__((visibility("default"))) int epic_softnic_share_acks(ibv_qp* qp, uint32_t messages,
                                                                              uint32_t delay_us);
