#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "incmanager/rpc/convert.h"
#include "incmanager/text.h"

namespace epic::manager {
namespace {


}  // namespace

StatusOr<HostInfo> FromProto(const proto::HostInfo& info) {
  HostInfo out{
      .name = Shortened(info.name()), .ports = {}, .version = Printable(info.version(), kMaxSaidBytes)};
  for (const proto::HostPort& port : info.ports()) {
    HostPort& to = out.ports.emplace_back();
    to.ifname = Printable(port.ifname(), kMaxSaidBytes);
    to.device = Printable(port.device(), kMaxSaidBytes);
    to.port = port.port();
    to.ip = Ipv4{port.ip()};
    if (port.mac().size() != to.mac.size()) {
      return MakeStatus(
          StatusCode::kInvalidArgument,
          fmt::format("mac of {}: {} bytes, not 6", Shortened(port.ifname()), port.mac().size()));
    }
    std::ranges::copy(port.mac(), to.mac.begin());
    to.rate_mbps = port.rate_mbps();
    to.max_path_mtu = port.max_path_mtu();
  }
  if (!info.has_fallback()) return out;
  FallbackOffer& offer = out.fallback.emplace();
  offer.bytes = info.fallback().bytes();
  offer.ip = Ipv4{info.fallback().ip()};
  offer.port_is_up = std::ranges::find(out.ports, offer.ip, &HostPort::ip) != out.ports.end();
  for (const proto::ServedGroup& group : info.fallback().served()) offer.served.push_back(FromProto(group));
  return out;
}

ServedGroup FromProto(const proto::ServedGroup& group) {
  return {.id = group.group_id(), .generation = group.generation()};
}

proto::ServedGroup ToProto(const ServedGroup& group) {
  proto::ServedGroup out;
  out.set_group_id(group.id);
  out.set_generation(group.generation);
  return out;
}

proto::HostInfo ToProto(const HostInfo& info) {
  proto::HostInfo out;
  out.set_name(info.name);
  out.set_version(info.version);
  for (const HostPort& port : info.ports) {
    proto::HostPort& to = *out.add_ports();
    to.set_ifname(port.ifname);
    to.set_device(port.device);
    to.set_port(port.port);
    to.set_ip(Raw(port.ip));
    to.set_mac(port.mac.data(), port.mac.size());
    to.set_rate_mbps(port.rate_mbps);
    to.set_max_path_mtu(port.max_path_mtu);
  }
  if (info.fallback) {
    out.mutable_fallback()->set_bytes(info.fallback->bytes);
    out.mutable_fallback()->set_ip(Raw(info.fallback->ip));
  }
  return out;
}

proto::MakeServer ToProto(const ServerRequest& request) {
  proto::MakeServer out;
  *out.mutable_group() = ToProto(ServedGroup{.id = request.group_id, .generation = request.generation});
  out.set_name(request.name);
  out.set_world_size(request.world_size);
  out.set_path_mtu(request.path_mtu);
  out.set_message_packets(request.message_packets);
  out.set_slots(request.slots);
  out.set_sum_mtus(request.accumulator_mtus);
  out.set_switch_name(request.switch_name);
  out.set_remote_ip(Raw(request.switch_ip));
  out.set_remote_qpn(request.switch_qpn);
  out.set_send_psn(request.server_psn);
  out.set_recv_psn(request.switch_psn);
  out.set_super_frames(request.super_frames);
  out.set_qp_timeout(kQpTimeout);
  out.set_retry_cnt(kRetryCount);
  out.set_rnr_retry(kRnrRetry);
  out.set_min_rnr_timer(kMinRnrTimer);
  return out;
}

std::string InWords(const HostInfo& info) {
  std::string out = info.ports.empty() ? "without a RoCE port" : "";
  for (const HostPort& port : info.ports)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", port.ifname, ToString(port.ip));
  if (info.fallback) out += fmt::format(", lends {} bytes", info.fallback->bytes);
  return out;
}

}  // namespace epic::manager
