#include "base/address.h"

#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>
#include <sys/un.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "base/number.h"

namespace epic {
namespace {

constexpr std::string_view kUnix = "unix:";
constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kNameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
constexpr std::string_view kIpv6Letters = "0123456789abcdefABCDEF:.";
constexpr size_t kLongestName = 253;
constexpr int kMostPort = 65535;

bool IsOf(std::string_view text, std::string_view letters) {
  return text.find_first_not_of(letters) == std::string_view::npos;
}

bool IsNumber(std::string_view text, int least, int most) {
  int value = -1;
  return IsOf(text, kDigits) && ReadNumber(text, &value) && value >= least && value <= most;
}

// Four numbers, as routers write it: shorter forms, which the resolver takes, are slips of the pen here.
bool IsIpv4(std::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(std::string(text), '.');
  return parts.size() == 4 &&
         std::ranges::all_of(parts, [](const std::string& part) { return IsNumber(part, 0, 255); });
}

bool IsIn(std::string_view text, std::initializer_list<std::string_view> list) {
  return std::ranges::find(list, text) != list.end();
}

// What is wrong with a host, or nothing.
std::string WrongHost(std::string_view host) {
  if (host.empty()) return "it has no host";
  if (host.front() == '[') {
    const std::string_view inside = host.substr(1, host.size() - 2);
    const std::string_view zone = inside.substr(std::min(inside.find('%'), inside.size()));
    const std::string_view ip = inside.substr(0, inside.size() - zone.size());
    const bool good = std::ranges::count(ip, ':') >= 2 && IsOf(ip, kIpv6Letters) && zone.size() != 1 &&
                      (zone.empty() || IsOf(zone.substr(1), kNameLetters));
    return good ? "" : fmt::format("{} is not an IPv6 address in brackets", host);
  }
  if (!IsOf(host, kNameLetters) || host.size() > kLongestName) return "no host has such a name";
  const bool numbers = IsOf(host, "0123456789.");
  return numbers && !IsIpv4(host) ? fmt::format("{} is not an IPv4 address", host) : "";
}

// What a text without a port means, and which ports it may have.
struct Ports {
  int unsaid = -1;  // below 0: one has to be said
  int least = 1;
};

// The address, or what is wrong with the text.
std::string Read(std::string_view text, const Ports& ports, Address* address) {
  if (text.find("://") != std::string_view::npos) return "no scheme stands before it";
  if (text.find('/') != std::string_view::npos) return "it has a path";
  const bool bracket = text.starts_with('[');
  const size_t closed = bracket ? text.find(']') : std::string_view::npos;
  if (bracket && closed == std::string_view::npos) return "the bracket is not closed";
  const size_t colon = bracket ? closed + 1 : text.find(':');
  if (!bracket && colon != text.rfind(':')) return "an IPv6 address stands in brackets, as [2001:db8::1]:7400";
  const std::string_view host = text.substr(0, colon);
  if (std::string what = WrongHost(host); !what.empty()) return what;
  address->host = bracket ? host.substr(1, host.size() - 2) : host;
  address->port = ports.unsaid;
  if (colon >= text.size()) return ports.unsaid < 0 ? "it has no port" : "";
  const std::string_view port = text.substr(colon + 1);
  if (text[colon] != ':' || !IsNumber(port, ports.least, kMostPort))
    return fmt::format("'{}' is not a port from {} to {}", port, ports.least, kMostPort);
  (void)ReadNumber(port, &address->port);
  return "";
}

}  // namespace

std::string Address::ToString() const {
  if (host.empty()) return fmt::format("*:{}", port);
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

bool Address::IsAny() const {
  // Written in any way: of an IPv6 address nothing but zeros and colons.
  return host.empty() || host == "0.0.0.0" || (host.find(':') != std::string::npos && IsOf(host, "0:")) ||
         host == "::ffff:0.0.0.0";
}

bool Address::IsLoopback() const {
  return (host.starts_with("127.") && IsIpv4(host)) || IsIn(host, {"localhost", "::1"});
}

StatusOr<std::string> ManagerAddress(std::string_view text) {
  const auto wrong = [text](std::string_view what) {
    return MakeStatus(
        StatusCode::kInvalidArgument,
        fmt::format("'{}' is no address of a manager: {}; HOST:PORT would be right, as 192.0.2.1:{}, "
                    "or HOST alone for port {}, or a list of these with commas between, or unix:PATH of this "
                    "host's inchost",
                    text, what, kManagerPort, kManagerPort));
  };
  if (text.starts_with(kUnix)) {
    const std::string_view path = text.substr(kUnix.size());
    if (path.empty()) return wrong("it has no path");
    if (path.size() >= sizeof(sockaddr_un::sun_path))
      return wrong("the path is longer than a socket's may be");
    return std::string(text);
  }
  std::vector<std::string> managers;
  for (const std::string& one : std::vector<std::string>(absl::StrSplit(std::string(text), ','))) {
    Address address;
    if (const std::string what = Read(one, {.unsaid = kManagerPort}, &address); !what.empty())
      return wrong(what);
    managers.push_back(address.ToString());
    if (std::ranges::count(managers, managers.back()) > 1) return wrong(managers.back() + " is in it twice");
  }
  if (managers.size() > kMostManagers) return wrong(fmt::format("it has more than {}", kMostManagers));
  return absl::StrJoin(managers, ",");
}

std::vector<std::string> AddressesOf(const std::string& managers) {
  if (managers.starts_with(kUnix)) return {managers};
  return absl::StrSplit(managers, ',');
}

StatusOr<Address> ListenAddress(std::string_view text) {
  Address address;
  std::string what;
  if (text.starts_with("*:")) {
    // As any host that is good, but for what it is then called.
    what = Read(fmt::format("0.0.0.0{}", text.substr(1)), {.least = 0}, &address);
    address.host.clear();
  } else {
    what = Read(text, {.least = 0}, &address);
  }
  if (what.empty()) return address;
  return MakeStatus(StatusCode::kInvalidArgument,
                    fmt::format("'{}' is no address to listen on: {}; HOST:PORT would be right, as 192.0.2.1:{}, "
                                "with port 0 for any, and 0.0.0.0, [::] or * for all addresses of this machine",
                                text, what, kManagerPort));
}

StatusOr<Address> CallableAddress(std::string_view text) {
  Address address;
  std::string what = text.starts_with("*:") ? "* stands for all addresses of a machine, under which nobody can call it"
                                            : Read(text, {}, &address);
  if (what.empty() && address.IsAny())
    what = fmt::format("{} stands for all addresses of a machine, under which nobody can call it", address.host);
  if (what.empty()) return address;
  return MakeStatus(StatusCode::kInvalidArgument,
                    fmt::format("'{}' is no address to be called at: {}; HOST:PORT would be right, as 192.0.2.11:7401",
                                text, what));
}

}  // namespace epic
