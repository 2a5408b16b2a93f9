/* One rank of a test of the C interface; what the interface says is looked at here, element by element.
 *
 *   c_rank GROUP RANK SIZE
 *
 * Goes through these groups, named GROUP-collectives and so on, and tells of each in a line, "collectives:
 * right, 1895 calls", after a line for each thing that was wrong. Exit status 0 if nothing was.
 *
 * refusals: what is refused before anything is sent; the communicator works afterwards.
 * collectives: each collective with each type, operation and size, blocking and by a request, in two buffers
 *   and in place, and in registered memory.
 * requests: many at a time, waited for in another order than they were made in.
 * abort: the last rank aborts while the others are in a call.
 * timeout: the last rank leaves instead of making a call; rank 0 has a deadline of a second. */
#include <epic/epic_c.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/e2e/c_values.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define ROOM (128 * 1024) /* bytes of all shares of the largest call */

static int rank, size;
static epicComm_t comm;
static int calls, wrong;

static void Wrong(const char* what, const char* got) {
  printf("wrong: %s: %s\n", what, got);
  ++wrong;
}

static void Expect(epicResult_t expected, epicResult_t got, const char* what) {
  ++calls;
  if (got == expected) return;
  printf("wrong: %s: \"%s\" (%s) instead of \"%s\"\n", what, epicGetErrorString(got), epicGetLastError(),
         epicGetErrorString(expected));
  ++wrong;
}

/* --- one call */

typedef enum { ALL_REDUCE, REDUCE, BROADCAST, REDUCE_SCATTER, ALL_GATHER, BARRIER } Kind;
static const char* const kKinds[] = {"AllReduce",     "Reduce",    "Broadcast",
                                     "ReduceScatter", "AllGather", "Barrier"};

typedef struct {
  Kind kind;
  epicDataType_t type;
  epicRedOp_t op;
  size_t count;
  int root;
} Call;

static epicResult_t Run(const Call* c, const void* send, void* recv) {
  switch (c->kind) {
    case ALL_REDUCE:
      return epicAllReduce(send, recv, c->count, c->type, c->op, comm);
    case REDUCE:
      return epicReduce(send, recv, c->count, c->type, c->op, c->root, comm);
    case BROADCAST:
      return epicBroadcast(send, recv, c->count, c->type, c->root, comm);
    case REDUCE_SCATTER:
      return epicReduceScatter(send, recv, c->count, c->type, c->op, comm);
    case ALL_GATHER:
      return epicAllGather(send, recv, c->count, c->type, comm);
    case BARRIER:
      break;
  }
  return epicBarrier(comm);
}

static epicResult_t Start(const Call* c, const void* send, void* recv, epicRequest_t* request) {
  switch (c->kind) {
    case ALL_REDUCE:
      return epicAllReduceAsync(send, recv, c->count, c->type, c->op, comm, request);
    case REDUCE:
      return epicReduceAsync(send, recv, c->count, c->type, c->op, c->root, comm, request);
    case BROADCAST:
      return epicBroadcastAsync(send, recv, c->count, c->type, c->root, comm, request);
    case REDUCE_SCATTER:
      return epicReduceScatterAsync(send, recv, c->count, c->type, c->op, comm, request);
    case ALL_GATHER:
      return epicAllGatherAsync(send, recv, c->count, c->type, comm, request);
    case BARRIER:
      break;
  }
  return epicBarrierAsync(comm, request);
}

static size_t Shares(Kind kind) { return kind == REDUCE_SCATTER || kind == ALL_GATHER ? (size_t)size : 1; }

static void Fill(const Call* c, uint8_t* send) {
  const size_t elements = c->kind == REDUCE_SCATTER ? c->count * (size_t)size : c->count;
  for (size_t i = 0; i < elements; ++i) Put(c->type, (float)Input(rank, i), send + i * Bytes(c->type));
}

/* The element number i of what this rank receives. */
static float Expected(const Call* c, size_t i) {
  if (c->kind == BROADCAST) return (float)Input(c->root, i);
  if (c->kind == ALL_GATHER) return (float)Input((int)(i / c->count), i % c->count);
  return Reduced(c->type, c->op, size, c->kind == REDUCE_SCATTER ? (size_t)rank * c->count + i : i);
}

