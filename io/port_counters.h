// What is counted of a network interface as a port: rx_ of what comes, tx_ of what leaves (FrameSender).
#pragma once

#include <array>
#include <cstdint>

#include "base/counter_table.h"

namespace epic::io {

struct PortCounters {
  uint64_t rx_dropped = 0;       // by the kernel: the receive ring was full
  uint64_t rx_too_long = 0;      // longer than the MTU allows: an offload (TSO, GRO) is on
  uint64_t tx_no_buffer = 0;     // the kernel had no room, and the queue for it was full as well
  uint64_t tx_too_long = 0;      // longer than the MTU of the interface
  uint64_t tx_failed = 0;        // other errors, such as an interface that is down
  uint64_t rx_super_frames = 0;  // of two packets or more, as are those that were sent
  uint64_t tx_super_frames = 0;
};

inline constexpr auto kPortCounters = std::to_array<CounterRow<PortCounters>>({
    {"rx_dropped", &PortCounters::rx_dropped},
    {"rx_too_long", &PortCounters::rx_too_long},
    {"tx_no_buffer", &PortCounters::tx_no_buffer},
    {"tx_too_long", &PortCounters::tx_too_long},
    {"tx_failed", &PortCounters::tx_failed},
    {"rx_super_frames", &PortCounters::rx_super_frames},
    {"tx_super_frames", &PortCounters::tx_super_frames},
});
static_assert(HasEach(kPortCounters));

}  // namespace epic::io
