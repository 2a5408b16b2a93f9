#include "io/dpdk/ports.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "io/dpdk/dpdk_port.h"
#include "io/dpdk/eal.h"
#include "io/unix_socket.h"

namespace epic::io::dpdk {
namespace {

// Beside the devices' own.
constexpr uint64_t kCommonBytes = 32 << 20;

}  // namespace

StatusOr<std::unique_ptr<PortSource>> DpdkPorts::Make(const DpdkOptions& options) {
  std::unique_ptr<DpdkPorts> ports(new DpdkPorts(options));
  std::vector<Device> devices;
  for (const PortDevice& one : options.devices) {
    auto device = ParseDevice(one, options.mtu);
    if (!device.ok()) return device.status();
    const auto same = std::ranges::find(devices, device->name, &Device::name);
    if (same != devices.end())
      return MakeStatus(StatusCode::kInvalidArgument, fmt::format("port {}: device {} is port {} already",
                                                                  one.name, device->name, same->port));
    devices.push_back(*device);
    ports->ports_[one.name] = {.device = *std::move(device)};
  }
  for (const Device& device : devices) {
    if (const std::string wrong = ports->Wrong(device.port); !wrong.empty())
      return MakeStatus(StatusCode::kInvalidArgument, "port " + wrong);
  }
  const uint64_t bytes = kCommonBytes + devices.size() * DeviceBytes(options.mtu);
  if (const Status status = StartEal(options, devices, bytes); !status.ok()) return status;
  return StatusOr<std::unique_ptr<PortSource>>(std::move(ports));
}

std::string DpdkPorts::Wrong(const std::string& name) {
  return WrongPciDevice(ports_.at(name).device, "/sys/bus/pci/devices");
}

Status DpdkPorts::ClaimSocket(const Device& device) const {
  if (!device.memif || !device.server || device.abstract) return {};
  // Several ports may share a socket, each with an id of its own.
  const bool ours = std::ranges::any_of(ports_, [&device](const auto& entry) {
    return entry.second.ethdev != nullptr && entry.second.device.socket == device.socket;
  });
  if (ours) return {};
  const Status status = ClaimSocketPath(device.socket);
  if (status.ok()) return {};
  return MakeStatus(status.code(), fmt::format("port {}: {}", device.port, std::string(status.message())));
}

StatusOr<std::unique_ptr<FramePort>> DpdkPorts::Open(const PortRequest& request) {
  Port& port = ports_.at(request.name);
  if (request.shard) return MakeStatus(StatusCode::kInvalidArgument, "ports by DPDK have one core so far");
  if (port.ethdev == nullptr) {
    if (const Status status = ClaimSocket(port.device); !status.ok()) return status;
    auto made = Ethdev::Make(port.device, options_.mtu, options_.say);
    if (!made.ok()) return made.status();
    port.ethdev = *std::move(made);
    if (port.ethdev->mtu() < options_.mtu)
      options_.say(DpdkOptions::Level::kWarning,
                   fmt::format("port {}: {} carries an MTU of {}, and not {}", request.name, port.device.name,
                               port.ethdev->mtu(), options_.mtu));
  }
  auto opened = DpdkPort::Open(port.ethdev.get());
  if (!opened.ok()) return opened.status();
  return StatusOr<std::unique_ptr<FramePort>>(*std::move(opened));
}

InterfaceState DpdkPorts::State(const std::string& name) {
  const Port& port = ports_.at(name);
  if (port.ethdev == nullptr) return {.exists = true, .up = false, .mtu = options_.mtu};
  return {.exists = true, .up = port.ethdev->LinkIsUp(), .mtu = port.ethdev->mtu()};
}

std::optional<uint32_t> DpdkPorts::TimesDown(const std::string& name) {
  const Port& port = ports_.at(name);
  return port.ethdev == nullptr ? 0 : port.ethdev->times_down();
}

uint32_t DpdkPorts::RateMbps(const std::string& name) {
  const Port& port = ports_.at(name);
  return port.ethdev == nullptr ? 0 : port.ethdev->RateMbps();
}

std::string DpdkPorts::Describe(const std::string& name, bool) {
  return fmt::format("{} by DPDK, single frames", ports_.at(name).device.name);
}

}  // namespace epic::io::dpdk
