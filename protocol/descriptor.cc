#include "protocol/descriptor.h"

#include <algorithm>
#include <array>

#include "protocol/fields.h"

namespace epic {
namespace {

using fields::Get;
using fields::Put;

constexpr uint8_t kDescriptorVersion = 1;

bool IsZero(std::span<const uint8_t> bytes) {
  return std::ranges::all_of(bytes, [](uint8_t byte) { return byte == 0; });
}

uint64_t PartBytes(const ControlHeader& header) { return header.count * ElementBytes(header.type); }

bool IsSound(const RemoteParts& parts, const ControlHeader& header, bool has_any, bool has_all) {
  if (!has_any) return parts == RemoteParts{};
  const uint64_t bytes = PartBytes(header);
  if (!has_all) return parts.stride == 0 && parts.address <= UINT64_MAX - bytes;
  const uint64_t stride = parts.stride == 0 ? bytes : parts.stride;
  const uint64_t before = header.parts - 1;
  if (stride < bytes || stride > (UINT64_MAX - bytes) / before) return false;
  return parts.address <= UINT64_MAX - bytes - before * stride;
}

uint64_t At(const RemoteParts& parts, const ControlHeader& header, int64_t part, uint64_t offset,
            bool has_all) {
  const uint64_t stride = parts.stride == 0 ? PartBytes(header) : parts.stride;
  return parts.address + (has_all ? static_cast<uint64_t>(part) * stride : 0) + offset;
}

}  // namespace

void Encode(const Descriptor& descriptor, std::span<uint8_t, kDescriptorBytes> out) {
  std::ranges::fill(out, uint8_t{0});
  out[0] = kDescriptorVersion;
  Put(out, 4, descriptor.source.rkey);
  Put(out, 8, descriptor.source.address);
  Put(out, 16, descriptor.source.stride);
  Put(out, 24, descriptor.destination.address);
  Put(out, 32, descriptor.destination.stride);
  Put(out, 40, descriptor.destination.rkey);
}

std::optional<Descriptor> DecodeDescriptor(std::span<const uint8_t> bytes) {
  if (bytes.size() != kDescriptorBytes || bytes[0] != kDescriptorVersion) return std::nullopt;
  if (!IsZero(bytes.subspan(1, 3)) || !IsZero(bytes.subspan(44))) return std::nullopt;
  return Descriptor{.source = {.address = Get<uint64_t>(bytes, 8),
                               .stride = Get<uint64_t>(bytes, 16),
                               .rkey = Get<uint32_t>(bytes, 4)},
                    .destination = {.address = Get<uint64_t>(bytes, 24),
                                    .stride = Get<uint64_t>(bytes, 32),
                                    .rkey = Get<uint32_t>(bytes, 40)}};
}

bool GivesAny(const ControlHeader& header, uint32_t rank) {
  const std::array self = {rank};
  for (int64_t part = 0; part < int64_t{header.parts}; ++part) {
    if (Sends(header, part, self)) return true;
  }
  return false;
}

bool ReceivesAny(const ControlHeader& header, uint32_t rank) {
  const std::array self = {rank};
  for (int64_t part = 0; part < int64_t{header.parts}; ++part) {
    if (Receives(header, part, self)) return true;
  }
  return false;
}

bool GivesAll(const ControlHeader& header) {
  return header.collective == Collective::kReduceScatter && header.parts > 1;
}
bool ReceivesAll(const ControlHeader& header) {
  return header.collective == Collective::kAllGather && header.parts > 1;
}

bool IsSound(const Descriptor& descriptor, const ControlHeader& header, uint32_t rank) {
  return IsSound(descriptor.source, header, GivesAny(header, rank), GivesAll(header)) &&
         IsSound(descriptor.destination, header, ReceivesAny(header, rank), ReceivesAll(header));
}

uint64_t SourceAt(const Descriptor& descriptor, const ControlHeader& header, int64_t part, uint64_t offset) {
  return At(descriptor.source, header, part, offset, GivesAll(header));
}

uint64_t DestinationAt(const Descriptor& descriptor, const ControlHeader& header, int64_t part,
                       uint64_t offset) {
  return At(descriptor.destination, header, part, offset, ReceivesAll(header));
}

}  // namespace epic
