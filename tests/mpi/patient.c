/* Loaded before a rank (LD_PRELOAD): one that has found nothing to do for a while sleeps before it looks again. Ranks of both
 * MPIs look again at once, and twelve that wait on two processors are in the way of those for whom they wait. What they see is
 * the same, some tens of microseconds later. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

enum { kLooks = 200, kPauseNs = 50000, kYieldPauseNs = 150000, kLongPauses = 10, kLongPauseNs = 400000, kOwnNs = 1000000 };

int opal_progress(void);
unsigned ucp_worker_progress(void* worker);

static long now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000 + now.tv_nsec;
}

static void pause_for(long ns) {
  clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = ns}, NULL);
}

/* One look of this thread has ended, and found so much. Who computes in between begins to count anew; who has found nothing
 * for some pauses makes longer ones, since to look takes as long as a short one. */
static void pause_after(long begin, long found) {
  static __thread int looks, pauses;
  static __thread long last_end;
  if (begin - last_end > kOwnNs) looks = 0;
  if (found > 0) pauses = 0;
  if (++looks > kLooks) {
    if (looks == kLooks + 1) prctl(PR_SET_TIMERSLACK, 1000);
    pause_for(++pauses > kLongPauses ? kLongPauseNs : kPauseNs);
  }
  last_end = now_ns();
}

static void* next(const char* name) {
  void* const found = dlsym(RTLD_NEXT, name);
  if (found == NULL) abort();
  return found;
}

/* Where many yield all the time Linux 6.18 leaves daemons waiting for a processor for seconds. */
int sched_yield(void) {
  pause_for(kYieldPauseNs);
  return 0;
}

/* What is EPIC's in a rank sleeps for 20 microseconds at a time when it has yielded for long (mpi/binding/rest.h). */
int nanosleep(const struct timespec* asked_for, struct timespec* left) {
  struct timespec longer = *asked_for;
  if (longer.tv_sec == 0 && longer.tv_nsec < kLongPauseNs) longer.tv_nsec = kLongPauseNs;
  const int error = clock_nanosleep(CLOCK_MONOTONIC, 0, &longer, left);
  if (error == 0) return 0;
  errno = error;
  return -1;
}

/* Of Open MPI. */
int opal_progress(void) {
  static int (*looked)(void);
  if (looked == NULL) *(void**)&looked = next("opal_progress");
  const long begin = now_ns();
  const int events = looked();
  pause_after(begin, events);
  return events;
}

/* Of UCX, for MPICH. */
unsigned ucp_worker_progress(void* worker) {
  static unsigned (*looked)(void*);
  if (looked == NULL) *(void**)&looked = next("ucp_worker_progress");
  const long begin = now_ns();
  const unsigned events = looked(worker);
  pause_after(begin, events);
  return events;
}
