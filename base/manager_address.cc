#include "base/manager_address.h"

#include <absl/strings/str_split.h>
#include <fmt/format.h>
#include <sys/un.h>

#include <algorithm>
#include <vector>

#include "base/number.h"

namespace epic {
namespace {

constexpr std::string_view kUnix = "unix:";
constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kNameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
constexpr std::string_view kIpv6Letters = "0123456789abcdefABCDEF:.";
constexpr size_t kLongestName = 253;

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

}  // namespace

StatusOr<std::string> ManagerAddress(std::string_view text) {
  const auto wrong = [text](std::string_view what) {
    return MakeStatus(
        StatusCode::kInvalidArgument,
        fmt::format("'{}' is no address of a manager: {}; HOST:PORT would be right, as 192.0.2.1:{}, "
                    "or HOST alone for port {}, or unix:PATH of this host's inchost",
                    text, what, kManagerPort, kManagerPort));
  };
  if (text.starts_with(kUnix)) {
    const std::string_view path = text.substr(kUnix.size());
    if (path.empty()) return wrong("it has no path");
    if (path.size() >= sizeof(sockaddr_un::sun_path))
      return wrong("the path is longer than a socket's may be");
    return std::string(text);
  }
  if (text.find("://") != std::string_view::npos) return wrong("no scheme stands before it");
  if (text.find('/') != std::string_view::npos) return wrong("it has a path");
  const size_t bracket = text.starts_with('[') ? text.find(']') : std::string_view::npos;
  if (text.starts_with('[') && bracket == std::string_view::npos) return wrong("the bracket is not closed");
  const size_t colon = bracket == std::string_view::npos ? text.find(':') : bracket + 1;
  if (bracket == std::string_view::npos && colon != text.rfind(':'))
    return wrong("an IPv6 address stands in brackets, as [2001:db8::1]:7400");
  const std::string_view host = text.substr(0, colon);
  if (const std::string what = WrongHost(host); !what.empty()) return wrong(what);
  if (colon >= text.size()) return fmt::format("{}:{}", host, kManagerPort);
  const std::string_view port = text.substr(colon + 1);
  if (text[colon] != ':' || !IsNumber(port, 1, 65535))
    return wrong(fmt::format("'{}' is not a port from 1 to 65535", port));
  return std::string(text);
}

}  // namespace epic
