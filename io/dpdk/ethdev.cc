#include "io/dpdk/ethdev.h"

#include <fmt/format.h>
#include <rte_dev.h>
#include <rte_epoll.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <sys/epoll.h>

#include <algorithm>
#include <string_view>

#include "io/dpdk/eal.h"
#include "io/dpdk/guard.h"

namespace epic::io::dpdk {
namespace {

constexpr uint32_t kCachedBuffers = 256;

// Drivers of shared memory: they carry what the buffers have room for, whatever MTU they claim.
bool CarriesAnyMtu(const char* driver) {
  const std::string_view name = driver != nullptr ? driver : "";
  return name == "net_memif" || name == "net_ring";
}

Status DeviceError(const Device& device, StatusCode code, const std::string& what) {
  return MakeStatus(code, fmt::format("port {}: {}: {}", device.port, device.name, what));
}

rte_mempool* MakePool(const char* kind, uint16_t id, uint32_t count, size_t room) {
  return rte_pktmbuf_pool_create(fmt::format("{}{}", kind, id).c_str(), count, kCachedBuffers, 0,
                                 static_cast<uint16_t>(RTE_PKTMBUF_HEADROOM + room), SOCKET_ID_ANY);
}

}  // namespace

StatusOr<std::unique_ptr<Ethdev>> Ethdev::Make(const Device& device, uint32_t mtu, const Say& say) {
  const Quietly quietly;
  uint16_t id = 0;
  // Hardware has been taken at the start.
  if (rte_eth_dev_get_port_by_name(device.name.c_str(), &id) != 0) {
    const int result = rte_dev_probe((device.name + device.arguments).c_str());
    if (result != 0)
      return DeviceError(device, StatusCode::kNotFound,
                         fmt::format("{}; its driver is in a package of its own, as librte-net-memif23",
                                     quietly.Why(rte_strerror(-result))));
    if (rte_eth_dev_get_port_by_name(device.name.c_str(), &id) != 0)
      return DeviceError(device, StatusCode::kInternal, "is no Ethernet device");
  }
  std::unique_ptr<Ethdev> made(new Ethdev(device, id, mtu, say));
  if (const Status status = made->Configure(); !status.ok()) return status;
  return made;
}

Status Ethdev::Configure() {
  const Quietly quietly;
  rte_eth_dev_info info{};
  if (rte_eth_dev_info_get(id_, &info) != 0)
    return DeviceError(device_, StatusCode::kInternal, "does not say what it is");
  rte_eth_conf conf{};
  if (!CarriesAnyMtu(info.driver_name)) {
    const uint32_t most = info.max_mtu != UINT16_MAX ? info.max_mtu : info.max_rx_pktlen - 18;
    if (most < mtu_) mtu_ = most;
    conf.rxmode.mtu = mtu_;
  }
  // Where the driver has no interrupts it may say so here, or later.
  conf.intr_conf.rxq = 1;
  int result = rte_eth_dev_configure(id_, 1, 1, &conf);
  if (result != 0) {
    conf.intr_conf.rxq = 0;
    result = rte_eth_dev_configure(id_, 1, 1, &conf);
  }
  if (result != 0)
    return DeviceError(device_, StatusCode::kInvalidArgument, quietly.Why(rte_strerror(-result)));
  uint16_t receive = kRingFrames, send = kRingFrames;
  rte_eth_dev_adjust_nb_rx_tx_desc(id_, &receive, &send);
  receive_pool_ =
      MakePool("receive", id_, std::max<uint32_t>(kReceiveBuffers, receive + kRingFrames), ReceiveRoom(mtu_));
  send_pool_ = MakePool("send", id_, kSendBuffers, SendRoom(mtu_));
  if (receive_pool_ == nullptr || send_pool_ == nullptr)
    return DeviceError(
        device_, StatusCode::kInternal,
        fmt::format("no memory for its buffers, {} MiB; cure: --dpdk-args \"-m N\", with more MiB",
                    DeviceBytes(mtu_) >> 20));
  result = rte_eth_rx_queue_setup(id_, 0, receive, SOCKET_ID_ANY, nullptr, receive_pool_);
  if (result == 0) result = rte_eth_tx_queue_setup(id_, 0, send, SOCKET_ID_ANY, nullptr);
  if (result != 0) return DeviceError(device_, StatusCode::kInternal, quietly.Why(rte_strerror(-result)));
  return {};
}

Ethdev::~Ethdev() {
  const Quietly quietly;
  Stop();
  rte_eth_dev_close(id_);
  rte_mempool_free(receive_pool_);
  rte_mempool_free(send_pool_);
}

Status Ethdev::Start() {
  const Quietly quietly;
  const int result = rte_eth_dev_start(id_);
  if (result != 0 && device_.memif && !device_.server)
    return DeviceError(device_, StatusCode::kUnavailable,
                       fmt::format("nobody listens at {}", device_.socket));
  if (result != 0) return DeviceError(device_, StatusCode::kInternal, quietly.Why(rte_strerror(-result)));
  started_ = true;
  broken_ = false;
  // What they say of it does not matter: a device without such modes hands over all that comes.
  rte_eth_promiscuous_enable(id_);
  rte_eth_allmulticast_enable(id_);
  if (!interrupts_) {
    Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
    if (epoll && rte_eth_dev_rx_intr_ctl_q(id_, 0, epoll.get(), RTE_INTR_EVENT_ADD, nullptr) == 0 &&
        rte_eth_dev_rx_intr_enable(id_, 0) == 0)
      interrupts_ = std::move(epoll);
  }
  return {};
}

void Ethdev::Stop() {
  if (!std::exchange(started_, false)) return;
  const Quietly quietly;
  rte_eth_dev_stop(id_);
  LinkIsUp();
}

template <typename Call>
bool Ethdev::Drive(const Call& call) {
  if (!device_.memif) {
    call();
    return true;
  }
  if (broken_) return false;
  if (WithoutFault(call)) return true;
  // Buffers that were in the driver's hands are lost: a burst at each such end, of some thousand.
  broken_ = LinkIsUp();
  say_(DpdkOptions::Level::kWarning,
       fmt::format("port {}: the memory of its memif was gone while it was used{}", device_.port,
                   broken_ ? ", and its peer is there" : ": its peer has died"));
  return false;
}

uint16_t Ethdev::Receive(rte_mbuf** frames, uint16_t count) {
  uint16_t came = 0;
  return Drive([&] { came = rte_eth_rx_burst(id_, 0, frames, count); }) ? came : 0;
}

uint16_t Ethdev::Send(rte_mbuf** frames, uint16_t count) {
  uint16_t sent = 0;
  // After a fault nobody knows which of them the driver has freed: none is touched again.
  return Drive([&] { sent = rte_eth_tx_burst(id_, 0, frames, count); }) ? sent : count;
}

bool Ethdev::LinkIsUp() {
  rte_eth_link link{};
  const bool up = started_ && rte_eth_link_get_nowait(id_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
  if (up_ && !up) ++times_down_;
  up_ = up;
  return up;
}

uint32_t Ethdev::RateMbps() const {
  rte_eth_link link{};
  if (!device_.pci || rte_eth_link_get_nowait(id_, &link) != 0) return 0;
  return link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : link.link_speed;
}

uint64_t Ethdev::CountDropped() const {
  rte_eth_stats stats{};
  return rte_eth_stats_get(id_, &stats) == 0 ? stats.imissed + stats.rx_nombuf : 0;
}

}  // namespace epic::io::dpdk
