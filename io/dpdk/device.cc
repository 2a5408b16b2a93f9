#include "io/dpdk/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <map>
#include <string_view>

namespace epic::io::dpdk {
namespace {

// As 0000:3b:00.0.
bool IsPciAddress(std::string_view text) {
  constexpr std::string_view kShape = "xxxx:xx:xx.x";
  return std::equal(text.begin(), text.end(), kShape.begin(), kShape.end(), [](char c, char shape) {
    return shape == 'x' ? std::isxdigit(static_cast<unsigned char>(c)) != 0 : c == shape;
  });
}

// Drivers that leave a device to the kernel, and drive it beside it.
constexpr std::array<std::string_view, 3> kShared = {"mlx4_core", "mlx5_core", "mana"};
constexpr std::array<std::string_view, 3> kForUs = {"vfio-pci", "igb_uio", "uio_pci_generic"};

constexpr std::array<std::string_view, 11> kMemifArguments = {
    "bsize", "id",     "mac",    "owner-gid",       "owner-uid", "role",
    "rsize", "secret", "socket", "socket-abstract", "zero-copy"};

bool Has(const auto& names, std::string_view name) { return std::ranges::find(names, name) != names.end(); }

// The arguments behind a device's name; false if one has no value.
bool Split(std::string_view text, std::map<std::string, std::string>* values) {
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    const size_t equals = one.find('=');
    if (equals == 0 || equals == std::string_view::npos) return false;
    (*values)[std::string(one.substr(0, equals))] = one.substr(equals + 1);
  }
  return true;
}

// What is wrong; or nothing, and *device is complete.
std::string CompleteMemif(uint32_t mtu, Device* device) {
  std::map<std::string, std::string> values;
  if (!Split(std::string_view(device->arguments).substr(std::min<size_t>(1, device->arguments.size())),
             &values))
    return "its arguments are NAME=VALUE, with commas between";
  // The driver would take no notice of any, if it did not know one of them.
  for (const auto& [key, value] : values) {
    if (!Has(kMemifArguments, key)) return key + " is no argument of net_memif";
  }
  if (values.contains("bsize")) return "bsize follows from --dpdk-mtu";
  if (values.contains("zero-copy")) return "zero-copy is not for a port";
  if (!values.contains("socket")) return "it needs socket=PATH, where the two ends meet";
  values.try_emplace("role", "server");
  values.try_emplace("socket-abstract", "no");
  values["bsize"] = std::to_string(MemifRoom(mtu));
  if (values["role"] != "server" && values["role"] != "client") return "its role is server or client";
  device->memif = true;
  device->server = values["role"] == "server";
  device->abstract = values["socket-abstract"] == "yes";
  device->socket = values["socket"];
  device->arguments.clear();
  for (const auto& [key, value] : values) device->arguments += fmt::format(",{}={}", key, value);
  return {};
}

}  // namespace

StatusOr<Device> ParseDevice(const PortDevice& port, uint32_t mtu) {
  const size_t comma = std::min(port.device.find(','), port.device.size());
  Device device{
      .port = port.name, .name = port.device.substr(0, comma), .arguments = port.device.substr(comma)};
  device.pci = IsPciAddress(device.name);
  std::string wrong;
  if (!device.pci && !device.name.starts_with("net_"))
    wrong = "is no PCI address, as 0000:3b:00.0, and no virtual device, as net_memif0";
  if (device.name.starts_with("net_memif")) wrong = CompleteMemif(mtu, &device);
  if (wrong.empty()) return device;
  return MakeStatus(StatusCode::kInvalidArgument,
                    fmt::format("port {}: device {}: {}", port.name, port.device, wrong));
}

std::string WrongPciDevice(const Device& device, const std::string& sysfs) {
  if (!device.pci) return {};
  const auto folder = std::filesystem::path(sysfs) / device.name;
  std::error_code unused;
  if (!std::filesystem::exists(folder, unused))
    return fmt::format("{}: there is no PCI device {}; lspci -D lists them", device.port, device.name);
  const std::string driver = std::filesystem::read_symlink(folder / "driver", unused).filename();
  if (Has(kShared, driver) || Has(kForUs, driver)) return {};
  return fmt::format("{}: {} is driven by {}: modprobe vfio-pci; dpdk-devbind.py -b vfio-pci {}", device.port,
                     device.name, driver.empty() ? "nobody" : "the kernel's " + driver, device.name);
}

}  // namespace epic::io::dpdk
