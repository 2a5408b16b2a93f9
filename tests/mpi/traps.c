/* Scenes of an MPI program, by their names: what goes wrong where a collective is not made as MPI demands. An
 * ordinary MPI program. Exit status 0: all was right. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/mpi/scenes.h"

static int rank, size;

/* Of a variable, else as many as there are in a whole run. */
static int from_environment(const char* name, int otherwise) {
  const char* const said = getenv(name);
  return said == NULL ? otherwise : atoi(said);
}

static void come_late(void) { usleep(1000 * from_environment("TEST_LATE_MS", 5000)); }

static void sums(MPI_Comm comm, int times) {
  int members, own;
  MPI_Comm_size(comm, &members);
  MPI_Comm_rank(comm, &own);
  for (int i = 0; i < times; ++i) {
    int x = 1 << (own * 3), sum = 0;
    const int error = MPI_Allreduce(&x, &sum, 1, MPI_INT, MPI_SUM, comm);
    right("no error of a sum", error == MPI_SUCCESS);
    right("sum", error != MPI_SUCCESS || sum == 011111111 >> (24 - 3 * members));
  }
}

/* Rank 0 has a large message under way while it calls, rank 1 receives it before it calls; first where the
 * call makes the group, then where there is one, then waiting for a nonblocking call. */
