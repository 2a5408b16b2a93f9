#include "softnic/verbs/asked_devices.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "base/number.h"

namespace epic::softnic {
namespace {

constexpr uint32_t kIpv4Bits = 32;

// What a device may be that is no interface: how DPDK calls the one with this number that is there, and the
// words that may stand behind it for DPDK's driver. Those are all, since any other begins the next device.
struct Kind {
  std::string_view name, form;
  std::vector<std::string_view> words;
};
const std::array<Kind, 3>& Kinds() {
  static const std::array<Kind, 3> kinds = {
      Kind{"memif",
           "net_memif{},socket={}",
           {"role", "id", "secret", "rsize", "socket-abstract", "bsize", "zero-copy"}},
      Kind{"virtio-user", "net_virtio_user{},path={}", {"queue_size", "server"}}, Kind{"pci", "{1}", {}}};
  return kinds;
}
constexpr std::array<std::string_view, 3> kOurWords = {"ip", "mac", "gateway"};

// Of what stands behind a device's name; none: it is an interface.
const Kind* KindOf(std::string_view what) {
  const auto found = std::ranges::find_if(Kinds(), [&](const Kind& kind) {
    return what.size() > kind.name.size() && what.starts_with(kind.name) && what[kind.name.size()] == ':';
  });
  return found == Kinds().end() ? nullptr : &*found;
}

std::optional<Ipv4> Ipv4In(const std::string& text) {
  in_addr address{};
  if (inet_pton(AF_INET, text.c_str(), &address) != 1) return std::nullopt;
  return Ipv4{ntohl(address.s_addr)};
}

std::optional<roce::MacAddress> MacIn(const std::string& text) {
  roce::MacAddress mac{};
  std::array<unsigned, 6> bytes{};
  int end = 0;
  if (text.find_first_not_of("0123456789abcdefABCDEF:") != std::string::npos) return std::nullopt;
  if (std::sscanf(text.c_str(), "%2x:%2x:%2x:%2x:%2x:%2x%n", &bytes[0], &bytes[1], &bytes[2], &bytes[3],
                  &bytes[4], &bytes[5], &end) != 6 ||
      static_cast<size_t>(end) != text.size())
    return std::nullopt;
  std::ranges::transform(bytes, mac.begin(), [](unsigned byte) { return static_cast<uint8_t>(byte); });
  return roce::IsGroup(mac) ? std::nullopt : std::optional(mac);
}

// 02:e1 and the address: of those that anybody may choose for himself.
roce::MacAddress MacOf(Ipv4 ip) {
  const uint32_t raw = Raw(ip);
  return {0x02,
          0xe1,
          static_cast<uint8_t>(raw >> 24),
          static_cast<uint8_t>(raw >> 16),
          static_cast<uint8_t>(raw >> 8),
          static_cast<uint8_t>(raw)};
}

// One entry as it is read: first what it is, then the words behind it.
class Reader {
 public:
  Reader(std::string name, const std::string& what) : said_(what), kind_(KindOf(what)) {
    asked_.name = std::move(name);
    if (kind_ == nullptr) {
      asked_.interface = what;
      return;
    }
    where_ = what.substr(kind_->name.size() + 1);
    if (where_.empty()) Wrong("nothing stands behind the colon");
  }

  bool takes(const std::string& word) const {
    return kind_ != nullptr &&
           (std::ranges::count(kOurWords, word) > 0 || std::ranges::count(kind_->words, word) > 0);
  }

  void Word(const std::string& key, const std::string& value) {
    said_ += fmt::format(",{}={}", key, value);
    if (key == "ip") {
      const size_t slash = value.find('/');
      uint32_t bits = kIpv4Bits;
      const auto ip = Ipv4In(value.substr(0, slash));
      const bool sized =
          slash == std::string::npos || ReadNumber(std::string_view(value).substr(slash + 1), &bits);
      if (!ip || !sized || bits > kIpv4Bits || Ip(*ip).is_multicast())
        return Wrong("ip is ADDRESS/BITS, as 10.0.0.7/16");
      asked_.address.ip = *ip;
      asked_.address.prefix_bits = bits;
      has_ip_ = true;
    } else if (key == "mac") {
      const auto mac = MacIn(value);
      if (!mac) return Wrong("mac is six bytes, as 02:00:00:00:00:07, and of one station");
      asked_.address.mac = *mac;
      has_mac_ = true;
    } else if (key == "gateway") {
      asked_.address.gateway = Ipv4In(value);
      if (!asked_.address.gateway) Wrong("gateway is an IPv4 address");
    } else {
      arguments_ += fmt::format(",{}={}", key, value);
      has_role_ |= key == "role";
    }
  }

  StatusOr<AskedDevice> Done(size_t number) {
    if (kind_ == nullptr) return asked_;
    if (wrong_.empty() && !has_ip_) Wrong("it needs ip=ADDRESS/BITS behind it");
    if (!wrong_.empty())
      return MakeStatus(StatusCode::kInvalidArgument, fmt::format("{}: {}", said_, wrong_));
    asked_.device = fmt::format(fmt::runtime(kind_->form), number, where_);
    if (kind_->name == "memif" && !has_role_) asked_.device += ",role=client";
    asked_.device += arguments_;
    if (!has_mac_) asked_.address.mac = MacOf(asked_.address.ip);
    return asked_;
  }

 private:
  void Wrong(const std::string& why) {
    if (wrong_.empty()) wrong_ = why;
  }

  AskedDevice asked_;
  std::string said_;
  const Kind* kind_;
  std::string where_, arguments_, wrong_;
  bool has_ip_ = false, has_mac_ = false, has_role_ = false;
};

}  // namespace

std::vector<StatusOr<AskedDevice>> ParseAskedDevices(std::string_view text) {
  std::vector<Reader> readers;
  while (!text.empty()) {
    const std::string entry(text.substr(0, text.find(',')));
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
    if (entry.empty()) continue;
    const size_t equals = entry.find('=');
    const std::string before = equals == std::string::npos ? "" : entry.substr(0, equals);
    const std::string behind = equals == std::string::npos ? entry : entry.substr(equals + 1);
    if (!readers.empty() && readers.back().takes(before)) {
      readers.back().Word(before, behind);
    } else {
      readers.emplace_back(before, behind);
    }
  }
  std::vector<StatusOr<AskedDevice>> all;
  for (Reader& reader : readers) {
    const size_t number = all.size();
    all.push_back(reader.Done(number));
  }
  return all;
}

}  // namespace epic::softnic
