/* Threads of an MPI program, each with a communicator of its own. An ordinary MPI program. Exit status 0: all
 * was right. */
#include <mpi.h>
#include <pthread.h>
#include <stddef.h>

#include "tests/mpi/checks.h"

static int rank, size;

/* One of several threads, with a communicator of its own: blocking and nonblocking calls, and messages. */
static void* thread_of(void* of) {
  enum { kRounds = 100, kTogether = 3 };
  const MPI_Comm comm = *(MPI_Comm*)of;
  static _Thread_local int out[kTogether][2];
  for (int round = 0; round < kRounds; ++round) {
    MPI_Request requests[kTogether + 2];
    int from = -1, to = rank + round, wrong = 0, x[2] = {rank, round}, sum[2];
    MPI_Irecv(&from, 1, MPI_INT, (rank + size - 1) % size, 0, comm, &requests[kTogether]);
    MPI_Isend(&to, 1, MPI_INT, (rank + 1) % size, 0, comm, &requests[kTogether + 1]);
    for (int i = 0; i < kTogether; ++i) {
      out[i][0] = out[i][1] = i + rank;
      MPI_Iallreduce(MPI_IN_PLACE, out[i], 2, MPI_INT, MPI_SUM, comm, &requests[i]);
    }
    if (round % 2 == 0) MPI_Allreduce(x, sum, 2, MPI_INT, MPI_MAX, comm);
    MPI_Waitall(kTogether + 2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < kTogether; ++i) wrong += out[i][1] != i * size + size * (size - 1) / 2;
    wrong += from != (rank + size - 1) % size + round;
    wrong += round % 2 == 0 && (sum[0] != size - 1 || sum[1] != round);
    if (wrong != 0) return "a thread's results";
  }
  return NULL;
}

static void threads(void) {
  enum { kThreads = 3 };
  MPI_Comm comms[kThreads];
  pthread_t running[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    MPI_Barrier(comms[i]);
  }
  for (int i = 0; i < kThreads; ++i)
    right("a thread", pthread_create(&running[i], NULL, thread_of, &comms[i]) == 0);
  for (int i = 0; i < kThreads; ++i) {
    void* wrong = NULL;
    pthread_join(running[i], &wrong);
    right("a thread's results", wrong == NULL);
  }
  for (int i = 0; i < kThreads; ++i) MPI_Comm_free(&comms[i]);
}

int main(int argc, char** argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  right("level of threads", provided == MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  threads();
  const int wrong = tell_checks(rank);
  MPI_Finalize();
  return wrong;
}