static void Check(const Call* c, const uint8_t* recv, const char* how) {
  const size_t bytes = Bytes(c->type), elements = c->kind == ALL_GATHER ? c->count * (size_t)size : c->count;
  if (c->kind == BARRIER || (c->kind == REDUCE && rank != c->root)) return;
  for (size_t i = 0; i < elements; ++i) {
    uint8_t expected[8];
    Put(c->type, Expected(c, i), expected);
    if (memcmp(recv + i * bytes, expected, bytes) == 0) continue;
    printf("wrong: %s of type %d, operation %d, %zu elements, %s: element %zu\n", kKinds[c->kind],
           (int)c->type, (int)c->op, c->count, how, i);
    ++wrong;
    return;
  }
}

/* Blocking and by a request, in two buffers and in place. */
static void Everyhow(const Call* c, uint8_t* a, uint8_t* b) {
  const size_t own = (size_t)rank * c->count * Bytes(c->type);
  for (int how = 0; how < 4; ++how) {
    static const char* const kNames[] = {"blocking", "blocking, in place", "request", "request, in place"};
    uint8_t *send = a, *recv = b;
    if (how % 2 != 0) {
      send = c->kind == ALL_GATHER ? a + own : a;
      recv = c->kind == REDUCE_SCATTER ? a + own : a;
    }
    memset(a, 0xee, ROOM);
    memset(b, 0xee, ROOM);
    Fill(c, send);
    if (how < 2) {
      Expect(epicSuccess, Run(c, send, recv), kKinds[c->kind]);
    } else {
      epicRequest_t request = NULL;
      int done = 0;
      Expect(epicSuccess, Start(c, send, recv, &request), kKinds[c->kind]);
      Expect(epicSuccess, epicTest(request, &done), "epicTest");
      Expect(epicSuccess, epicWait(request), "epicWait");
    }
    Check(c, recv, kNames[how]);
  }
}

/* --- programs */

static const epicDataType_t kTypes[] = {epicFloat32, epicInt32,  epicFloat16, epicBfloat16,
                                        epicUint8,   epicInt8,   epicFloat64, epicUint32,
                                        epicInt64,   epicUint64, epicInt16,   epicUint16};
static const epicRedOp_t kOps[] = {epicSum,  epicMin, epicMax,  epicAvg,  epicProd,
                                   epicBand, epicBor, epicBxor, epicLand, epicLor};

/* Sums of each type in all sizes; of other operations, which sizes know nothing of, one. */
static void AllSizes(Kind kind, epicDataType_t type, epicRedOp_t op, uint8_t* a, uint8_t* b) {
  /* More than a packet; nothing, one element, and more than goes through the library's own buffers. */
  const size_t counts[] = {1501, 0, 1, ROOM / Bytes(type) / Shares(kind)};
  for (size_t i = 0; i < (op == epicSum ? LENGTH(counts) : 1); ++i) {
    const Call call = {kind, type, op, counts[i], (int)i % size};
    Everyhow(&call, a, b);
  }
}

static void AllCollectives(uint8_t* a, uint8_t* b) {
  for (size_t t = 0; t < LENGTH(kTypes); ++t) {
    AllSizes(BROADCAST, kTypes[t], epicSum, a, b);
    AllSizes(ALL_GATHER, kTypes[t], epicSum, a, b);
    for (size_t o = 0; o < LENGTH(kOps); ++o) {
      if (!Has(kTypes[t], kOps[o])) continue;
      AllSizes(ALL_REDUCE, kTypes[t], kOps[o], a, b);
      AllSizes(REDUCE, kTypes[t], kOps[o], a, b);
      AllSizes(REDUCE_SCATTER, kTypes[t], kOps[o], a, b);
    }
  }
  const Call barrier = {BARRIER, epicInt32, epicSum, 0, 0};
  Everyhow(&barrier, a, b);
}

static void Collectives(void) {
  uint8_t *a = malloc(ROOM), *b = malloc(ROOM);
  AllCollectives(a, b);
  void *handle_a = NULL, *handle_b = NULL;
  Expect(epicSuccess, epicCommRegister(comm, a, ROOM, &handle_a), "epicCommRegister");
  Expect(epicSuccess, epicCommRegister(comm, b, ROOM, &handle_b), "epicCommRegister");
  const Call small = {ALL_REDUCE, epicInt32, epicSum, 100, 0},
             large = {ALL_REDUCE, epicFloat32, epicAvg, 30000, 0};
  Everyhow(&small, a, b);
  Everyhow(&large, a, b);
  Expect(epicSuccess, epicCommDeregister(comm, handle_a), "epicCommDeregister");
  Expect(epicSuccess, epicCommDeregister(comm, handle_b), "epicCommDeregister");
  Everyhow(&large, a, b);
  free(a);
  free(b);
}

