/* What a rank does between two looks while it waits for what others are to do: nothing at first, since an
 * answer mostly comes within microseconds; then it yields, as others may want this processor; after 50 ms of
 * that it sleeps.
 *
 * It does not yield for ever. Where more ranks than processors do that, Linux (6.18, with groups by session)
 * was seen to leave daemons, switches among them, without a processor for eight seconds and more. */
#pragma once

#include <sched.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A wait; zeros at its beginning. */
typedef struct {
  int looks;     /* that it has had, as far as they count */
  int64_t until; /* in nanoseconds: it yields until then */
} EpicMpiWaiting;

static inline void EpicMpiRest(EpicMpiWaiting* waiting) {
  enum { kLooks = 100, kYieldNs = 50000000, kSleepNs = 20000 };
  if (waiting->looks < kLooks) {
    ++waiting->looks;
    return;
  }
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  if (waiting->until == 0) waiting->until = ns + kYieldNs;
  if (ns < waiting->until) {
    (void)sched_yield();
    return;
  }
  const struct timespec sleep = {.tv_sec = 0, .tv_nsec = kSleepNs};
  nanosleep(&sleep, NULL);
}

#ifdef __cplusplus
}
#endif
