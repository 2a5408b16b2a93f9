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
  return out;
}

std::string InWords(const HostInfo& info) {
  std::string out = info.ports.empty() ? "without a RoCE port" : "";
  for (const HostPort& port : info.ports)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", port.ifname, ToString(port.ip));
  return out;
}

}  // namespace epic::manager
