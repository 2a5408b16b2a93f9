#include "io/dpdk/guard.h"

#include <array>
#include <csignal>
#include <utility>

namespace epic::io::dpdk {
namespace {

// Of this kind, so that to look at it in a signal's handler allocates nothing.
__attribute__((tls_model("initial-exec"))) thread_local sigjmp_buf* back_of_thread = nullptr;

constexpr std::array<int, 2> kFaults = {SIGSEGV, SIGBUS};
std::array<struct sigaction, kFaults.size()> former;

void OnFault(int signal, siginfo_t*, void*) {
  if (back_of_thread != nullptr) siglongjmp(*back_of_thread, 1);
  // Somebody else's: it comes again, and finds what was here before.
  for (size_t i = 0; i < kFaults.size(); ++i) {
    if (kFaults[i] == signal) sigaction(signal, &former[i], nullptr);
  }
}

}  // namespace

void WatchForFaults() {
  struct sigaction action {};
  action.sa_sigaction = OnFault;
  // No mask has to be put back after the jump.
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  for (size_t i = 0; i < kFaults.size(); ++i) sigaction(kFaults[i], &action, &former[i]);
}

namespace guard_detail {

void Set(sigjmp_buf* back) { back_of_thread = back; }

}  // namespace guard_detail
}  // namespace epic::io::dpdk
