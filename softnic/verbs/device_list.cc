#include "softnic/verbs/device_list.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "base/path_mtu.h"
#include "softnic/port/device_network.h"
#include "softnic/port/ethernet_port.h"
#include "softnic/port/gids.h"
#include "softnic/verbs/asked_devices.h"
#include "softnic/verbs/call.h"
#include "softnic/verbs/ucx.h"
#include "softnic/verbs/use_network.h"

namespace epic::softnic {
namespace {

constexpr uint32_t kHeaderBytes = 80;

Network* other_network = nullptr;

std::unique_ptr<Device> MakeDevice(const io::AddressedInterface& interface, std::string name,
                                   Network& network) {
  auto device = std::make_unique<Device>();
  device->interface = interface;
  device->network = &network;
  if (name.empty()) name = "softnic_" + interface.name;
  ibv_device& base = device->base;
  base.node_type = IBV_NODE_CA;
  base.transport_type = IBV_TRANSPORT_IB;
  name.copy(base.name, sizeof base.name - 1);
  // There is no character device and nothing in sysfs (but ucx.h); the names are for messages.
  name.copy(base.dev_name, sizeof base.dev_name - 1);
  return device;
}

uint64_t GuidOf(const io::AddressedInterface& interface) {
  return GidOf(LinkLocalOf(interface.mac)).global.interface_id;  // in network byte order, as verbs has it
}

// librdmacm asks for the devices before anything else. Without the kernel's rdma_cm it fails a moment later,
// with an errno that says nothing to whoever runs the program; with it, it may listen for ever on devices
// that the kernel does not know. So it gets none, and the words go where they are read.
bool IsConnectionManager(const void* caller) {
  Dl_info from{};
  return dladdr(caller, &from) != 0 && from.dli_fname != nullptr &&
         std::strstr(from.dli_fname, "librdmacm.so") != nullptr;
}

void TellOfConnectionManager() {
  static std::atomic<bool> told = false;
  if (told.exchange(true)) return;
  std::fprintf(
      stderr,
      "softnic: this program uses librdmacm, and softnic has no connection manager: its calls fail. Let "
      "the program exchange addresses itself, as perftest does without -R and the ibv_*_pingpong "
      "programs do\n");
}

// Where DPDK's module may be: an installed tree has it beside this library's folder, a build tree with the
// daemon.
std::vector<std::string> ModuleFolders() {
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&ModuleFolders), &self) == 0 || self.dli_fname == nullptr)
    return {};
  const auto folder = std::filesystem::path(self.dli_fname).parent_path();
  return {folder / "../io", folder / "../../incengine"};
}

// Those that the kernel does not know; the first that are asked for stay the only ones, as DPDK starts once.
DeviceNetwork& TheDevices(const std::vector<DeviceNetwork::Device>& devices) {
  static auto* const network = new DeviceNetwork(devices, ModuleFolders());  // for ever: devices point to it
  return *network;
}

// Devices that the kernel does not know have their own name, or DPDK's.
std::string NameOf(const AskedDevice& asked) {
  return asked.name.empty() ? asked.device.substr(0, asked.device.find(',')) : asked.name;
}

// Once: a program may ask for the list again and again.
void TellOf(const std::string& wrong) {
  static std::mutex mutex;
  static std::set<std::string> told;
  const std::lock_guard lock(mutex);
  if (!told.insert(wrong).second) return;
  std::fprintf(stderr, "softnic: EPIC_SOFTNIC_DEVICES (epic-run --devices): %s\n", wrong.c_str());
}

// As the variable asks for them.
std::vector<std::unique_ptr<Device>> AskedFor(const char* wanted) {
  std::vector<AskedDevice> all;
  std::vector<DeviceNetwork::Device> devices;
  for (const StatusOr<AskedDevice>& one : ParseAskedDevices(wanted)) {
    if (!one.ok()) {
      TellOf(std::string(one.status().message()));
      continue;
    }
    all.push_back(*one);
    if (one->interface.empty()) devices.push_back({NameOf(*one), one->device, one->address});
  }
  std::vector<std::unique_ptr<Device>> made;
  for (const AskedDevice& one : all) {
    const bool is_interface = !one.interface.empty();
    Network& network = is_interface ? TheNetwork() : TheDevices(devices);
    const std::vector<io::AddressedInterface> known = network.Interfaces();
    const auto found =
        std::ranges::find(known, is_interface ? one.interface : NameOf(one), &io::AddressedInterface::name);
    if (found != known.end()) {
      made.push_back(MakeDevice(*found, is_interface ? one.name : NameOf(one), network));
    } else if (is_interface) {
      TellOf(one.interface + " is no interface that is up and has an IPv4 address");
    } else {
      TellOf(NameOf(one) + " was not among the devices when this process asked first");
    }
  }
  return made;
}

