/* One rank of several groups, one after the other, that says which way each goes, as the C interface has it.
 *
 *   c_path RANK SIZE GROUP...
 *
 * Of each group it prints "GROUP: path: hosts: WHY" or "GROUP: path: network: ", or "GROUP: init: ERROR: WHY"
 * if there is none. Makes a Barrier there and asks again; what is refused of epicCommPath is looked at too. A
 * line begins with "wrong:" for each thing that was wrong, and then the exit status is 1. */
#include <epic/epic_c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wrong;

static void Wrong(const char* what, const char* got) {
  printf("wrong: %s: %s\n", what, got);
  ++wrong;
}

/* A call that is refused says why and leaves what it would have told of alone. */
static void Refusals(epicComm_t comm) {
  epicPath_t path = (epicPath_t)77;
  const char* reason = "as it was";
  if (epicCommPath(NULL, &path, &reason) != epicInvalidArgument)
    Wrong("without a communicator", "not refused");
  if (strcmp(epicGetLastError(), "an argument is null") != 0) Wrong("the refusal", epicGetLastError());
  if (epicCommPath(comm, NULL, &reason) != epicInvalidArgument) Wrong("without a path", "not refused");
  if (epicCommPath(NULL, NULL, NULL) != epicInvalidArgument) Wrong("without anything", "not refused");
  if (path != (epicPath_t)77 || strcmp(reason, "as it was") != 0) Wrong("what was refused", "is told of");
  if (epicCommPath(comm, &path, NULL) != epicSuccess) Wrong("without a reason", epicGetLastError());
  if (path != epicPathNetwork && path != epicPathHosts) Wrong("without a reason", "no path");
  float scale = 77;
  uint64_t inputs = 77, results = 77;
  if (epicCommQuantised(NULL, &scale, &inputs, &results) != epicInvalidArgument || scale != 77)
    Wrong("what is quantised, without a communicator", "not refused");
  int int8 = 77;
  if (epicCommInt8(NULL, &int8) != epicInvalidArgument || epicCommInt8(comm, NULL) != epicInvalidArgument ||
      epicCommSetQuantise(NULL, 1) != epicInvalidArgument || int8 != 77)
    Wrong("epicCommInt8", "takes what is null");
  if (epicCommInt8(comm, &int8) != epicSuccess || int8 != 0 || epicCommSetQuantise(comm, 0) != epicSuccess)
    Wrong("epicCommInt8", "tells of blocks that there are not");
  if (epicCommSetPriority(comm, 2.5) != epicSuccess || epicCommSetPriority(comm, -1) != epicInvalidArgument ||
      epicCommSetPriority(NULL, 1) != epicInvalidArgument)
    Wrong("epicCommSetPriority", "takes what is no priority, or not what is one");
  if (epicCommQuantised(comm, NULL, NULL, NULL) != epicSuccess)
    Wrong("epicCommQuantised", epicGetLastError());
  if (epicCommQuantised(comm, &scale, &inputs, &results) != epicSuccess || scale != 0 || inputs != 0 ||
      results != 0)
    Wrong("epicCommQuantised", "tells of a scale that there is not");
}

static const char* Name(epicPath_t path) {
  if (path == epicPathHosts) return "hosts";
  return path == epicPathNetwork ? "network" : "another";
}

static void Group(const char* name, int rank, int size) {
  epicComm_t comm = NULL;
  const epicResult_t joined = epicCommInitRank(&comm, size, name, NULL, rank);
  if (joined != epicSuccess) {
    printf("%s: init: %s: %s\n", name, epicGetErrorString(joined), epicGetLastError());
    fflush(stdout);
    return;
  }
  epicPath_t path = (epicPath_t)77, later = (epicPath_t)77;
  const char *reason = NULL, *reason_later = NULL;
  if (epicCommPath(comm, &path, &reason) != epicSuccess) Wrong("epicCommPath", epicGetLastError());
  printf("%s: path: %s: %s\n", name, Name(path), reason == NULL ? "(null)" : reason);
  fflush(stdout);
  Refusals(comm);
  if (epicBarrier(comm) != epicSuccess) Wrong("epicBarrier", epicGetLastError());
  /* The same string: it is the communicator's. */
  if (epicCommPath(comm, &later, &reason_later) != epicSuccess) Wrong("epicCommPath", epicGetLastError());
  if (later != path || reason_later != reason) Wrong("epicCommPath", "says another thing later");
  if (epicCommDestroy(comm) != epicSuccess) Wrong("epicCommDestroy", epicGetLastError());
}

int main(int argc, char** argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: c_path RANK SIZE GROUP...\n");
    return 2;
  }
  for (int i = 3; i < argc; ++i) Group(argv[i], atoi(argv[1]), atoi(argv[2]));
  return wrong == 0 ? 0 : 1;
}
