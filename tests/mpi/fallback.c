/* What rank 0 pays for a call that EPIC leaves to the MPI: the least processor time of many batches of calls
 * that need not wait for another rank, but for one. An ordinary MPI program, of two ranks; its argument is
 * with which of EPIC's settings the calls are EPIC's to leave: small, large or unbounded; all: any. Prints
 * "MPI_Bcast|what is said of it|NS" and so on. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { kBatches = 1000, kCalls = 50 };

static MPI_Comm fresh, inter;
static MPI_Op own;
static MPI_Datatype empty;
static int rank;
static double in[4], out[4];

static void bcast(MPI_Comm comm, MPI_Datatype type, int root) { MPI_Bcast(in, 1, type, root, comm); }
static void bcast_in_world(void) { bcast(MPI_COMM_WORLD, MPI_DOUBLE, 0); }
/* Open MPI has done with a count of 0 before it asks anybody, and with a Bcast of one rank. */
static void bcast_nothing(void) { bcast(MPI_COMM_WORLD, empty, 0); }
static void bcast_between(void) { bcast(inter, MPI_DOUBLE, rank == 0 ? MPI_ROOT : 0); }
static void allreduce_alone(void) { MPI_Allreduce(in, out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF); }

static void ibcast(MPI_Comm comm) {
  MPI_Request request;
  MPI_Ibcast(in, 8, MPI_BYTE, 0, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}
static void ibcast_in_world(void) { ibcast(MPI_COMM_WORLD); }
static void ibcast_in_fresh(void) { ibcast(fresh); }

static void reduce(MPI_Datatype type, MPI_Op op) { MPI_Reduce(in, out, 1, type, op, 1, MPI_COMM_WORLD); }
static void reduce_complex(void) { reduce(MPI_C_DOUBLE_COMPLEX, MPI_SUM); }
static void reduce_by_own(void) { reduce(MPI_INT, own); }
static void reduce_minloc(void) { reduce(MPI_2INT, MPI_MINLOC); }

/* Waits for the other rank. */
static void reduce_scatter(void) {
  static const int counts[] = {1, 2};
  MPI_Reduce_scatter(in, out, counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void wait_for_nothing(void) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void send_to_nobody(void) { MPI_Send(in, 8, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD); }

static void add(void* from, void* to, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *count; ++i) ((int*)to)[i] += ((int*)from)[i];
}

static const struct {
  const char *settings, *call, *reason;
  void (*make)(void);
} rows[] = {{"small", "MPI_Bcast", "smaller than EPIC_MPI_MIN_BYTES", bcast_in_world},
            {"small", "MPI_Ibcast", "smaller than EPIC_MPI_MIN_BYTES", ibcast_in_world},
            {"large", "MPI_Bcast", "larger than EPIC_MPI_MAX_BYTES", bcast_in_world},
            {"unbounded", "MPI_Bcast", "no elements", bcast_nothing},
            {"unbounded", "MPI_Allreduce", "a communicator of one rank", allreduce_alone},
            {"unbounded", "MPI_Bcast", "an intercommunicator", bcast_between},
            {"unbounded", "MPI_Bcast", "all ranks are on one host", bcast_in_world},
            {"unbounded", "MPI_Ibcast", "nonblocking, before the first blocking call", ibcast_in_fresh},
            {"unbounded", "MPI_Reduce", "a type that EPIC does not reduce", reduce_complex},
            {"unbounded", "MPI_Reduce, own", "an operation that EPIC does not have", reduce_by_own},
            {"unbounded", "MPI_Reduce, MINLOC", "an operation that EPIC does not have", reduce_minloc},
            {"unbounded", "MPI_Reduce_scatter", "counts that differ from rank to rank", reduce_scatter},
            {"unbounded", "MPI_Wait", "-", wait_for_nothing},
            {"unbounded", "MPI_Send", "-", send_to_nobody}};

static int64_t processor_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static double least_ns(void (*make)(void)) {
  int64_t least = INT64_MAX;
  for (int batch = 0; batch < kBatches; ++batch) {
    MPI_Barrier(MPI_COMM_WORLD); /* so that no queue of messages fills */
    const int64_t begin = processor_ns();
    for (int i = 0; i < kCalls; ++i) make();
    const int64_t taken = processor_ns() - begin;
    if (taken < least) least = taken;
  }
  return (double)least / kCalls;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_dup(MPI_COMM_WORLD, &fresh);
  MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 1 - rank, 0, &inter);
  MPI_Op_create(add, 1, &own);
  MPI_Type_contiguous(0, MPI_BYTE, &empty);
  MPI_Type_commit(&empty);
  for (size_t i = 0; argc == 2 && i < sizeof rows / sizeof rows[0]; ++i) {
    if (strcmp(argv[1], "all") != 0 && strcmp(argv[1], rows[i].settings) != 0) continue;
    const double ns = least_ns(rows[i].make);
    if (rank == 0) printf("%s|%s|%.1f\n", rows[i].call, rows[i].reason, ns);
  }
  MPI_Type_free(&empty);
  MPI_Op_free(&own);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&fresh);
  MPI_Finalize();
  return 0;
}
