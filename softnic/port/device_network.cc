#include "softnic/port/device_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <thread>
#include <utility>

#include "base/path_mtu.h"
#include "base/signals_blocked.h"
#include "io/clock.h"
#include "softnic/port/device_port.h"

namespace epic::softnic {
namespace {

// With all headers, of IPv6 too, as for interfaces.
constexpr uint32_t kMtu = 4200;
// Who listens answers in milliseconds; a switch that has not noticed yet that the last program has gone
// refuses.
constexpr Nanos kPatience = 4 * kSecond;

void Say(io::DpdkOptions::Level level, const std::string& line) {
  if (level >= io::DpdkOptions::Level::kWarning) std::fprintf(stderr, "softnic: %s\n", line.c_str());
}

}  // namespace

struct DeviceNetwork::Entry {
  Device device;
  std::atomic<bool> is_open = false, up = false;
};

// A device of the network's while a port has it.
class DeviceNetwork::Opened final : public DevicePort::Device {
 public:
  Opened(DeviceNetwork* network, Entry* entry) : network_(network), entry_(entry) {}
  ~Opened() override { entry_->is_open = false; }

  StatusOr<std::unique_ptr<io::FramePort>> Open() override {
    const std::lock_guard lock(network_->mutex_);
    return network_->source_->Open({.name = entry_->device.name});
  }
  bool LinkIsUp() override {
    const std::lock_guard lock(network_->mutex_);
    return network_->source_->State(entry_->device.name).up;
  }
  void Publish(bool up) override { entry_->up = up; }
  Nanos Now() const override { return io::MonotonicNow(); }

 private:
  DeviceNetwork* const network_;
  Entry* const entry_;
};

DeviceNetwork::DeviceNetwork(const std::vector<Device>& devices, std::vector<std::string> folders)
    : folders_(std::move(folders)) {
  for (const Device& device : devices) {
    entries_.push_back(std::make_unique<Entry>());
    entries_.back()->device = device;
  }
}

DeviceNetwork::~DeviceNetwork() = default;

std::vector<io::AddressedInterface> DeviceNetwork::Interfaces() {
  std::vector<io::AddressedInterface> all;
  for (const auto& entry : entries_) {
    const DeviceAddress& address = entry->device.address;
    all.push_back(
        {.name = entry->device.name, .ip = address.ip, .mac = address.mac, .addresses = {Ip(address.ip)}});
  }
  return all;
}

DeviceNetwork::Entry* DeviceNetwork::Find(const std::string& name) {
  const auto found =
      std::ranges::find_if(entries_, [&name](const auto& entry) { return entry->device.name == name; });
  return found == entries_.end() ? nullptr : found->get();
}

io::InterfaceState DeviceNetwork::State(const io::AddressedInterface& interface) {
  const Entry* const entry = Find(interface.name);
  return {.exists = entry != nullptr, .up = entry != nullptr && entry->up, .mtu = kMtu};
}

Status DeviceNetwork::Load() {
  const std::lock_guard lock(mutex_);
  if (source_ != nullptr) return {};
  io::DpdkOptions options{.devices = {}, .eal_arguments = "", .mtu = kMtu, .say = Say};
  for (const auto& entry : entries_) options.devices.push_back({entry->device.name, entry->device.device});
  StatusOr<std::unique_ptr<io::PortSource>> loaded;
  // DPDK makes the thread that starts it its own, and its threads inherit what that one blocks.
  const SignalsBlocked blocked;
  std::thread([&] { loaded = io::LoadDpdkPorts(folders_, options); }).join();
  if (!loaded.ok()) return loaded.status();
  source_ = *std::move(loaded);
  return {};
}

StatusOr<std::unique_ptr<Port>> DeviceNetwork::Open(const io::AddressedInterface& interface) {
  Entry* const entry = Find(interface.name);
  if (entry == nullptr) return MakeStatus(StatusCode::kNotFound, interface.name + ": no such device");
  if (const Status status = Load(); !status.ok()) return status;
  if (entry->is_open.exchange(true))
    return MakeStatus(
        StatusCode::kUnavailable,
        fmt::format("{}: this process has opened it already, and it has one user", entry->device.name));
  auto port = DevicePort::Open(std::make_unique<Opened>(this, entry), entry->device.address, kPatience);
  if (!port.ok()) return port.status();
  return std::unique_ptr<Port>(*std::move(port));
}

}  // namespace epic::softnic
