#include "roce/lldp.h"

#include <algorithm>

#include "base/check.h"
#include "roce/view.h"

namespace epic::roce {
namespace {

enum TlvType : uint8_t {
  kEnd = 0,
  kChassis = 1,
  kPort = 2,
  kTtl = 3,
  kPortDescription = 4,
  kSystemName = 5,
  kSystemDescription = 6,
  kCapabilities = 7,
  kManagement = 8,
  kOrganisation = 127,
};

constexpr size_t kTlvHeaderBytes = 2;
constexpr uint32_t kEpicOui = 0x024550;  // locally administered: 02, 'E', 'P'
constexpr uint8_t kEpicSubtype = 1;
constexpr size_t kEpicHeadBytes = 5;  // OUI, subtype, role
constexpr uint8_t kFamilyIpv4 = 1;    // IANA's address family numbers
constexpr uint8_t kInterfaceUnknown = 1;

std::string_view Text(Bytes value) { return {reinterpret_cast<const char*>(value.data()), value.size()}; }

// Takes what is in one TLV behind the first three.
class Reader {
 public:
  explicit Reader(Lldp* out) : out_(*out) {}

  LldpResult Take(uint8_t type, Bytes value) {
    switch (type) {
      case kChassis:
      case kPort:
      case kTtl:
        return LldpResult::kRepeated;
      case kPortDescription:
        return TakeText(value, &out_.port_description);
      case kSystemName:
        return TakeText(value, &out_.system_name);
      case kSystemDescription:
        return TakeText(value, &out_.system_description);
      case kCapabilities:
        return TakeCapabilities(value);
      case kManagement:
        return TakeManagement(value);
      case kOrganisation:
        return TakeOrganisation(value);
      default:
        return LldpResult::kOk;
    }
  }

 private:
  static LldpResult TakeText(Bytes value, std::optional<std::string_view>* text) {
    if (text->has_value()) return LldpResult::kRepeated;
    if (value.size() > kMaxLldpText) return LldpResult::kBadLength;
    *text = Text(value);
    return LldpResult::kOk;
  }
  LldpResult TakeCapabilities(Bytes value) {
    if (out_.capabilities) return LldpResult::kRepeated;
    if (value.size() != 4) return LldpResult::kBadLength;
    out_.capabilities = {LoadBe16(value.data()), LoadBe16(&value[2])};
    return LldpResult::kOk;
  }
  // Address, preceded by its family and the length of both; interface numbering; object identifier.
  LldpResult TakeManagement(Bytes value) {
    if (value.empty() || value[0] < 2 || value[0] > 32 || value.size() < size_t{value[0]} + 7)
      return LldpResult::kBadLength;
    if (value[1] != kFamilyIpv4 || out_.management) return LldpResult::kOk;
    if (value[0] != 5) return LldpResult::kBadLength;
    out_.management = Ipv4{LoadBe32(&value[2])};
    return LldpResult::kOk;
  }
  LldpResult TakeOrganisation(Bytes value) {
    if (value.size() < 4) return LldpResult::kBadLength;
    if (LoadBe24(value.data()) != kEpicOui || value[3] != kEpicSubtype) return LldpResult::kOk;
    if (out_.role) return LldpResult::kRepeated;
    if (value.size() < kEpicHeadBytes || value.size() > kEpicHeadBytes + kMaxLldpText)
      return LldpResult::kBadLength;
    out_.role = EpicRole{value[4]};
    out_.version = Text(value.subspan(kEpicHeadBytes));
    return LldpResult::kOk;
  }

  Lldp& out_;
};

// A name of a chassis or a port: its kind and 1 to 255 bytes.
bool IsName(Bytes value) { return value.size() >= 2 && value.size() <= 1 + kMaxLldpText; }

// Writes one TLV after the other.
class Writer {
 public:
  explicit Writer(std::span<uint8_t> out) : out_(out) {}

  void Begin(uint8_t type, size_t bytes) {
    StoreBe16(static_cast<uint16_t>(type << 9 | bytes), &out_[at_]);
    at_ += kTlvHeaderBytes;
  }
  void Byte(uint8_t value) { out_[at_++] = value; }
  void Half(uint16_t value) {
    StoreBe16(value, &out_[at_]);
    at_ += 2;
  }
  void Word(uint32_t value) {
    StoreBe32(value, &out_[at_]);
    at_ += 4;
  }
  void Put(std::string_view text) {
    std::copy(text.begin(), text.end(), &out_[at_]);
    at_ += text.size();
  }
  void Named(uint8_t type, uint8_t kind, std::string_view name) {
    EPIC_CHECK(!name.empty() && name.size() <= kMaxLldpText);
    Begin(type, 1 + name.size());
    Byte(kind);
    Put(name);
  }
  void MaybeText(uint8_t type, const std::optional<std::string_view>& text) {
    if (!text) return;
    EPIC_CHECK(text->size() <= kMaxLldpText);
    Begin(type, text->size());
    Put(*text);
  }
  size_t bytes() const { return at_; }

