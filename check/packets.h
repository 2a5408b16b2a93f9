// The packets of a run, each kept once. Two are the same if no receiver can tell them apart: UDP source port,
// TOS and TTL do not count.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <tuple>

#include "check/archive.h"
#include "check/blobs.h"
#include "roce/packet.h"

namespace epic::check {

using PacketId = uint32_t;

class Packets {
 public:
  PacketId Intern(const roce::Packet& p) {
    std::string key;
    Writer writer(key, payloads_, 0);
    writer.Numbers(p.src_ip.v4(), p.dst_ip.v4(), p.bth.opcode, p.bth.solicited, p.bth.fecn, p.bth.becn,
                   p.bth.pkey, p.bth.dest_qp, p.bth.ack_req, p.aeth.syndrome, p.aeth.msn, p.imm);
    writer.Number(p.bth.psn);
    writer.Blob(p.payload);
    if (roce::Info(p.bth.opcode).reth) writer.Numbers(p.reth.virtual_address, p.reth.rkey, p.reth.dma_length);
    const uint32_t id = keys_.Intern(key);
    if (id == packets_.size()) {
      packets_.push_back(p);
      packets_.back().payload = AsBytes(payloads_[payloads_.Intern(AsChars(p.payload))]);
    }
    return id;
  }
  // An order that is the same in every run, whichever packet was seen first: by place in the stream of PSNs,
  // then by all else.
  bool Before(PacketId a, PacketId b) const {
    const auto key = [](const roce::Packet& p) {
      return std::tuple(p.bth.psn.DistanceFrom(kOrigin), p.bth.opcode, Raw(p.dst_ip.v4()), Raw(p.src_ip.v4()),
                        Raw(p.bth.dest_qp), p.aeth.syndrome, p.aeth.msn, p.bth.ack_req, p.bth.solicited,
                        p.bth.fecn, p.bth.becn, p.bth.pkey, p.imm, p.reth.virtual_address);
    };
    const roce::Packet& one = packets_[a];
    const roce::Packet& other = packets_[b];
    if (const auto order = key(one) <=> key(other); order != 0) return order < 0;
    return std::ranges::lexicographical_compare(one.payload, other.payload);
  }
  // Valid as long as the table; so is its payload.
  const roce::Packet& operator[](PacketId id) const { return packets_[id]; }
  size_t size() const { return packets_.size(); }

 private:
  // Distances are taken from here. Streams begin near it unless told otherwise, and anywhere else will do.
  static constexpr Psn kOrigin{0};

  Blobs keys_;
  Blobs payloads_;
  std::deque<roce::Packet> packets_;
};

}  // namespace epic::check
