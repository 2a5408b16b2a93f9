// One end of the unreliable exchange with plain libibverbs, of rdma_rxe or of softnic: a queue pair with its
// memory, which says what uc_exchange.h has it say.
#pragma once

#include <string>

#include "tests/rxe_peer/rxe_connection.h"
#include "tests/rxe_peer/uc_exchange.h"

namespace epic::rxe_peer {

// Of the other end.
struct UcPeer {
  uint32_t qpn = 0, rkey = 0;
  unsigned long long memory = 0;
};

class VerbsUc {
 public:
  // Up to INIT, with all receives posted.
  explicit VerbsUc(int side);

  // Before it is connected.
  const Connection& connection() const { return connection_; }
  // To RTS, when the peer answers ARP.
  void Connect(const char* address, const UcPeer& peer);

  // Takes what has completed. False if something failed, which it prints.
  bool Take();
  // Sends the next message if there is one, and the one before it has gone.
  void Send();
  UcExchange& exchange() { return exchange_; }

 private:
  void PostReceive(int buffer);

  Connection connection_;
  UcExchange exchange_;
  UcPeer peer_;
};

}  // namespace epic::rxe_peer