 private:
  std::span<uint8_t> out_;
  size_t at_ = EthernetView::kBytes;
};

std::optional<MacAddress> MacOf(std::string_view name) {
  MacAddress mac{};
  if (name.size() != mac.size()) return std::nullopt;
  std::copy(name.begin(), name.end(), mac.begin());
  return mac;
}

}  // namespace

bool IsLldpAddress(const MacAddress& dst) {
  if (dst == kHelloMac) return true;
  if (!std::equal(dst.begin(), dst.end() - 1, kLldpMac.begin())) return false;
  return dst[5] == 0x00 || dst[5] == 0x03 || dst[5] == 0x0e;
}

const char* Name(LldpResult result) {
  switch (result) {
    case LldpResult::kOk:
      return "ok";
    case LldpResult::kNotLldp:
      return "not_lldp";
    case LldpResult::kTruncated:
      return "truncated";
    case LldpResult::kWrongOrder:
      return "wrong_order";
    case LldpResult::kRepeated:
      return "repeated";
    case LldpResult::kBadLength:
      return "bad_length";
    case LldpResult::kCount:
      break;
  }
  return "unknown";
}

std::optional<MacAddress> ChassisMac(const Lldp& lldp) {
  return lldp.chassis_kind == ChassisKind::kMac ? MacOf(lldp.chassis) : std::nullopt;
}

LldpResult ParseLldp(std::span<const uint8_t> frame, Lldp* out) {
  const auto ethernet = EthernetView::Of(frame);
  if (!ethernet || ethernet->vlan() || ethernet->ether_type() != kEtherTypeLldp) return LldpResult::kNotLldp;
  Lldp read{.dst = ethernet->dst(), .src = ethernet->src()};
  Reader reader(&read);
  Bytes rest = ethernet->payload();
  // Whoever pads a frame pads with zeros, which are an end; without padding the frame's end is one too.
  for (size_t number = 0;; ++number) {
    if (number >= 3 && rest.empty()) break;
    if (rest.size() < kTlvHeaderBytes) return LldpResult::kTruncated;
    const uint16_t head = LoadBe16(rest.data());
    const auto type = static_cast<uint8_t>(head >> 9);
    const size_t bytes = head & 0x1ff;
    if (rest.size() < kTlvHeaderBytes + bytes) return LldpResult::kTruncated;
    const Bytes value = rest.subspan(kTlvHeaderBytes, bytes);
    rest = rest.subspan(kTlvHeaderBytes + bytes);
    if (number < 3) {
      if (type != kChassis + number) return LldpResult::kWrongOrder;
      if (type == kTtl ? bytes < 2 : !IsName(value)) return LldpResult::kBadLength;
    }
    if (number == 0) {
      read.chassis_kind = ChassisKind{value[0]};
      read.chassis = Text(value.subspan(1));
    } else if (number == 1) {
      read.port_kind = PortKind{value[0]};
      read.port = Text(value.subspan(1));
    } else if (number == 2) {
      read.ttl_s = LoadBe16(value.data());
    } else if (type == kEnd) {
      break;
    } else if (const LldpResult result = reader.Take(type, value); result != LldpResult::kOk) {
      return result;
    }
  }
  *out = read;
  return LldpResult::kOk;
}

size_t WriteLldp(const Lldp& lldp, std::span<uint8_t> out) {
  EPIC_CHECK(out.size() >= kMaxLldpFrameBytes);
  EthernetHeader{lldp.dst, lldp.src, std::nullopt, kEtherTypeLldp}.Write(out.data());
  Writer writer(out);
  writer.Named(kChassis, static_cast<uint8_t>(lldp.chassis_kind), lldp.chassis);
  writer.Named(kPort, static_cast<uint8_t>(lldp.port_kind), lldp.port);
  writer.Begin(kTtl, 2);
  writer.Half(lldp.ttl_s);
  writer.MaybeText(kPortDescription, lldp.port_description);
  writer.MaybeText(kSystemName, lldp.system_name);
  writer.MaybeText(kSystemDescription, lldp.system_description);
  if (lldp.capabilities) {
    writer.Begin(kCapabilities, 4);
    writer.Half(lldp.capabilities->has);
    writer.Half(lldp.capabilities->enabled);
  }
  if (lldp.management) {
    writer.Begin(kManagement, 12);
    writer.Byte(5);
    writer.Byte(kFamilyIpv4);
    writer.Word(Raw(*lldp.management));
    writer.Byte(kInterfaceUnknown);
    writer.Word(0);
    writer.Byte(0);
  }
  if (lldp.role) {
    EPIC_CHECK(lldp.version.size() <= kMaxLldpText);
    writer.Begin(kOrganisation, kEpicHeadBytes + lldp.version.size());
    writer.Byte(kEpicOui >> 16);
    writer.Half(kEpicOui & 0xffff);
    writer.Byte(kEpicSubtype);
    writer.Byte(static_cast<uint8_t>(*lldp.role));
    writer.Put(lldp.version);
  }
  writer.Begin(kEnd, 0);
  return writer.bytes();
}

}  // namespace epic::roce