static void message(void) {
  enum { kInts = 4 << 20 };
  int* const data = calloc(kInts, sizeof(int));
  for (int round = 0; round < 3; ++round) {
    MPI_Request request = MPI_REQUEST_NULL, call;
    int x[2] = {rank, round};
    if (rank == 0) {
      for (int i = 0; i < kInts; ++i) data[i] = i + round;
      MPI_Isend(data, kInts, MPI_INT, 1, 0, world, &request);
    }
    if (rank == 1) {
      MPI_Recv(data, kInts, MPI_INT, 0, 0, world, MPI_STATUS_IGNORE);
      for (int i = 0; i < kInts; ++i) right("message", data[i] == i + round);
    }
    if (round < 2) {
      sums(world, 1);
    } else {
      MPI_Iallreduce(MPI_IN_PLACE, x, 2, MPI_INT, MPI_MAX, world, &call);
      MPI_Wait(&call, MPI_STATUS_IGNORE);
      right("maximum", x[0] == size - 1 && x[1] == round);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  free(data);
}

/* Communicators with ranks in another order, of some ranks only, and of one rank. */
static void splits(void) {
  MPI_Comm reversed, halves, alone;
  MPI_Comm_split(world, 0, size - rank, &reversed);
  MPI_Comm_split(world, rank % 2, rank, &halves);
  MPI_Comm_split(world, rank, rank, &alone);
  for (int i = 0; i < 3; ++i) {
    sums(reversed, 2);
    sums(halves, 2);
    sums(alone, 2);
    sums(world, 2);
  }
  int all[64] = {0};
  MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, reversed);
  for (int r = 0; r < size; ++r) right("reversed ranks", all[r] == size - 1 - r);
  int from = rank;
  MPI_Bcast(&from, 1, MPI_INT, 0, reversed);
  right("reversed root", from == size - 1);
  MPI_Comm_free(&reversed);
  MPI_Comm_free(&halves);
  MPI_Comm_free(&alone);
}

/* Communicators that come and go without a call make no groups. */
static void many(void) {
  const int copies = from_environment("TEST_COPIES", 1000);
  for (int i = 0; i < copies; ++i) {
    MPI_Comm copy;
    MPI_Comm_dup(world, &copy);
    if (i == copies / 2 && rank == 0) printf("half are made\n");
    fflush(stdout);
    MPI_Comm_free(&copy);
  }
  right("made and freed", 1);
}

/* Each rank in turn comes late, at every collective. */
static void late(void) {
  for (int who = 0; who < size; ++who) {
    if (rank == who) come_late();
    sums(world, 1);
  }
  if (rank == size - 1) come_late();
  MPI_Barrier(world);
}

/* Ranks that call with different counts: an error with EPIC's text on every rank, and at every later call. */
static void mismatch(void) {
  int x[4] = {0}, error, class, length;
  char text[MPI_MAX_ERROR_STRING];
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  sums(world, 1);
  all_have_their_results(2);
  for (int i = 0; i < 2; ++i) {
    error = MPI_Allreduce(MPI_IN_PLACE, x, rank == 2 ? 4 : 2, MPI_INT, MPI_SUM, world);
    right("an error", error != MPI_SUCCESS);
    MPI_Error_class(error, &class);
    right("its class", class == MPI_ERR_OTHER);
    MPI_Error_string(error, text, &length);
    /* Who differs from another rank of its host is told so there, and the other hosts that it was. */
    right(text, strstr(text, "EPIC: ") == text && strstr(text, "mismatch: ") != NULL &&
                    (strstr(text, "called with another count") != NULL ||
                     strstr(text, "the ranks of one host have called with different arguments") != NULL));
  }
}

/* Communicators that the program leaves to MPI_Finalize. */
static void kept(void) {
  MPI_Comm copies[3];
  for (int i = 0; i < 3; ++i) {
    MPI_Comm_dup(world, &copies[i]);
    sums(copies[i], 2);
  }
}

static void is_refused(const char* what, int error, int wanted) {
  int class = MPI_SUCCESS;
  MPI_Error_class(error, &class);
  right(what, error != MPI_SUCCESS && class == wanted);
}

/* What MPICH 4.0.2 does not survive, without us either. */
static void negative(void) {
  int x = 0, sum;
  sums(world, 1);
  if (rank == 0) fprintf(stderr, "all is well so far\n");
  MPI_Barrier(world);
  MPI_Allreduce(&x, &sum, -1, MPI_INT, MPI_SUM, world);
}

/* Counts and roots that cannot be. Those of reductions MPICH does not look at. */
static void are_refused(void) {
  const MPI_Comm all = world;
  MPI_Request r;
  int x[2] = {0}, y[64] = {0}, counts[64] = {0};
  counts[size - 1] = -1;
  is_refused("root", MPI_Bcast(x, 1, MPI_INT, size, all), MPI_ERR_ROOT);
  is_refused("root of Reduce", MPI_Reduce(x, y, 1, MPI_INT, MPI_SUM, -7, all), MPI_ERR_ROOT);
  is_refused("root of Ibcast", MPI_Ibcast(x, 1, MPI_INT, size, all, &r), MPI_ERR_ROOT);
  is_refused("root of Ireduce", MPI_Ireduce(x, y, 1, MPI_INT, MPI_SUM, -7, all, &r), MPI_ERR_ROOT);
  is_refused("count", MPI_Bcast(x, -1, MPI_INT, 0, all), MPI_ERR_COUNT);
  is_refused("count of Ibcast", MPI_Ibcast(x, -1, MPI_INT, 0, all, &r), MPI_ERR_COUNT);
  is_refused("count that is sent", MPI_Allgather(x, -1, MPI_INT, y, 1, MPI_INT, all), MPI_ERR_COUNT);
  is_refused("count of a part", MPI_Allgather(x, 1, MPI_INT, y, -1, MPI_INT, all), MPI_ERR_COUNT);
  is_refused("one of the counts", MPI_Reduce_scatter(x, y, counts, MPI_INT, MPI_SUM, all), MPI_ERR_COUNT);
#ifdef OPEN_MPI
  is_refused("count of Allreduce", MPI_Allreduce(x, y, -1, MPI_INT, MPI_SUM, all), MPI_ERR_COUNT);
  is_refused("count of Reduce", MPI_Reduce(x, y, -1, MPI_INT, MPI_SUM, 0, all), MPI_ERR_COUNT);
  is_refused("count of a block", MPI_Reduce_scatter_block(x, y, -1, MPI_INT, MPI_SUM, all), MPI_ERR_COUNT);
#endif
}

/* What an MPI finds out on each rank by itself. */
static void refused(void) {
  int x[3] = {0}, sum = 0;
  MPI_Datatype not_committed;
  MPI_Request request;
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* has what is of no communicator */
  MPI_Type_vector(2, 1, 2, MPI_INT, &not_committed);
  for (int round = 0; round < 2; ++round) {
    are_refused();
    is_refused("type of Bcast", MPI_Bcast(x, 1, not_committed, 0, world), MPI_ERR_TYPE);
    is_refused("type of Ibcast", MPI_Ibcast(x, 1, not_committed, 0, world, &request), MPI_ERR_TYPE);
    is_refused("communicator", MPI_Barrier(MPI_COMM_NULL), MPI_ERR_COMM);
    is_refused("type", MPI_Bcast(x, 1, MPI_DATATYPE_NULL, 0, world), MPI_ERR_TYPE);
    is_refused("operation", MPI_Allreduce(x, &sum, 1, MPI_INT, MPI_OP_NULL, world), MPI_ERR_OP);
    sums(world, 1);
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Type_free(&not_committed);
}

static void usual(void) { sums(world, 10); }

/* More calls under way than the library takes at a time, on two communicators by turns, beside messages. */
static void outstanding(void) {
  enum { kCalls = 1500, kMessages = 10, kInts = 3 };
  static int in[kCalls][kInts], out[kCalls][kInts], from[kMessages], to[kMessages];
  static MPI_Request requests[kCalls + 2 * kMessages];
  static int indices[kCalls + 2 * kMessages];
  MPI_Comm other;
  int done = 0, some;
  MPI_Comm_dup(world, &other);
  MPI_Barrier(world);
  MPI_Barrier(other);
  for (int i = 0; i < kMessages; ++i) {
    to[i] = rank + i;
    MPI_Irecv(&from[i], 1, MPI_INT, (rank + size - 1) % size, i, other, &requests[kCalls + 2 * i]);
    MPI_Isend(&to[i], 1, MPI_INT, (rank + 1) % size, i, other, &requests[kCalls + 2 * i + 1]);
  }
  for (int i = 0; i < kCalls; ++i) {
    for (int k = 0; k < kInts; ++k) in[i][k] = (i + k) << (2 * rank);
    MPI_Iallreduce(in[i], out[i], kInts, MPI_INT, MPI_SUM, i % 3 == 0 ? other : world, &requests[i]);
  }
  /* Messages may come in between: their requests are among those that end. */
  while (done < 500) {
    MPI_Testsome(kCalls + 2 * kMessages, requests, &some, indices, MPI_STATUSES_IGNORE);
    done += some;
  }
  while (done < 600) {
    MPI_Waitany(kCalls + 2 * kMessages, requests, &some, MPI_STATUS_IGNORE);
    ++done;
  }
  MPI_Waitall(kCalls + 2 * kMessages, requests, MPI_STATUSES_IGNORE);
  const int ones = (1 << (2 * size)) / 3;
  for (int i = 0; i < kCalls; ++i) {
    for (int k = 0; k < kInts; ++k) right("one of many", out[i][k] == (i + k) * ones);
  }
  for (int i = 0; i < kMessages; ++i) right("message", from[i] == (rank + size - 1) % size + i);
  MPI_Comm_free(&other);
}

/* A communicator that is given up with calls under way, which it outlives. */
static void given_up(int (*give_up)(MPI_Comm*)) {
  enum { kCalls = 100 };
  static int out[kCalls][2];
  MPI_Request requests[kCalls];
  MPI_Comm other;
  MPI_Comm_dup(world, &other);
  MPI_Barrier(other);
  for (int i = 0; i < kCalls; ++i) {
    out[i][0] = out[i][1] = i + rank;
    MPI_Iallreduce(MPI_IN_PLACE, out[i], 2, MPI_INT, MPI_SUM, other, &requests[i]);
  }
  give_up(&other);
  right("no communicator", other == MPI_COMM_NULL);
  sums(world, 1);
  MPI_Waitall(kCalls, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < kCalls; ++i)
    right("of a freed communicator", out[i][1] == i * size + size * (size - 1) / 2);
}

static void freed(void) { given_up(MPI_Comm_free); }
static void disconnected(void) { given_up(MPI_Comm_disconnect); }

static void is_other(const char* what, int error) {
  int class = MPI_SUCCESS;
  MPI_Error_class(error, &class);
  right(what, error != MPI_SUCCESS && class == MPI_ERR_OTHER);
}

/* Iallreduces that a rank has not called yet, when what sums them is gone: errors on every rank, in each way
 * of waiting, also on that one, which calls after the others have theirs. Beside them is a message. */
static void broken(void) {
  enum { kCalls = 5, kDoubles = 20000 };
  static double x[kCalls][kDoubles];
  MPI_Request requests[kCalls + 1];
  MPI_Status statuses[kCalls];
  /* Those of the last host may be told of the end after the others, and complete a call until then. */
  const int first_of_last = size - size / 4, of_last = rank >= first_of_last;
  int started = 0, index, flag, length;
  char text[MPI_MAX_ERROR_STRING];
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  sums(world, 1);
  all_have_their_results(0);
  for (int r = 0; rank == size - 1 && r < first_of_last; ++r)
    MPI_Recv(NULL, 0, MPI_INT, r, 7, world, MPI_STATUS_IGNORE);
  for (int i = 0; i < kCalls; ++i) {
    const int error = MPI_Iallreduce(MPI_IN_PLACE, x[i], kDoubles, MPI_DOUBLE, MPI_SUM, world, &requests[i]);
    if (error == MPI_SUCCESS) ++started;
    if (error != MPI_SUCCESS) is_other("an error at once", error);
  }
  if (rank != 0 && rank != size - 1) MPI_Send(NULL, 0, MPI_INT, 0, 6, world);
  if (rank == 0) {
    for (int r = 1; r < size - 1; ++r) MPI_Recv(NULL, 0, MPI_INT, r, 6, world, MPI_STATUS_IGNORE);
    printf("under way\n");
    fflush(stdout);
  }
  right("started", started == kCalls || rank == size - 1);
  for (int i = 0; (started != kCalls || of_last) && i < started; ++i) {
    const int error = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    if (error != MPI_SUCCESS) is_other("Wait", error);
    right("an error or the sum",
          error != MPI_SUCCESS || (of_last && x[i][0] == 0 && x[i][kDoubles - 1] == 0));
  }
  if (started == kCalls && !of_last) {
    const int error = MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    is_other("Wait", error);
    MPI_Error_string(error, text, &length);
    right(text, strstr(text, "EPIC: ") == text);
    is_other("Waitany", MPI_Waitany(1, &requests[1], &index, MPI_STATUS_IGNORE));
    do flag = MPI_Test(&requests[2], &index, MPI_STATUS_IGNORE);
    while (flag == MPI_SUCCESS && !index);
    is_other("Test", flag);
    MPI_Isend(NULL, 0, MPI_INT, rank, 8, world, &requests[kCalls]);
    right("Waitall", MPI_Waitall(3, &requests[3], statuses) == MPI_ERR_IN_STATUS);
    is_other("the first of Waitall", statuses[0].MPI_ERROR);
    /* Waitall ends with the first that fails. Of 8 ranks, two on a host, the next call may end a moment
     * later. */
    if (size == 8 && statuses[1].MPI_ERROR == MPI_ERR_PENDING)
      statuses[1].MPI_ERROR = MPI_Wait(&requests[4], MPI_STATUS_IGNORE);
    is_other("the second of Waitall", statuses[1].MPI_ERROR);
    right("the message beside", statuses[2].MPI_ERROR == MPI_SUCCESS);
    MPI_Recv(NULL, 0, MPI_INT, rank, 8, world, MPI_STATUS_IGNORE);
  }
  if (!of_last) MPI_Send(NULL, 0, MPI_INT, size - 1, 7, world);
  int error = MPI_Ibarrier(world, &requests[0]); /* of 8 ranks two on a host hear of it together */
  if ((size == 8 || of_last) && error == MPI_SUCCESS) error = MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  is_other("an error of a later call", error);
}

/* Ends without having waited for a call. */
static void left(void) {
  MPI_Request request;
  sums(world, 1);
  if (rank == 0) MPI_Ibarrier(world, &request);
  right("started", 1);
}

/* Each rank in turn comes late at nonblocking calls, for which the others wait, or which they test. */
static void late_requests(void) {
  int x[2], sum[2], ended;
  MPI_Request request;
  MPI_Barrier(world);
  for (int who = 0; who < size; ++who) {
    if (rank == who) come_late();
    x[0] = x[1] = rank + who;
    MPI_Iallreduce(x, sum, 2, MPI_INT, MPI_SUM, world, &request);
    do MPI_Test(&request, &ended, MPI_STATUS_IGNORE);
    while (!ended && who % 2 == 0);
    if (!ended) MPI_Wait(&request, MPI_STATUS_IGNORE);
    right("sum of late ranks", sum[1] == size * who + size * (size - 1) / 2);
  }
}

/* Ends without MPI_Finalize while others wait in a call. */
static void gone(void) {
  int x = 0;
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  sums(world, 1);
  if (rank == 1) MPI_Abort(world, 9);
  MPI_Allreduce(MPI_IN_PLACE, &x, 1, MPI_INT, MPI_SUM, world);
  sleep(60);
}

static const Scene scenes[] = {{"usual", usual},
                               {"message", message},
                               {"splits", splits},
                               {"many", many},
                               {"late", late},
                               {"mismatch", mismatch},
                               {"gone", gone},
                               {"outstanding", outstanding},
                               {"freed", freed},
                               {"broken", broken},
                               {"late-requests", late_requests},
                               {"left", left},
                               {"disconnected", disconnected},
                               {"kept", kept},
                               {"refused", refused},
                               {"negative", negative}};

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int wrong = play_scenes(scenes, sizeof scenes / sizeof scenes[0], argc, argv, rank);
  MPI_Finalize();
  return wrong;
}
