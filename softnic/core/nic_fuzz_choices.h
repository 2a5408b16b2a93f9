// What nic_fuzz makes of its bytes: keys, addresses, requests and packets, mostly such that they mean
// something to the adapter.
#pragma once

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/fuzz_input.h"
#include "roce/transport/transport_testing.h"
#include "softnic/core/nic.h"
#include "softnic/core/nic_fuzz_ends.h"
#include "softnic/core/nic_fuzz_testing.h"
#include "softnic/core/nic_fuzz_windows.h"

namespace epic::softnic::testing {

class Choices {
 public:
  Choices(const uint8_t* data, size_t size) : in_(data, size) {}

 protected:
  uint32_t Next32() {
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value = value << 8 | in_.Next();
    return value;
  }

  End& SomeEnd() { return ends_[in_.Next() % ends_.size()]; }

  // Mostly a key that is or was one, sometimes any number.
  uint32_t SomeKey() {
    const uint8_t how = in_.Next();
    return how < 0xb0 ? mrs_[how % mrs_.size()].key : how < 0xf0 ? windows_.KeyOf(how) : Next32();
  }

  // Mostly in or close to what the key names.
  uint64_t SomeAddress(uint32_t key) {
    const uint8_t how = in_.Next();
    const auto mr = std::ranges::find(mrs_, key, &Mr::key);
    if (how < 0xc0 && mr == mrs_.end()) return windows_.AddressIn(key, how);
    if (how >= 0xf0 || mr == mrs_.end()) return uint64_t{Next32()} << (in_.Next() % 33);
    return kBase + mr->offset + (how < 0x80 ? how : mr->length + how - 0xb0);
  }

  // Mostly one piece, sometimes more than lie in place.
  std::vector<roce::Sge> SomeSges() {
    const uint8_t how = in_.Next();
    std::vector<roce::Sge> sges(how < 0xd0 ? 1 : how % 8);
    for (roce::Sge& sge : sges) {
      sge.lkey = SomeKey();
      sge.address = SomeAddress(sge.lkey);
      sge.length = in_.Next() * 3u;
    }
    return sges;
  }

  // With the pieces as they are in the request.
  std::pair<roce::SendWr, std::vector<roce::Sge>> SomeRequest(uint64_t id) {
    const uint8_t how = in_.Next(), where = in_.Next();
    roce::SendWr wr{.wr_id = id, .opcode = static_cast<roce::WrOpcode>(how % 10)};
    wr.signaled = (where & 1) != 0 || roce::IsReadOrAtomic(wr.opcode);
    wr.fence = (where & 2) != 0;
    wr.solicited = (where & 4) != 0;
    std::vector<roce::Sge> sges = SomeSges();
    wr.sges = roce::SgeList::Of(sges);
    static constexpr std::array<uint8_t, 33> kInline{};
    if (how >= 0xd0) wr.inline_bytes = std::span(kInline).first(how < 0xf8 ? 32 : 33);
    wr.rkey = SomeKey();
    wr.remote_address = SomeAddress(wr.rkey);
    if (roce::IsAtomic(wr.opcode)) SetAtomic(wr);
    const bool v6 = (where & 16) != 0;
    wr.ud = roce::UdAddress{(where & 8) != 0 ? (v6 ? kIp6 : Ip(kIp)) : (v6 ? kPeerIp6 : Ip(kPeerIp)),
                            ends_[in_.Next() % ends_.size()].qpn, kQkey,
                            (where & 32) != 0 ? std::optional<Ip>(kIp6) : std::nullopt};
    wr.invalidate_rkey = wr.rkey;
    if (roce::IsLocal(wr.opcode)) SetLocal(wr);
    return {wr, std::move(sges)};
  }

  void SetLocal(roce::SendWr& wr) {
    wr.signaled = true;
    wr.inline_bytes = {};
    const roce::Sge first = wr.sges.count > 0 ? wr.sges[0] : roce::Sge{};
    wr.sges.count = 0;
    if (wr.opcode != roce::WrOpcode::kBindMw) return;
    const uint8_t which = in_.Next();
    roce::WindowBind& bind = wr.bind.emplace(windows_.SomeBind(which, which >> 4));
    // Mostly a part of the first region, or of the third, which peers may use by windows only.
    const uint8_t how = in_.Next();
    const size_t region = (how & 1) != 0 ? 0 : 2;
    if (how < 0xe0) {
      bind.lkey = mrs_[region].key;
      bind.address = kBase + FixedOffset(region) + in_.Next();
      bind.length = 1 + in_.Next();
    } else {
      bind.lkey = first.lkey;
      bind.address = first.address;
      bind.length = first.length;
    }
  }

  void SetAtomic(roce::SendWr& wr) {
    const uint8_t how = in_.Next();
    if ((how & 1) != 0) wr.remote_address &= ~uint64_t{7};
    const bool swaps = wr.opcode == roce::WrOpcode::kCompareSwap;
    wr.compare_add = !swaps ? 0 : (how & 2) != 0 ? kOrdinaryWord : kArrivingWord;
    wr.swap = (how & 4) != 0 ? kOrdinaryWord : kArrivingWord;
  }

  // Mostly the one that is due.
  uint32_t SomePsn(uint32_t due) {
    const uint8_t how = in_.Next();
    return how < 0x80 ? due : how < 0xf0 ? due + (how & 0xf) - 8 : Next32();
  }

  static roce::testing::OwnedPacket From(const End& end) {
    roce::testing::OwnedPacket packet;
    packet.head.src_ip = end.peer_ip;
    packet.head.dst_ip = end.own_ip;
    packet.head.bth.dest_qp = end.qpn;
    return packet;
  }

