// The packets of a run, each kept once. Two are the same if no receiver can tell them apart: UDP source port,
// TOS and TTL do not count.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

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
    writer.Numbers(p.src_ip, p.dst_ip, p.bth.opcode, p.bth.solicited, p.bth.fecn, p.bth.becn, p.bth.pkey,
                   p.bth.dest_qp, p.bth.ack_req, p.aeth.syndrome, p.aeth.msn, p.imm);
    writer.Number(p.bth.psn);
    writer.Blob(p.payload);
    const uint32_t id = keys_.Intern(key);
    if (id == packets_.size()) {
      packets_.push_back(p);
      packets_.back().payload = AsBytes(payloads_[payloads_.Intern(AsChars(p.payload))]);
    }
    return id;
  }
  // Valid as long as the table; so is its payload.
  const roce::Packet& operator[](PacketId id) const { return packets_[id]; }
  size_t size() const { return packets_.size(); }

 private:
  Blobs keys_;
  Blobs payloads_;
  std::deque<roce::Packet> packets_;
};

}  // namespace epic::check
