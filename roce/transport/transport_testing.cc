#include "roce/transport/transport_testing.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace epic::roce::testing {

std::optional<std::span<uint8_t>> FlatMemory::Map(Access access, uint32_t key, uint64_t address,
                                                  uint32_t length) {
  for (Region& r : regions_) {
    if (r.key != key || address < r.address) continue;
    if (access == Access::kRemoteRead && !r.remote_read) return std::nullopt;
    if (access == Access::kRemoteWrite && !r.remote_write) return std::nullopt;
    if (access == Access::kRemoteAtomic && !r.remote_atomic) return std::nullopt;
    if (access == Access::kLocalWrite && !r.local_write) return std::nullopt;
    const uint64_t offset = address - r.address;
    if (offset > r.bytes.size() || length > r.bytes.size() - offset) return std::nullopt;
    return std::span(r.bytes).subspan(offset, length);
  }
  return std::nullopt;
}

bool FlatMemory::Bind(const WindowBind& bind) {
  const auto window = windows_.find(bind.rkey);
  return window != windows_.end() && !std::exchange(window->second, true);
}

bool FlatMemory::Invalidate(uint32_t rkey) {
  const auto window = windows_.find(rkey);
  return window != windows_.end() && std::exchange(window->second, false);
}

FlatMemory::Region& FlatMemory::Add(uint32_t key, uint64_t address, size_t bytes, bool remote) {
  regions_.push_back({.key = key,
                      .address = address,
                      .remote_read = remote,
                      .remote_write = remote,
                      .remote_atomic = remote});
  regions_.back().bytes.resize(bytes);
  return regions_.back();
}

FlatMemory::Region& FlatMemory::region(uint32_t key) {
  const auto found = std::ranges::find(regions_, key, &Region::key);
  EPIC_CHECK(found != regions_.end());
  return *found;
}

void FlatMemory::Remove(uint32_t key) {
  std::erase_if(regions_, [key](const Region& r) { return r.key == key; });
}

QueuePair Connected(const Wiring& w) {
  QpConfig config;
  config.local_ip = w.mirrored ? kRemoteIp : kLocalIp;
  config.local_qpn = w.mirrored ? kRemoteQpn : kLocalQpn;
  config.policy = w.policy;
  QueuePair qp(config);
  EPIC_CHECK(qp.Modify({.state = QpState::kInit,
                        .remote_read = true,
                        .remote_write = true,
                        .remote_atomic = w.remote_atomic}) == ModifyResult::kOk);
  QpChange rtr;
  rtr.state = QpState::kRtr;
  rtr.remote_ip = w.mirrored ? kLocalIp : kRemoteIp;
  rtr.remote_qpn = w.mirrored ? kLocalQpn : kRemoteQpn;
  rtr.path_mtu = w.path_mtu;
  rtr.rq_psn = Psn(w.mirrored ? w.sq_psn : w.rq_psn);
  rtr.max_dest_rd_atomic = w.rd_atomic;
  rtr.min_rnr_timer = w.min_rnr_timer;
  EPIC_CHECK(qp.Modify(rtr) == ModifyResult::kOk);
  QpChange rts;
  rts.state = QpState::kRts;
  rts.sq_psn = Psn(w.mirrored ? w.rq_psn : w.sq_psn);
  rts.timeout = w.timeout;
  rts.retry_cnt = w.retry_cnt;
  rts.rnr_retry = w.rnr_retry;
  rts.max_rd_atomic = w.rd_atomic;
  EPIC_CHECK(qp.Modify(rts) == ModifyResult::kOk);
  return qp;
}

SgeList OneSge(uint64_t address, uint32_t length, uint32_t lkey) {
  SgeList list;
  list.count = 1;
  list.sge[0] = {address, length, lkey};
  return list;
}

const char* OpcodeName(Opcode opcode) {
  switch (opcode) {
    case Opcode::kRcSendFirst:
      return "SEND_FIRST";
    case Opcode::kRcSendMiddle:
      return "SEND_MIDDLE";
    case Opcode::kRcSendLast:
      return "SEND_LAST";
    case Opcode::kRcSendLastImm:
      return "SEND_LAST_IMM";
    case Opcode::kRcSendOnly:
      return "SEND_ONLY";
    case Opcode::kRcSendOnlyImm:
      return "SEND_ONLY_IMM";
    case Opcode::kRcWriteFirst:
      return "WRITE_FIRST";
    case Opcode::kRcWriteMiddle:
      return "WRITE_MIDDLE";
    case Opcode::kRcWriteLast:
      return "WRITE_LAST";
    case Opcode::kRcWriteLastImm:
      return "WRITE_LAST_IMM";
    case Opcode::kRcWriteOnly:
      return "WRITE_ONLY";
    case Opcode::kRcWriteOnlyImm:
      return "WRITE_ONLY_IMM";
    case Opcode::kRcReadRequest:
      return "READ_REQUEST";
    case Opcode::kRcReadResponseFirst:
      return "READ_RESPONSE_FIRST";
    case Opcode::kRcReadResponseMiddle:
      return "READ_RESPONSE_MIDDLE";
    case Opcode::kRcReadResponseLast:
      return "READ_RESPONSE_LAST";
    case Opcode::kRcReadResponseOnly:
      return "READ_RESPONSE_ONLY";
    case Opcode::kRcAck:
      return "ACK";
    case Opcode::kRcAtomicAck:
      return "ATOMIC_ACK";
    case Opcode::kRcCompareSwap:
      return "COMPARE_SWAP";
    case Opcode::kRcFetchAdd:
      return "FETCH_ADD";
    case Opcode::kRcSendLastInv:
      return "SEND_LAST_INV";
    case Opcode::kRcSendOnlyInv:
      return "SEND_ONLY_INV";
    case Opcode::kCnp:
      return "CNP";
    default:
      return "?";
  }
}

}  // namespace epic::roce::testing
