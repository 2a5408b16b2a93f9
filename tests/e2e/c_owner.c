/* One rank of a test of who owns what in the C interface, epic_c.h's first paragraph.
 *
 *   c_owner GROUP RANK SIZE
 *
 * Prints a line for each thing that was wrong, and one for each part that was right. Exit status 0 if nothing
 * was wrong.
 *
 * failures: joins that fail leave nothing behind, neither a communicator nor open files.
 * refusals: what is refused gives nothing out.
 * leaving: a request is waited for when its communicator has been released. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <epic/epic_c.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int wrong;
/* What a variable holds that nobody has initialised. */
static int nothing;

static void Wrong(const char* what, const char* got) {
  printf("wrong: %s: %s\n", what, got);
  ++wrong;
}

static void Expect(epicResult_t expected, epicResult_t got, const char* what) {
  if (got == expected) return;
  printf("wrong: %s: \"%s\" (%s) instead of \"%s\"\n", what, epicGetErrorString(got), epicGetLastError(),
         epicGetErrorString(expected));
  ++wrong;
}

static int OpenFiles(void) {
  int count = 0;
  DIR* files = opendir("/proc/self/fd");
  if (files == NULL) return -1;
  while (readdir(files) != NULL) ++count;
  closedir(files);
  return count;
}

/* Rank 0 of two, and nobody else comes: all that a join needs is there when it fails. */
static void FailedJoins(const char* prefix, int rank, int size) {
  enum { TRIES = 8 };
  int before = 0;
  epicComm_t comm;
  setenv("EPIC_JOIN_TIMEOUT", "0.2", 1);
  for (int i = 0; i < TRIES; ++i) {
    char group[100];
    snprintf(group, sizeof group, "%s-alone-%d-%d", prefix, rank, i);
    comm = (epicComm_t)(void*)&nothing;
    Expect(epicJoinTimeout, epicCommInitRank(&comm, 2, group, NULL, 0), "a join without the other rank");
    if (comm != NULL) Wrong("a join without the other rank", "has a communicator");
    if (i == 0) before = OpenFiles(); /* of which gRPC keeps some */
  }
  unsetenv("EPIC_JOIN_TIMEOUT");
  if (OpenFiles() >= before + TRIES - 1) Wrong("joins that fail", "leave files open");
  comm = (epicComm_t)(void*)&nothing;
  Expect(epicInvalidArgument, epicCommInitRank(&comm, size, "g", NULL, size), "a rank that there is not");
  if (comm != NULL) Wrong("a rank that there is not", "has a communicator");
}

static void Refusals(epicComm_t comm) {
  int32_t data[8] = {0};
  void* handle = &nothing;
  Expect(epicInvalidArgument, epicCommRegister(comm, NULL, sizeof data, &handle), "memory that is null");
  if (handle != NULL) Wrong("memory that is null", "has a handle");
  handle = &nothing;
  Expect(epicInvalidArgument, epicCommRegister(NULL, data, sizeof data, &handle), "without a communicator");
  if (handle != NULL) Wrong("a registration without a communicator", "has a handle");
  epicRequest_t request = (epicRequest_t)(void*)&nothing;
  Expect(epicInvalidArgument, epicAllReduceAsync(NULL, data, 8, epicInt32, epicSum, comm, &request),
         "no data");
  if (request != NULL) Wrong("a call without data", "has a request");
  request = (epicRequest_t)(void*)&nothing;
  Expect(epicInvalidArgument, epicBarrierAsync(NULL, &request), "a call without a communicator");
  if (request != NULL) Wrong("a call without a communicator", "has a request");
}

/* The communicator is released first: its calls have ended by then, and say how. */
static void Leaving(epicComm_t comm, int size) {
  enum { COUNT = 500 };
  static int32_t data[COUNT];
  epicRequest_t request = NULL;
  for (int i = 0; i < COUNT; ++i) data[i] = i;
  Expect(epicSuccess, epicAllReduceAsync(data, data, COUNT, epicInt32, epicSum, comm, &request), "a call");
  Expect(epicSuccess, epicCommDestroy(comm), "epicCommDestroy");
  Expect(epicSuccess, epicWait(request), "waiting late");
  for (int i = 0; i < COUNT; ++i) {
    if (data[i] == size * i) continue;
    Wrong("a call that is waited for late", "has another result");
    return;
  }
}

static void Tell(const char* part) {
  static int before = 0;
  if (wrong == before) printf("%s: right\n", part);
  before = wrong;
  fflush(stdout);
}

int main(int argc, char** argv) {
  epicComm_t comm = NULL;
  if (argc != 4) {
    fprintf(stderr, "usage: c_owner GROUP RANK SIZE\n");
    return 2;
  }
  const int rank = atoi(argv[2]), size = atoi(argv[3]);
  FailedJoins(argv[1], rank, size);
  Tell("failures");
  Expect(epicSuccess, epicCommInitRank(&comm, size, argv[1], NULL, rank), "epicCommInitRank");
  if (comm == NULL) return 1;
  Refusals(comm);
  Tell("refusals");
  Leaving(comm, size);
  Tell("leaving");
  return wrong == 0 ? 0 : 1;
}
