// An end of an unreliable exchange with plain libibverbs, of rdma_rxe or of softnic. Prints "qpn rkey
// address", reads the other end's three numbers (its side is 0 or 1, and the other's the other), with "wait"
// prints "connected" and reads a line before it sends, since what comes before the other end is connected is
// lost, and prints "sent" when it has sent all, "all" when all have come, and at the end of its input "ok
// arrived N" or what was wrong.
#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/rxe_peer/verbs_uc.h"

namespace epic::rxe_peer {
namespace {

// Until the input ends. A message a millisecond: what is lost shall be lost on the way, not in a queue.
bool Run(VerbsUc& end) {
  UcExchange& exchange = end.exchange();
  pollfd input{STDIN_FILENO, POLLIN, 0};
  while (poll(&input, 1, 1) == 0) {
    if (!end.Take()) return false;
    end.Send();
    exchange.Tell();
  }
  std::printf("%s arrived %d\n", exchange.wrong() == 0 ? "ok" : "failed", exchange.arrived());
  return exchange.wrong() == 0;
}

// Of the input, which is read no further.
std::string ReadLine() {
  std::string line;
  for (char byte = 0; read(STDIN_FILENO, &byte, 1) > 0 && byte != '\n';) line += byte;
  return line;
}

}  // namespace
}  // namespace epic::rxe_peer

int main(int argc, char** argv) {
  using namespace epic::rxe_peer;
  const bool waits = argc == 4 && std::string(argv[3]) == "wait";
  if (argc != 3 && !waits) {
    std::fprintf(stderr, "usage: uc_end PEER-ADDRESS SIDE [wait]\n");
    return 2;
  }
  VerbsUc end(std::atoi(argv[2]));
  Announce(end.connection());
  const std::string line = ReadLine();
  UcPeer peer;
  if (std::sscanf(line.c_str(), "%u %u %llu", &peer.qpn, &peer.rkey, &peer.memory) != 3) Die("no peer");
  end.Connect(argv[1], peer);
  if (waits) {
    std::printf("connected\n");
    std::fflush(stdout);
    ReadLine();
  }
  return Run(end) ? 0 : 1;
}
