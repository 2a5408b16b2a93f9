// What the module exports (MakeDpdkPorts).
#include "io/dpdk/ports.h"

extern "C" __attribute__((visibility("default"))) void EpicMakeDpdkPorts(
    const epic::io::DpdkOptions& options, epic::StatusOr<std::unique_ptr<epic::io::PortSource>>* made) {
  *made = epic::io::dpdk::DpdkPorts::Make(options);
}