  // A packet of the end's peer, or nothing. Those of RC, or of UC; sometimes of the other one.
  std::optional<roce::testing::OwnedPacket> SomePacket(End& end) {
    const uint8_t flags = in_.Next(), operation = in_.Next();
    roce::testing::OwnedPacket packet = From(end);
    roce::Packet& p = packet.head;
    const bool uc = (end.type == QpType::kUc) != (operation >= 0xf0);
    p.bth.opcode = operation == 0xff ? roce::Opcode::kCnp : roce::Opcode{uint8_t(operation % 0x18)};
    if (uc && p.bth.opcode <= roce::Opcode::kRcWriteOnlyImm) p.bth.opcode = roce::UcOf(p.bth.opcode);
    const roce::OpcodeInfo& info = roce::Info(p.bth.opcode);
    if (!info.known) return std::nullopt;
    p.bth.ack_req = (flags & 1) != 0;
    p.bth.solicited = (flags & 2) != 0;
    p.tos = (flags & 32) != 0 ? 3 : 0;
    const bool response = info.aeth || p.bth.opcode == roce::Opcode::kRcReadResponseMiddle;
    p.bth.psn = Psn(SomePsn(response ? end.sent_psn : end.next_psn));
    p.aeth.syndrome = (flags & 4) != 0 ? roce::kSyndromeAck : in_.Next();
    const size_t bytes = !info.payload ? 0 : (flags & 8) != 0 ? kMtu : in_.Next() * 2u;
    packet.payload.assign(bytes, kArriving);
    if (info.reth) {
      p.reth.rkey = SomeKey();
      p.reth.virtual_address = SomeAddress(p.reth.rkey);
      const uint32_t more = info.only && info.payload ? 0 : in_.Next() * 4u;
      p.reth.dma_length = (flags & 16) != 0 ? static_cast<uint32_t>(bytes) + more : Next32();
    }
    if (info.atomic_eth) {
      roce::SendWr same{.opcode = p.bth.opcode == roce::Opcode::kRcCompareSwap ? roce::WrOpcode::kCompareSwap
                                                                               : roce::WrOpcode::kFetchAdd};
      same.rkey = SomeKey();
      same.remote_address = SomeAddress(same.rkey);
      SetAtomic(same);
      const bool swaps = same.opcode == roce::WrOpcode::kCompareSwap;
      p.atomic = {same.remote_address, same.rkey, swaps ? same.swap : same.compare_add,
                  swaps ? same.compare_add : 0};
    }
    if (info.atomic_ack_eth) p.original = kArrivingWord;
    if (info.ieth) p.invalidate_rkey = SomeKey();
    const bool in_order = response || p.bth.opcode == roce::Opcode::kCnp;
    if (end.exists && end.type != QpType::kUd && !in_order) end.next_psn = p.bth.psn.raw() + 1;
    return packet;
  }

  // The answer of the end's peer to the last request that it was sent: an acknowledgement, what an atomic
  // found, or the responses to a Read.
  std::vector<roce::testing::OwnedPacket> AnswersTo(const End& end) {
    roce::testing::OwnedPacket packet = From(end);
    packet.head.bth.psn = Psn(end.sent_psn);
    packet.head.aeth.syndrome = roce::kSyndromeAck;
    packet.head.original = kArrivingWord;
    const bool atomic =
        end.sent_opcode == roce::Opcode::kRcCompareSwap || end.sent_opcode == roce::Opcode::kRcFetchAdd;
    packet.head.bth.opcode = atomic ? roce::Opcode::kRcAtomicAck : roce::Opcode::kRcAck;
    if (end.sent_opcode != roce::Opcode::kRcReadRequest) return {packet};
    std::vector<roce::testing::OwnedPacket> all;
    uint32_t left = std::min<uint32_t>(end.sent_bytes, 16 * kMtu);
    do {
      const bool first = all.empty(), last = left <= kMtu;
      packet.head.bth.opcode = first && last ? roce::Opcode::kRcReadResponseOnly
                               : first       ? roce::Opcode::kRcReadResponseFirst
                               : last        ? roce::Opcode::kRcReadResponseLast
                                             : roce::Opcode::kRcReadResponseMiddle;
      packet.payload.assign(std::min(left, kMtu), kArriving);
      left -= static_cast<uint32_t>(packet.payload.size());
      all.push_back(packet);
      packet.head.bth.psn = packet.head.bth.psn + 1;
    } while (left > 0);
    return all;
  }

  roce::testing::OwnedPacket SomeDatagram() {
    const uint8_t flags = in_.Next();
    const bool group = (flags & 1) != 0, v6 = (flags & 8) != 0;
    roce::testing::OwnedPacket packet;
    roce::Packet& p = packet.head;
    p.src_ip = v6 ? kPeerIp6 : Ip(kPeerIp);
    p.dst_ip = group ? (v6 ? kGroup6 : Ip(kGroup)) : (v6 ? kIp6 : Ip(kIp));
    p.bth.opcode = (flags & 2) != 0 ? roce::Opcode::kUdSendOnly : roce::Opcode::kUdSendOnlyImm;
    p.bth.dest_qp = group ? roce::kMulticastQpn : SomeEnd().qpn;
    p.deth = {(flags & 4) != 0 ? kQkey : Next32(), kPeerQpn};
    packet.payload.assign(in_.Next() * 2u, kArriving);
    return packet;
  }

  FuzzInput in_;
  std::vector<uint8_t> arena_ = std::vector<uint8_t>(kArena), shadow_;
  Nic nic_{kIp, kMtu, roce::Policy{}};
  FuzzWindows windows_{nic_.memory()};
  std::vector<Mr> mrs_;
  std::array<End, kEnds> ends_ = AllEnds();
};

}  // namespace epic::softnic::testing
