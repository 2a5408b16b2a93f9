// The one thing that softnic's libibverbs exports beyond verbs.
#pragma once

#include "softnic/port/port.h"

// From now on devices are found on `network`, which stays the caller's and outlives them; null: on the
// kernel's interfaces again. For programs that link the library itself, such as tests in virtual time.
extern "C" __attribute__((visibility("default"))) void epic_softnic_use_network(
    epic::softnic::Network* network);