static void Requests(void) {
  enum { REQUESTS = 100, COUNT = 500 };
  static uint8_t data[REQUESTS][COUNT * 4];
  epicRequest_t requests[REQUESTS];
  Call call = {ALL_REDUCE, epicInt32, epicSum, COUNT, 0};
  for (int i = 0; i < REQUESTS; ++i) {
    call.op = kOps[i % 4];
    Fill(&call, data[i]);
    Expect(epicSuccess, Start(&call, data[i], data[i], &requests[i]), "epicAllReduceAsync");
  }
  int done = 0;
  while (!done && wrong == 0) {
    if (epicTest(requests[REQUESTS - 1], &done) != epicSuccess) Wrong("epicTest", epicGetLastError());
  }
  for (int i = REQUESTS; i-- > 0;) {
    call.op = kOps[i % 4];
    Expect(epicSuccess, epicWait(requests[i]), "epicWait");
    Check(&call, data[i], "many requests");
  }
}

/* Whatever is refused must say why. */
static void Refuse(epicResult_t expected, epicResult_t got, const char* why) {
  Expect(expected, got, why);
  if (strstr(epicGetLastError(), why) == NULL) Wrong(why, epicGetLastError());
}

static void Refusals(void) {
  int32_t a[8] = {0}, b[8] = {0};
  epicRequest_t request = NULL;
  void* handle = NULL;
  int value = 0;
  epicResult_t async = epicSuccess;
  const epicDataType_t no_type = (epicDataType_t)77;
  const epicRedOp_t no_op = (epicRedOp_t)77;
  Refuse(epicInvalidArgument, epicAllReduce(NULL, b, 8, epicInt32, epicSum, comm), "sendbuff is null");
  Refuse(epicInvalidArgument, epicAllReduce(a, NULL, 8, epicInt32, epicSum, comm), "recvbuff is null");
  Refuse(epicInvalidArgument, epicAllReduce(a, a + 1, 4, epicInt32, epicSum, comm), "overlap");
  Refuse(epicInvalidArgument, epicAllReduce(a, b, (size_t)1 << 45, epicInt32, epicSum, comm),
         "more than 64 TiB");
  Refuse(epicInvalidArgument, epicReduce(a, b, 8, epicInt32, epicSum, size, comm), "root");
  Refuse(epicInvalidArgument, epicBroadcast(a, b, 8, epicInt32, -1, comm), "root");
  Refuse(epicUnsupported, epicAllReduce(a, b, 8, no_type, epicSum, comm), "unsupported type 77");
  Refuse(epicUnsupported, epicAllGather(a, b, 8, no_type, comm), "unsupported type 77");
  Refuse(epicUnsupported, epicReduceScatter(a, b, 1, epicInt32, no_op, comm), "unsupported operation 77");
  Refuse(epicUnsupported, epicAllReduce(a, b, 8, epicFloat32, epicLand, comm), "land of type float32");
  Refuse(epicInvalidArgument, epicAllReduceAsync(a, b, 8, epicInt32, epicSum, comm, NULL), "request is null");
  Refuse(epicInvalidArgument, epicAllReduceAsync(NULL, b, 8, epicInt32, epicSum, comm, &request),
         "sendbuff is null");
  if (request != NULL) Wrong("a refused call", "has a request");
  Refuse(epicInvalidArgument, epicBarrier(NULL), "comm is null");
  Refuse(epicInvalidArgument, epicBarrierAsync(NULL, &request), "is null");
  Refuse(epicInvalidArgument, epicAllReduce(a, b, 8, epicInt32, epicSum, NULL), "comm is null");
  Refuse(epicInvalidArgument, epicWait(NULL), "request is null");
  Refuse(epicInvalidArgument, epicTest(NULL, &value), "is null");
  Refuse(epicInvalidArgument, epicCommDestroy(NULL), "comm is null");
  Refuse(epicInvalidArgument, epicCommAbort(NULL), "comm is null");
  Refuse(epicInvalidArgument, epicCommCount(comm, NULL), "is null");
  Refuse(epicInvalidArgument, epicCommUserRank(NULL, &value), "is null");
  Refuse(epicInvalidArgument, epicCommGetAsyncError(NULL, &async), "is null");
  Refuse(epicInvalidArgument, epicCommSetTimeout(comm, 0), "not above 0");
  Refuse(epicInvalidArgument, epicCommRegister(comm, NULL, 8, &handle), "nothing to register");
  Refuse(epicInvalidArgument, epicCommRegister(comm, a, 0, &handle), "nothing to register");
  Refuse(epicInvalidArgument, epicCommInitRank(NULL, size, "g", NULL, rank), "comm is null");
  Expect(epicSuccess, epicCommCount(comm, &value), "epicCommCount");
  if (value != size) Wrong("epicCommCount", "not the size of the group");
  Expect(epicSuccess, epicCommUserRank(comm, &value), "epicCommUserRank");
  if (value != rank) Wrong("epicCommUserRank", "not the rank");
  Expect(epicSuccess, epicCommGetAsyncError(comm, &async), "epicCommGetAsyncError");
  Expect(epicSuccess, async, "the group");
}

