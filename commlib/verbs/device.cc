#include "commlib/verbs/device.h"

#include <fmt/format.h>
#include <net/if.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "commlib/verbs/extensions.h"

namespace epic::verbs {
namespace {

// Packets unacknowledged, of a NIC that does not say: rdma_rxe stops sending at 129 (RXE_MAX_UNACKED_PSNS is
// 128), and others have more.
constexpr uint32_t kMaxOutstanding = 128;
constexpr auto kGidWait = std::chrono::seconds(2);

bool IsMappedIpv4(const ibv_gid& gid) {
  static constexpr uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, kPrefix, sizeof kPrefix) == 0;
}

Ipv4 MappedIpv4(const ibv_gid& gid) {
  uint32_t ip = 0;
  for (size_t i = 12; i < 16; ++i) ip = ip << 8 | gid.raw[i];
  return Ipv4{ip};
}

struct Cache {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Device>> by_ifname;
};
Cache& TheCache() {
  static auto* cache = new Cache;
  return *cache;
}

// What there is, for the message of kNotFound.
std::string ListDevices() {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  std::string names;
  for (int i = 0; list != nullptr && i < count; ++i) names += (i ? ", " : "") + std::string(list[i]->name);
  if (list != nullptr) ibv_free_device_list(list);
  return names.empty() ? "there is no RDMA device (rdma link add rxe0 type rxe netdev DEVICE creates one; "
                         "epic-run PROGRAM does without)"
                       : "RDMA devices here: " + names;
}

}  // namespace

Error Device::Open(const std::string& ifname, std::shared_ptr<Device>* device) {
  const std::lock_guard lock(TheCache().mutex);
  std::weak_ptr<Device>& cached = TheCache().by_ifname[ifname];
  if ((*device = cached.lock())) return {};
  // Harmless where the kernel copies pinned pages on fork by itself; elsewhere it keeps a fork from stealing
  // them.
  ibv_fork_init();
  const auto give_up = std::chrono::steady_clock::now() + kGidWait;
  while (true) {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    for (int i = 0; list != nullptr && i < count && !*device; ++i) *device = OpenOne(list[i], ifname);
    if (list != nullptr) ibv_free_device_list(list);
    if (*device) {
      cached = *device;
      return {};
    }
    if (count == 0 || std::chrono::steady_clock::now() > give_up) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const std::string wanted = ifname.empty()
                                 ? "no active RoCE port with an IPv4 address"
                                 : fmt::format("no active RoCE port on {} with an IPv4 address", ifname);
  return {ErrorCode::kNotFound, fmt::format("{}; {}", wanted, ListDevices())};
}

std::shared_ptr<Device> Device::OpenOne(ibv_device* candidate, const std::string& ifname) {
  std::shared_ptr<Device> device(new Device);
  device->context_ = ibv_open_device(candidate);
  if (device->context_ == nullptr || !device->FindGid(ifname)) return nullptr;
  device->max_outstanding_ = MaxOutstanding(device->context_).value_or(kMaxOutstanding);
  device->takes_super_frames_ = TakesSuperFrames(device->context_);
  device->pd_ = ibv_alloc_pd(device->context_);
  return device->pd_ != nullptr ? device : nullptr;
}

bool Device::FindGid(const std::string& ifname) {
  std::vector<ibv_gid_entry> entries(256);
  const ssize_t count = ibv_query_gid_table(context_, entries.data(), entries.size(), 0);
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& entry = entries[static_cast<size_t>(i)];
    if (entry.gid_type != IBV_GID_TYPE_ROCE_V2 || !IsMappedIpv4(entry.gid)) continue;
    char netdev[IF_NAMESIZE] = "";
    if_indextoname(entry.ndev_ifindex, netdev);
    if (!ifname.empty() && ifname != netdev) continue;
    ibv_port_attr port{};
    if (ibv_query_port(context_, static_cast<uint8_t>(entry.port_num), &port) != 0) continue;
    if (port.state != IBV_PORT_ACTIVE) continue;
    port_ = static_cast<uint8_t>(entry.port_num);
    gid_index_ = static_cast<uint8_t>(entry.gid_index);
    ip_ = MappedIpv4(entry.gid);
    max_path_mtu_ = 128u << port.active_mtu;  // IBV_MTU_256 is 1
    description_ = fmt::format("{} port {} ({}, {}.{}.{}.{})", context_->device->name, port_, netdev,
                               entry.gid.raw[12], entry.gid.raw[13], entry.gid.raw[14], entry.gid.raw[15]);
    return true;
  }
  return false;
}

Device::~Device() {
  if (pd_ != nullptr) ibv_dealloc_pd(pd_);
  if (context_ != nullptr) ibv_close_device(context_);
}

Error Memory::Register(std::shared_ptr<Device> device, const void* base, size_t bytes, bool writable,
                       std::shared_ptr<Memory>* memory) {
  std::shared_ptr<Memory> result(new Memory);
  // Read-only memory can be sent from: no access right is asked for then.
  result->mr_ =
      ibv_reg_mr(device->pd(), const_cast<void*>(base), bytes, writable ? IBV_ACCESS_LOCAL_WRITE : 0);
  if (result->mr_ == nullptr) {
    return {ErrorCode::kNoResource,
            fmt::format("cannot register {} bytes at {} with {}: {}{}", bytes, fmt::ptr(base),
                        device->description(), std::strerror(errno),
                        errno == ENOMEM ? " (is the limit of locked memory, ulimit -l, too low?)" : "")};
  }
  result->device_ = std::move(device);
  *memory = std::move(result);
  return {};
}

Memory::~Memory() {
  if (mr_ != nullptr) ibv_dereg_mr(mr_);
}

bool Memory::Contains(const void* base, size_t bytes) const {
  const auto begin = reinterpret_cast<uintptr_t>(base), mine = reinterpret_cast<uintptr_t>(mr_->addr);
  return begin >= mine && bytes <= mr_->length && begin - mine <= mr_->length - bytes;
}

}  // namespace epic::verbs
