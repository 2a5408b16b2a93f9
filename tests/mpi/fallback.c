/* What rank 0 pays for a call that the MPI makes: the least processor time of many batches of a broadcast of
 * eight bytes from it to another rank, which it need not wait for, and of functions of requests that have
 * nothing to do. An ordinary MPI program, of two ranks; prints "MPI_Bcast NS" and so on. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

enum { kBatches = 3000, kCalls = 50 };

static void blocking(void* data) { MPI_Bcast(data, 8, MPI_BYTE, 0, MPI_COMM_WORLD); }

static void nonblocking(void* data) {
  MPI_Request request;
  MPI_Ibcast(data, 8, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void wait_for_nothing(void* data) {
  MPI_Request request = MPI_REQUEST_NULL;
  (void)data;
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void send_to_nobody(void* data) { MPI_Send(data, 8, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD); }

static int64_t processor_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void measure(const char* name, void (*call)(void*), int rank) {
  int64_t least = INT64_MAX;
  char data[8] = {0};
  for (int batch = 0; batch < kBatches; ++batch) {
    MPI_Barrier(MPI_COMM_WORLD); /* so that no queue of messages fills */
    const int64_t begin = processor_ns();
    for (int i = 0; i < kCalls; ++i) call(data);
    const int64_t taken = processor_ns() - begin;
    if (taken < least) least = taken;
  }
  if (rank == 0) printf("%s %.1f\n", name, (double)least / kCalls);
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  measure("MPI_Bcast", blocking, rank);
  measure("MPI_Ibcast", nonblocking, rank);
  measure("MPI_Wait", wait_for_nothing, rank);
  measure("MPI_Send", send_to_nobody, rank);
  MPI_Finalize();
  return 0;
}
