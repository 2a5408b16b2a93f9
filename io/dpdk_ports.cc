#include "io/dpdk_ports.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

namespace epic::io {

StatusOr<std::unique_ptr<PortSource>> LoadDpdkPorts(const std::vector<std::string>& folders,
                                                    const DpdkOptions& options) {
  for (const std::string& folder : folders) {
    const auto file = std::filesystem::path(folder) / kDpdkModule;
    std::error_code unused;
    if (!std::filesystem::exists(file, unused)) continue;
    // For good: DPDK has threads, and cannot be started again.
    void* const module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (module == nullptr)
      return MakeStatus(
          StatusCode::kNotFound,
          fmt::format("ports by DPDK: {}; apt install dpdk, which is version 22.11", dlerror()));
    const auto make = reinterpret_cast<MakeDpdkPorts>(dlsym(module, kMakeDpdkPorts));
    if (make == nullptr)
      return MakeStatus(StatusCode::kNotFound, fmt::format("ports by DPDK: {}", dlerror()));
    StatusOr<std::unique_ptr<PortSource>> made;
    make(options, &made);
    return made;
  }
  return MakeStatus(
      StatusCode::kNotFound,
      fmt::format("ports by DPDK: there is no {} here: it is built where libdpdk-dev is installed (apt "
                  "install libdpdk-dev, then cmake and the target epic_io_dpdk)",
                  kDpdkModule));
}

}  // namespace epic::io
