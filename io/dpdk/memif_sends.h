// What DPDK's memif driver sends to a peer that has gone.
#pragma once

namespace epic::io::dpdk {

// From now on the driver takes a message to a peer that has gone as sent, if the driver is loaded. DPDK 22.11's
// listener closes the socket of one that has gone before it was greeted, and leaves the descriptor to the
// thread that waits by it, which ends the process: "PANIC in eal_intr_thread_main". The next look at a socket
// finds that its peer has gone, and with that the driver can deal. False: the driver's calls cannot be
// replaced here.
bool ForgiveMemifSends();

}  // namespace epic::io::dpdk
