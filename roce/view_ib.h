// The InfiniBand transport headers (specification 1.4, chapter 9) as views over bytes, each with its value in
// packet.h. A CNP (A17.9.3) is a BTH with BECN and kCnpReservedBytes zeros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "roce/packet.h"
#include "roce/view.h"

namespace epic::roce {

inline constexpr size_t kCnpReservedBytes = 16;

// What the views of fixed-size headers share: Of() checks that the bytes begin with one and ignores the rest.
template <typename View, size_t kSize>
class FixedView {
 public:
  static constexpr size_t kBytes = kSize;
  static std::optional<View> Of(Bytes bytes) {
    if (bytes.size() < kSize) return std::nullopt;
    return View(bytes.data());
  }

 protected:
  explicit FixedView(const uint8_t* bytes) : bytes_(bytes) {}
  const uint8_t* bytes_;
};

class BthView : public FixedView<BthView, 12> {
 public:
  using FixedView::FixedView;
  Opcode opcode() const { return Opcode{bytes_[0]}; }
  size_t pad() const { return bytes_[1] >> 4 & 3; }
  uint8_t tver() const { return bytes_[1] & 0x0f; }
  Bth Value() const {
    return {.opcode = opcode(),
            .solicited = (bytes_[1] & 0x80) != 0,
            .mig_req = (bytes_[1] & 0x40) != 0,
            .fecn = (bytes_[4] & 0x80) != 0,
            .becn = (bytes_[4] & 0x40) != 0,
            .pkey = LoadBe16(bytes_ + 2),
            .dest_qp = Qpn{LoadBe24(bytes_ + 5)},
            .ack_req = (bytes_[8] & 0x80) != 0,
            .psn = Psn(LoadBe24(bytes_ + 9))};
  }
  // pad: 0 to 3.
  static void Write(const Bth& bth, size_t pad, uint8_t* out) {
    out[0] = static_cast<uint8_t>(bth.opcode);
    out[1] = static_cast<uint8_t>((bth.solicited ? 0x80 : 0) | (bth.mig_req ? 0x40 : 0) | pad << 4);
    StoreBe16(bth.pkey, out + 2);
    out[4] = static_cast<uint8_t>((bth.fecn ? 0x80 : 0) | (bth.becn ? 0x40 : 0));
    StoreBe24(Raw(bth.dest_qp), out + 5);
    out[8] = bth.ack_req ? 0x80 : 0;
    StoreBe24(bth.psn.raw(), out + 9);
  }
};

class RethView : public FixedView<RethView, 16> {
 public:
  using FixedView::FixedView;
  Reth Value() const {
    return {.virtual_address = LoadBe64(bytes_),
            .rkey = LoadBe32(bytes_ + 8),
            .dma_length = LoadBe32(bytes_ + 12)};
  }
  static void Write(const Reth& reth, uint8_t* out) {
    StoreBe64(reth.virtual_address, out);
    StoreBe32(reth.rkey, out + 8);
    StoreBe32(reth.dma_length, out + 12);
  }
};

class DethView : public FixedView<DethView, 8> {
 public:
  using FixedView::FixedView;
  Deth Value() const { return {.qkey = LoadBe32(bytes_), .src_qp = Qpn{LoadBe24(bytes_ + 5)}}; }
  static void Write(const Deth& deth, uint8_t* out) {
    StoreBe32(deth.qkey, out);
    out[4] = 0;
    StoreBe24(Raw(deth.src_qp), out + 5);
  }
};

class AethView : public FixedView<AethView, 4> {
 public:
  using FixedView::FixedView;
  Aeth Value() const { return {.syndrome = bytes_[0], .msn = LoadBe24(bytes_ + 1)}; }
  static void Write(const Aeth& aeth, uint8_t* out) {
    out[0] = aeth.syndrome;
    StoreBe24(aeth.msn, out + 1);
  }
};

class AtomicEthView : public FixedView<AtomicEthView, 28> {
 public:
  using FixedView::FixedView;
  AtomicEth Value() const {
    return {.virtual_address = LoadBe64(bytes_),
            .rkey = LoadBe32(bytes_ + 8),
            .swap_or_add = LoadBe64(bytes_ + 12),
            .compare = LoadBe64(bytes_ + 20)};
  }
  static void Write(const AtomicEth& atomic, uint8_t* out) {
    StoreBe64(atomic.virtual_address, out);
    StoreBe32(atomic.rkey, out + 8);
    StoreBe64(atomic.swap_or_add, out + 12);
    StoreBe64(atomic.compare, out + 20);
  }
};

class AtomicAckEthView : public FixedView<AtomicAckEthView, 8> {
 public:
  using FixedView::FixedView;
  uint64_t Value() const { return LoadBe64(bytes_); }
  static void Write(uint64_t original, uint8_t* out) { StoreBe64(original, out); }
};

class IethView : public FixedView<IethView, 4> {
 public:
  using FixedView::FixedView;
  uint32_t Value() const { return LoadBe32(bytes_); }
  static void Write(uint32_t rkey, uint8_t* out) { StoreBe32(rkey, out); }
};

class ImmDtView : public FixedView<ImmDtView, 4> {
 public:
  using FixedView::FixedView;
  uint32_t Value() const { return LoadBe32(bytes_); }
  static void Write(uint32_t imm, uint8_t* out) { StoreBe32(imm, out); }
};

}  // namespace epic::roce
