// How the multicast algorithm's work goes to connections, and back.
#include "commlib/core/host_path.h"

namespace epic {

bool HostPath::NextMulticastReceive(Request* request) {
  MulticastWork work;
  if (!multicast_.NextReceive(&work)) return false;
  if (work.kind == MulticastWork::Kind::kQkey) {
    *request = {.peer = kDatagrams, .verb = HostVerb::kQkey, .imm = work.epoch, .op = first_op_};
    return true;
  }
  const bool is_datagram = work.kind == MulticastWork::Kind::kDatagramRecv;
  Connection* const on = is_datagram ? &datagrams_ : &connections_[work.to_left ? left_ : right_];
  return Give(on, true, work.where, memory_.data() + work.offset, work.length, request);
}

bool HostPath::NextMulticastSend(Request* request) {
  MulticastWork work;
  if (!multicast_.NextSend(connections_[left_].ready, connections_[right_].ready, memory_, &work))
    return false;
  const bool is_datagram = work.kind == MulticastWork::Kind::kDatagram;
  Connection* const on = is_datagram ? &datagrams_ : &connections_[work.to_left ? left_ : right_];
  uint8_t* const address = work.where == Where::kOwn
                               ? memory_.data() + work.offset
                               : Address({.where = work.where, .offset = work.offset, .length = work.length});
  const bool is_read = work.kind == MulticastWork::Kind::kRead;
  Give(on, false, work.where, address, work.length, request, is_read ? HostVerb::kRead : HostVerb::kSend);
  if (is_datagram) request->imm = work.imm;
  request->group = work.group;
  request->remote = {.address = work.remote_address, .rkey = work.rkey};
  return true;
}

void HostPath::OnDatagram(uint64_t wr_id, std::optional<uint32_t> from, uint32_t bytes, uint32_t imm) {
  --posted_;
  if (failed()) return;
  if (wr_id >> 1 != datagrams_.recvs_done || datagrams_.recvs_done == datagrams_.recvs)
    return Fail(Outcome::kDisorder);
  ++datagrams_.recvs_done;
  multicast_.OnDatagram(from, imm, bytes, memory_);
  Advance();
}

}  // namespace epic
