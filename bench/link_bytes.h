// How many bytes a network device has sent and received, as the kernel counts them: whether calls of a
// collective have gone over a host's link at all. Plain C, for epic-perf and for bench/compare's programs of
// MPI and Gloo.
#pragma once

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

// With headers, from where the device's driver has them: of a segment that the kernel is to cut, one.
struct LinkBytes {
  uint64_t sent, received;
};

// The counters of `device` in `table`, a file like /proc/net/dev. 0, or -1 if the table has no such device or
// cannot be read; *bytes is then as it was.
static inline int ReadLinkBytes(const char* table, const char* device, struct LinkBytes* bytes) {
  FILE* const file = fopen(table, "r");
  if (file == NULL) return -1;
  char line[512];
  int found = -1;
  while (found != 0 && fgets(line, sizeof(line), file) != NULL) {
    char name[64];
    struct LinkBytes here;
    // Of what is received there are eight columns, bytes first, then of what is sent.
    if (sscanf(line, " %63[^:]: %" SCNu64 " %*u %*u %*u %*u %*u %*u %*u %" SCNu64, name, &here.received,
               &here.sent) == 3 &&
        strcmp(name, device) == 0) {
      *bytes = here;
      found = 0;
    }
  }
  fclose(file);
  return found;
}

// The counters of `device` in this process's network, after all ranks have met, so that what they had sent
// has come. A device's driver counts a batch of packets when it has handed on the last of them, which may be
// after a rank has had them: it has 10 ms for that.
static inline int CountLinkBytes(const char* device, struct LinkBytes* bytes) {
  const struct timespec batch = {0, 10 * 1000 * 1000};
  nanosleep(&batch, NULL);
  return ReadLinkBytes("/proc/self/net/dev", device, bytes);
}