// For ever. It can be reached from here, so that what looks for lost memory (LeakSanitizer) does not take it
// for such.
Device* Keep(std::unique_ptr<Device> device) {
  static std::atomic<Device*> newest = nullptr;
  Device* const kept = device.release();
  kept->before = newest.load();
  while (!newest.compare_exchange_weak(kept->before, kept)) continue;
  return kept;
}

}  // namespace

Network& TheNetwork() {
  static EthernetNetwork ethernet;
  return other_network != nullptr ? *other_network : ethernet;
}

std::vector<std::unique_ptr<Device>> ListDevices() {
  if (const char* wanted = std::getenv("EPIC_SOFTNIC_DEVICES"); wanted != nullptr) return AskedFor(wanted);
  std::vector<std::unique_ptr<Device>> devices;
  for (const io::AddressedInterface& interface : TheNetwork().Interfaces()) {
    if (!interface.loopback) devices.push_back(MakeDevice(interface, "", TheNetwork()));
  }
  return devices;
}

uint32_t PathMtuOf(const Device& device) {
  const uint32_t mtu = device.network->State(device.interface).mtu;
  if (mtu < kMinPathMtu + kHeaderBytes) return kMinPathMtu;
  return std::min(std::bit_floor(mtu - kHeaderBytes), kMaxPathMtu);
}

std::vector<Ip> GidsNow(const Device& device) {
  io::AddressedInterface now = device.interface;
  now.addresses = device.network->Addresses(device.interface);
  return GidsOf(now);
}

ibv_gid GidOf(Ip ip) {
  ibv_gid gid;
  std::ranges::copy(ip.bytes(), gid.raw);
  return gid;
}

std::optional<Ipv4> Ipv4Of(const ibv_gid& gid) {
  const Ip ip = IpOf(gid);
  return ip.is_v4() ? std::optional(ip.v4()) : std::nullopt;
}

}  // namespace epic::softnic

using namespace epic::softnic;

void epic_softnic_use_network(Network* network) { other_network = network; }

EPIC_VERBS ibv_device** ibv_get_device_list(int* count) {
  const void* const caller = __builtin_return_address(0);
  if (IsConnectionManager(caller)) {
    if (!UcxAsksConnectionManager()) TellOfConnectionManager();
    return Null(EOPNOTSUPP);
  }
  return ObjectOf([&]() -> ibv_device** {
    // Devices stay for ever: an opened one points to its own, and there are few.
    std::vector<std::unique_ptr<Device>> devices = ListDevices();
    auto** list = static_cast<ibv_device**>(std::calloc(devices.size() + 1, sizeof(ibv_device*)));
    if (list == nullptr) return Null(ENOMEM);
    if (count != nullptr) *count = static_cast<int>(devices.size());
    std::vector<Device*> kept;
    kept.reserve(devices.size());
    for (size_t i = 0; i < devices.size(); ++i) {
      kept.push_back(Keep(std::move(devices[i])));
      list[i] = &kept.back()->base;
    }
    if (IsUcx(caller)) ShowToUcx(kept);
    return list;
  });
}

EPIC_VERBS void ibv_free_device_list(ibv_device** list) { std::free(list); }

EPIC_VERBS const char* ibv_get_device_name(ibv_device* device) { return device->name; }

EPIC_VERBS int ibv_get_device_index(ibv_device* device) {
  return static_cast<int>(reinterpret_cast<Device*>(device)->interface.index);
}

EPIC_VERBS __be64 ibv_get_device_guid(ibv_device* device) {
  return GuidOf(reinterpret_cast<Device*>(device)->interface);
}