static void ErrorNames(void) {
  static const char* const kNames[] = {"ok",
                                       "invalid argument",
                                       "manager unreachable",
                                       "not found",
                                       "already exists",
                                       "duplicate rank",
                                       "size mismatch",
                                       "join timeout",
                                       "no tree",
                                       "no resource",
                                       "path MTU",
                                       "mismatch",
                                       "rank lost",
                                       "switch lost",
                                       "aborted",
                                       "timeout",
                                       "unsupported",
                                       "transport",
                                       "manager lost",
                                       "internal",
                                       "link lost",
                                       "fallback lost"};
  for (size_t i = 0; i < LENGTH(kNames); ++i) {
    if (strcmp(epicGetErrorString((epicResult_t)i), kNames[i]) != 0)
      Wrong(kNames[i], epicGetErrorString((epicResult_t)i));
  }
  const char* unknown = epicGetErrorString((epicResult_t)LENGTH(kNames));
  if (strcmp(unknown, "unknown error") != 0) Wrong("a code that there is not", unknown);
}

/* The group ends while ranks are in a call; every call, and leaving, then says the same. */
static void Ends(epicResult_t expected) {
  int32_t value = 1;
  epicResult_t async = epicSuccess;
  Expect(expected, epicAllReduce(&value, &value, 1, epicInt32, epicSum, comm), "the call");
  Expect(expected, epicBarrier(comm), "the next call");
  Expect(epicSuccess, epicCommGetAsyncError(comm, &async), "epicCommGetAsyncError");
  Expect(expected, async, "what ended the group");
  Expect(expected, epicCommDestroy(comm), "epicCommDestroy");
}

static void Abort(void) {
  /* The abort may overtake the last rank's Barrier on its way to another one. */
  const epicResult_t before = epicBarrier(comm);
  Expect(before == epicAborted && rank != size - 1 ? epicAborted : epicSuccess, before, "epicBarrier");
  if (rank == size - 1) Expect(epicSuccess, epicCommAbort(comm), "epicCommAbort");
  Ends(epicAborted);
}

static void Timeout(void) {
  if (rank == size - 1) {
    Expect(epicAborted, epicCommDestroy(comm), "epicCommDestroy");
    return;
  }
  if (rank == 0) Expect(epicSuccess, epicCommSetTimeout(comm, 1.0), "epicCommSetTimeout");
  Ends(rank == 0 ? epicTimeout : epicAborted);
}

/* Does all of one group. One that `ends` is left by what ends it. */
static void Group(const char* prefix, const char* name, void (*run)(void), int ends) {
  char group[100];
  snprintf(group, sizeof group, "%s-%s", prefix, name);
  const int wrong_before = wrong;
  calls = 0;
  comm = NULL;
  Expect(epicSuccess, epicCommInitRank(&comm, size, group, NULL, rank), "epicCommInitRank");
  if (comm == NULL) exit(1);
  run();
  if (!ends) {
    Expect(epicSuccess, epicBarrier(comm), "epicBarrier");
    Expect(epicSuccess, epicCommDestroy(comm), "epicCommDestroy");
  }
  printf("%s: %s, %d calls\n", name, wrong == wrong_before ? "right" : "not right", calls);
  fflush(stdout);
}

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: c_rank GROUP RANK SIZE\n");
    return 2;
  }
  rank = atoi(argv[2]);
  size = atoi(argv[3]);
  ErrorNames();
  Group(argv[1], "refusals", Refusals, 0);
  Group(argv[1], "collectives", Collectives, 0);
  Group(argv[1], "requests", Requests, 0);
  Group(argv[1], "abort", Abort, 1);
  Group(argv[1], "timeout", Timeout, 1);
  return wrong == 0 ? 0 : 1;
}
