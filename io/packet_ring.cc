#include "io/packet_ring.h"

#include <fmt/format.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "io/virtio_header.h"
#include "roce/wire.h"

namespace epic::io {
namespace {

constexpr size_t kMinBlock = 1 << 16;
// What the kernel puts before a frame: its headers, and up to 16 bytes so that the IP header is aligned.
constexpr size_t kBefore = TPACKET2_HDRLEN + 32 + sizeof(VirtioHeader);

// A checksum that the sender's kernel has left to a device that there is not: made, so that the frame is what
// it would be on a wire.
void FinishChecksum(const VirtioHeader& header, std::span<uint8_t> frame) {
  const size_t start = header.csum_start, at = start + header.csum_offset;
  if (start >= frame.size() || at + 2 > frame.size()) return;
  uint64_t sum = 0;
  for (size_t i = start; i < frame.size(); i += 2) {
    sum += i + 1 < frame.size() ? roce::LoadBe16(&frame[i]) : static_cast<uint64_t>(frame[i]) << 8;
  }
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  const auto checksum = static_cast<uint16_t>(~sum);
  roce::StoreBe16(checksum == 0 ? 0xffff : checksum, &frame[at]);  // 0 would be "none" in UDP
}

// The kernel keeps a VLAN tag beside the frame. There is room before it: the virtio-net header, which has
// been read.
std::span<const uint8_t> PutTagBack(const tpacket2_hdr& header, std::span<uint8_t> frame) {
  constexpr size_t kTag = 4, kAddresses = 12;
  static_assert(sizeof(VirtioHeader) >= kTag);
  if (frame.size() < kAddresses) return frame;
  uint8_t* const at = frame.data() - kTag;
  std::memmove(at, frame.data(), kAddresses);
  const bool known = (header.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0;
  roce::StoreBe16(known ? header.tp_vlan_tpid : uint16_t{ETH_P_8021Q}, at + kAddresses);
  roce::StoreBe16(header.tp_vlan_tci, at + kAddresses + 2);
  return {at, frame.size() + kTag};
}

}  // namespace

PacketRing::~PacketRing() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

Status PacketRing::Map(int fd, size_t bytes, size_t max_frame_bytes, bool virtio) {
  const auto error = [](const char* what) {
    return MakeStatus(StatusCode::kInternal, fmt::format("{}: {}", what, std::strerror(errno)));
  };
  const int version = TPACKET_V2;
  if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version) != 0)
    return error("PACKET_VERSION");
  virtio_ = virtio;
  // Slots do not cross blocks: a block holds a whole number of them, because both are powers of two.
  slot_bytes_ = std::bit_ceil(kBefore + max_frame_bytes);
  const size_t block = std::max(kMinBlock, slot_bytes_);
  bytes_ = std::max(bytes / block, size_t{1}) * block;
  slots_ = bytes_ / slot_bytes_;
  tpacket_req request{};
  request.tp_block_size = static_cast<unsigned>(block);
  request.tp_block_nr = static_cast<unsigned>(bytes_ / block);
  request.tp_frame_size = static_cast<unsigned>(slot_bytes_);
  request.tp_frame_nr = static_cast<unsigned>(slots_);
  if (setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof request) != 0)
    return error("PACKET_RX_RING");
  void* const at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return error("mmap");
  memory_ = static_cast<uint8_t*>(at);
  return Status();
}

tpacket2_hdr* PacketRing::Slot(size_t index) const {
  return reinterpret_cast<tpacket2_hdr*>(memory_ + index * slot_bytes_);
}

bool PacketRing::Ready(uint64_t* time) const {
  if (exhausted()) return false;
  const tpacket2_hdr* const header = Slot(next_);
  if ((__atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER) == 0) return false;
  *time = uint64_t{header->tp_sec} * 1'000'000'000 + header->tp_nsec;
  return true;
}

bool PacketRing::Take(ReceivedFrame* frame) {
  const tpacket2_hdr* const header = Slot(next_);
  next_ = next_ + 1 == slots_ ? 0 : next_ + 1;
  ++taken_;
  uint8_t* at = reinterpret_cast<uint8_t*>(const_cast<tpacket2_hdr*>(header)) + header->tp_mac;
  std::span<uint8_t> bytes(at, header->tp_snaplen);
  const bool cut = header->tp_snaplen < header->tp_len;
  VirtioHeader virtio{};
  if (virtio_) std::memcpy(&virtio, at - sizeof virtio, sizeof virtio);
  *frame = {.bytes = bytes};
  if (virtio.gso_type == kVirtioUdpSegments) {
    frame->segment_bytes = virtio.gso_size;
    return true;  // of one that was cut, the packets that are whole count
  }
  if (cut || virtio.gso_type != kVirtioNoSegments) return false;
  if ((virtio.flags & kVirtioNeedsChecksum) != 0) FinishChecksum(virtio, bytes);
  if (virtio_ && (header->tp_status & TP_STATUS_VLAN_VALID) != 0) frame->bytes = PutTagBack(*header, bytes);
  return true;
}

void PacketRing::Release() {
  for (; taken_ > 0; --taken_) {
    const size_t slot = (next_ + slots_ - taken_) % slots_;
    __atomic_store_n(&Slot(slot)->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
  }
}

}  // namespace epic::io
