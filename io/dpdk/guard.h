// Calls that touch memory which may go away meanwhile: a driver of shared memory takes it away in a thread of
// its own when the peer dies, and reads there whatever the peer has written.
#pragma once

#include <csetjmp>

namespace epic::io::dpdk {

// From now on a call by WithoutFault may fault. Once in a process.
void WatchForFaults();

namespace guard_detail {
// Where this thread goes on after a fault; null: it ends the process, as ever.
void Set(sigjmp_buf* back);
}  // namespace guard_detail

// Makes the call; false if it touched memory that was not there, and it ended in the midst of that. It runs
// no destructors then: it is for a driver's functions, in C, which take no locks.
template <typename Call>
bool WithoutFault(const Call& call) {
  sigjmp_buf back;
  if (sigsetjmp(back, 0) != 0) {
    guard_detail::Set(nullptr);
    return false;
  }
  guard_detail::Set(&back);
  call();
  guard_detail::Set(nullptr);
  return true;
}

}  // namespace epic::io::dpdk
