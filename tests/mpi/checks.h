/* What the MPI programs of these tests share: counts what is right and what is not. */
#ifndef EPIC_TESTS_MPI_CHECKS_H_
#define EPIC_TESTS_MPI_CHECKS_H_

#include <stdio.h>
#include <string.h>

static int checks_made, checks_wrong;

/* The first few that are wrong are told. */
static inline void right(const char* what, int is_right) {
  ++checks_made;
  if (!is_right && checks_wrong++ < 10) fprintf(stderr, "wrong: %s\n", what);
}

static inline void same(const char* call, const char* what, const void* got, const void* want, size_t bytes) {
  char text[160];
  snprintf(text, sizeof text, "%s: %s", call, what);
  right(text, memcmp(got, want, bytes) == 0);
}

/* A line of a rank: "rank 0: 1234 checks, 0 wrong". Returns an exit status. */
static inline int tell_checks(int rank) {
  printf("rank %d: %d checks, %d wrong\n", rank, checks_made, checks_wrong);
  fflush(stdout);
  return checks_made == 0 || checks_wrong != 0;
}

#endif
