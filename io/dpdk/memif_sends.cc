#include "io/dpdk/memif_sends.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>

#include "base/imports.h"

namespace epic::io::dpdk {
namespace {

ssize_t Send(int socket, const msghdr* message, int flags) {
  const ssize_t sent = sendmsg(socket, message, flags | MSG_NOSIGNAL);
  if (sent >= 0 || (errno != EPIPE && errno != ECONNRESET)) return sent;
  size_t bytes = 0;
  for (size_t i = 0; i < message->msg_iovlen; ++i) bytes += message->msg_iov[i].iov_len;
  return static_cast<ssize_t>(bytes);
}

}  // namespace

bool ForgiveMemifSends() {
  const Import send[] = {{"sendmsg", reinterpret_cast<void*>(&Send)}};
  return ReplaceImports("librte_net_memif.so", send) > 0;
}

}  // namespace epic::io::dpdk
