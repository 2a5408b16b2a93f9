// The rdma_rxe end of a connection, with plain libibverbs: the first device, one region of memory, one queue
// pair to our end.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace epic::rxe_peer {

struct Connection {
  ibv_context* context = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;  // `bytes` of memory, open to the peer
  ibv_qp* qp = nullptr;  // in INIT, then RTS

  uint8_t* memory() const { return static_cast<uint8_t*>(mr->addr); }
};

// Says what went wrong, and ends the program.
[[noreturn]] void Die(const char* what);

// Everything up to INIT. `memory` is aligned to a page.
Connection Open(void* memory, size_t bytes, ibv_qp_type type = IBV_QPT_RC);
// Prints "qpn rkey address", with which the other end is started, behind `what`.
void Announce(const Connection& connection, const char* what = "");
// As in ibv_qp_attr; only of RC.
struct Retries {
  uint8_t timeout = 0, retry_cnt = 0;
};
// To RTS, when the peer answers ARP.
void Connect(const Connection& connection, const char* peer, uint32_t qpn, const Retries& retries);

// A line on standard input: our end is there. That it answers ARP does not say so, the guest may know its
// address.
void WaitForLine();
// Our end closes standard input when it wants no more answers.
void WaitForEndOfInput();

}  // namespace epic::rxe_peer
