#include "commlib/verbs/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "commlib/verbs/extensions.h"
#include "commlib/verbs/ports.h"

namespace epic::verbs {
namespace {

// Packets unacknowledged, of a NIC that does not say: rdma_rxe stops sending at 129 (RXE_MAX_UNACKED_PSNS is
// 128), and others have more.
constexpr uint32_t kMaxOutstanding = 128;
// RXE_VENDOR_ID: of rdma_rxe, and of no manufacturer.
constexpr uint32_t kRxeVendor = 0xffffff;
constexpr auto kGidWait = std::chrono::seconds(2);

struct Cache {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Device>> by_ifname;
};
Cache& TheCache() {
  static auto* cache = new Cache;
  return *cache;
}

// "rxe0", or "rxe0 (port 1 has no link)".
std::string WithPorts(ibv_device* device) {
  std::string without;
  ibv_context* context = ibv_open_device(device);
  ibv_device_attr attr{};
  const bool known = context != nullptr && ibv_query_device(context, &attr) == 0;
  for (uint8_t port = 1; known && port <= attr.phys_port_cnt && port > 0; ++port) {
    ibv_port_attr state{};
    if (ibv_query_port(context, port, &state) != 0 || state.state == IBV_PORT_ACTIVE) continue;
    without += fmt::format("{} {}", without.empty() ? "" : ",", port);
  }
  if (context != nullptr) ibv_close_device(context);
  return device->name + (without.empty() ? "" : fmt::format(" (port{} has no link)", without));
}

// What there is, for the message of kNotFound.
std::string ListDevices() {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  std::string names;
  for (int i = 0; list != nullptr && i < count; ++i) names += (i ? ", " : "") + WithPorts(list[i]);
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
  device->AskAttributes();
  device->max_outstanding_ = MaxOutstanding(device->context_).value_or(kMaxOutstanding);
  device->takes_super_frames_ = TakesSuperFrames(device->context_);
  device->pd_ = ibv_alloc_pd(device->context_);
  return device->pd_ != nullptr ? device : nullptr;
}

bool Device::FindGid(const std::string& ifname) {
  for (const Port& port : PortsOf(context_)) {
    // A device that the kernel does not know has no interface, and goes by its own name.
    if (!ifname.empty() && ifname != port.ifname && !(port.ifname.empty() && ifname == port.device)) continue;
    port_ = port.number;
    gid_index_ = port.gid_index;
    ip_ = port.ip;
    ifname_ = port.ifname;
    max_path_mtu_ = port.max_path_mtu;
    const uint32_t ip = Raw(port.ip);
    description_ = fmt::format("{} port {} ({}, {}.{}.{}.{})", port.device, port_, port.ifname, ip >> 24,
                               ip >> 16 & 255, ip >> 8 & 255, ip & 255);
    return true;
  }
  return false;
}

void Device::AskAttributes() {
  ibv_device_attr attr{};
  if (ibv_query_device(context_, &attr) != 0) return;
  const auto reads = [](int most) { return static_cast<uint8_t>(std::clamp(most, 0, UINT8_MAX)); };
  max_reads_ = reads(attr.max_qp_init_rd_atom);
  max_reads_of_peer_ = reads(attr.max_qp_rd_atom);
  joins_groups_ = ServesGroups(context_);
  if (attr.max_mcast_grp > 0) {
    const bool gives_own = joins_groups_ || attr.vendor_id == kRxeVendor;
    datagram_reach_ = gives_own ? DatagramReach::kAll : DatagramReach::kRemote;
  }
}

Device::~Device() {
  if (pd_ != nullptr) ibv_dealloc_pd(pd_);
  if (context_ != nullptr) ibv_close_device(context_);
}

Error Memory::Register(std::shared_ptr<Device> device, const void* base, size_t bytes, bool writable,
                       std::shared_ptr<Memory>* memory, bool remote_reads) {
  std::shared_ptr<Memory> result(new Memory);
  // Read-only memory can be sent from, and read: no access right is asked for then that it does not have.
  const int access = (writable ? IBV_ACCESS_LOCAL_WRITE : 0) | (remote_reads ? IBV_ACCESS_REMOTE_READ : 0);
  result->mr_ = ibv_reg_mr(device->pd(), const_cast<void*>(base), bytes, access);
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
