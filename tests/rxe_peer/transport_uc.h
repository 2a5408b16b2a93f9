// Our end of the unreliable exchange: roce/transport's UC queue pair with memory of its own, at addresses
// from 0 with the key kOurRkey.
#pragma once

#include "roce/transport/uc.h"
#include "tests/rxe_peer/uc_exchange.h"
#include "tests/rxe_peer/wire_end.h"

namespace epic::rxe_peer {

// Of an unreliable queue pair in the guest.
struct UcPeerOptions {
  uint32_t qpn = 0, rkey = 0;
  uint64_t memory = 0;
};

class TransportUc {
 public:
  // In RTS, with all receives posted. `end` says the addresses.
  TransportUc(const EndOptions& end, uint32_t own_qpn, const UcPeerOptions& peer);

  void Hear(const roce::Packet& packet) { uc_.OnPacket(packet, memory_); }
  // Takes what has completed, with `may_send` posts the next message, and sends.
  void Work(bool may_send, roce::PacketSink& sink);
  UcExchange& exchange() { return exchange_; }
  const UcExchange& exchange() const { return exchange_; }
  bool failed() const { return failed_; }
  const roce::UcCounters& counters() const { return uc_.counters(); }

 private:
  void Take(const roce::Completion& done);
  void PostReceive(int buffer);
  void Post(int k);

  UcPeerOptions peer_;
  FlatMemory memory_{UcExchange::kBytes};
  roce::UcQueuePair uc_;
  UcExchange exchange_{0, memory_.bytes};
  bool failed_ = false;
};

}  // namespace epic::rxe_peer
