/* Scenes of an MPI program, by their names: how programs, their children and what they stand on come to an
 * end. An ordinary MPI program. Exit status 0: all was right. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/mpi/scenes.h"

static int rank, size;

/* Returns the call's error; the sum of one without is right. */
static int try_sum(MPI_Comm comm) {
  int x = 1 << (3 * rank), all = 0;
  const int error = MPI_Allreduce(&x, &all, 1, MPI_INT, MPI_SUM, comm);
  if (error == MPI_SUCCESS) right("sum", all == 011111111 >> (24 - 3 * size));
  return error;
}

static void sum(MPI_Comm comm) {
  if (try_sum(comm) != MPI_SUCCESS) right("sum", 0);
}

/* The error of a call is EPIC's, with this in its text. */
static void is_epics(const char* what, int error, const char* text) {
  int class = MPI_SUCCESS, length;
  char told[MPI_MAX_ERROR_STRING] = "";
  MPI_Error_class(error, &class);
  MPI_Error_string(error, told, &length);
  right(what, class == MPI_ERR_OTHER);
  right(told, strncmp(told, "EPIC: ", 6) == 0 && strstr(told, text) != NULL);
}

/* Of a call before one that ends the group: where its result has not come yet, that error ends it, too. */
static void sum_or_error(const char* text) {
  const int error = try_sum(world);
  if (error != MPI_SUCCESS) is_epics("sum", error, text);
}

/* Communicators that are made, used and freed, one after the other. */
static void fleeting(void) {
  for (int i = 0; i < 20; ++i) {
    MPI_Comm copy;
    MPI_Comm_dup(world, &copy);
    sum(copy);
    MPI_Comm_free(&copy);
  }
}

/* One with calls until rank 0 is told to stop, by a file, and then one after the other with a few. */
static void steps(void) {
  const char* const file = getenv("TEST_STOP");
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  if (rank == 0) printf("under way\n");
  fflush(stdout);
  for (int all = 0; !all;) {
    int stops = rank == 0 && file != NULL && access(file, F_OK) == 0;
    MPI_Allreduce(&stops, &all, 1, MPI_INT, MPI_MAX, comm);
    sum(comm);
  }
  MPI_Comm_free(&comm);
  for (int i = 0; i < 5; ++i) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int call = 0; call < 10; ++call) sum(comm);
    MPI_Comm_free(&comm);
  }
}

/* Rank 0 frees before the others do, and they learn from it that it has. */
static void freed_early(void) {
  MPI_Comm copy;
  MPI_Comm_dup(world, &copy);
  sum(copy);
  if (rank == 0) MPI_Comm_free(&copy);
  for (int r = 1; rank == 0 && r < size; ++r) MPI_Send(NULL, 0, MPI_INT, r, 0, world);
  if (rank != 0) {
    MPI_Recv(NULL, 0, MPI_INT, 0, 0, world, MPI_STATUS_IGNORE);
    MPI_Comm_free(&copy);
  }
  sum(world);
}

static void exits(void) { exit(5); }
static void exits_at_once(void) { _exit(6); }
static void dies(void) { abort(); }
static void becomes_another(void) { execlp("false", "false", (char*)NULL); }

/* Returns how a child ended that does this. */
static int child(void (*what)(void)) {
  int status = -1;
  fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    what();
    _exit(99);
  }
  waitpid(pid, &status, 0);
  return status;
}

/* Children, before there is a group and with a call under way, end as they would without us, and end nothing
 * else. */
static void children(void) {
  int x[2] = {rank, 1}, all[2];
  MPI_Request request;
  for (int round = 0; round < 2; ++round) {
    if (round > 0) MPI_Iallreduce(x, all, 2, MPI_INT, MPI_SUM, world, &request);
    int status = child(exits);
    right("a child that exits", WIFEXITED(status) && WEXITSTATUS(status) == 5);
    status = child(exits_at_once);
    right("a child that exits at once", WIFEXITED(status) && WEXITSTATUS(status) == 6);
    status = child(becomes_another);
    right("a child that becomes another", WIFEXITED(status) && WEXITSTATUS(status) == 1);
    status = child(dies);
    right("a child that dies", WIFSIGNALED(status));
    status = system("exit 7");
    right("a shell", WIFEXITED(status) && WEXITSTATUS(status) == 7);
    if (round > 0) {
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      right("what was under way", all[0] == size * (size - 1) / 2 && all[1] == size);
    }
    sum(world);
  }
}

/* What has been summed is lost: each call until then is right, and then there are errors. */
static void lost(void) {
  int error = MPI_SUCCESS, x, all;
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  sum(world);
  all_have_their_results(0);
  if (rank == 0) printf("under way\n");
  fflush(stdout);
  while (error == MPI_SUCCESS) {
    x = 1;
    error = MPI_Allreduce(&x, &all, 1, MPI_INT, MPI_SUM, world);
    if (error == MPI_SUCCESS) right("until then", all == size);
  }
  is_epics("an error", error, "");
  is_epics("the same later", MPI_Barrier(world), "");
}

static struct {
  int calls, code;
  MPI_Comm comm;
} handled;

static void handle(MPI_Comm* comm, int* code, ...) {
  ++handled.calls;
  handled.code = *code;
  handled.comm = *comm;
}

/* The program's own handler has had the error that the function has returned, of this communicator, once. */
static void was_handled(const char* what, int error, MPI_Comm comm) {
  is_epics(what, error, "");
  right("the handler is called once", handled.calls == 1);
  right("with the error", handled.code == error);
  right("and its communicator", handled.comm == comm);
  handled.calls = 0;
}

/* Sums until there is an error. Rank 0 tells when there is something to be lost. */
static int sums_until_error(MPI_Comm comm) {
  int error = try_sum(comm);
  if (error == MPI_SUCCESS && rank == 0) printf("under way\n");
  fflush(stdout);
  while (error == MPI_SUCCESS) error = try_sum(comm);
  return error;
}

/* The same with calls that do not wait. */
static int later_sums_until_error(MPI_Comm comm) {
  int error = try_sum(comm), x[2], all[2];
  if (error == MPI_SUCCESS && rank == 0) printf("under way\n");
  fflush(stdout);
  while (error == MPI_SUCCESS) {
    MPI_Request request;
    x[0] = x[1] = 1;
    error = MPI_Iallreduce(x, all, 2, MPI_INT, MPI_SUM, comm, &request);
    if (error == MPI_SUCCESS) error = MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (error == MPI_SUCCESS) right("until then", all[0] == size && all[1] == size);
  }
  return error;
}

/* A handler of the program's own gets what is lost, at every call of its communicator and of no other; the
 * world's would end the job. */
static void own_handler(int (*until_error)(MPI_Comm)) {
  MPI_Comm copy;
  MPI_Errhandler handler;
  MPI_Comm_dup(world, &copy);
  MPI_Comm_create_errhandler(handle, &handler);
  MPI_Comm_set_errhandler(copy, handler);
  MPI_Errhandler_free(&handler);
  was_handled("an error", until_error(copy), copy);
  was_handled("a later call", MPI_Barrier(copy), copy);
  sum(world); /* has a group of its own, made now */
  right("no other communicator's", handled.calls == 0);
  MPI_Comm_free(&copy);
}

static void handler(void) { own_handler(sums_until_error); }
static void handler_later(void) { own_handler(later_sums_until_error); }

/* Of a communicator that the program has freed, too. The last rank makes no call, and frees when the others
 * have been told. */
static void handler_of_freed(void) {
  MPI_Comm copy, freed;
  MPI_Errhandler handler;
  MPI_Request request;
  const int last = size - 1;
  int x[2] = {1, 1}, all[2]; /* of one Open MPI makes the call itself, and does not survive it */
  MPI_Comm_dup(world, &copy);
  MPI_Comm_create_errhandler(handle, &handler);
  MPI_Comm_set_errhandler(copy, handler);
  MPI_Errhandler_free(&handler);
  sum(copy);
  freed = copy;
  for (int step = 0; rank == last && step < 2; ++step) {
    for (int r = 0; r < last; ++r) MPI_Recv(NULL, 0, MPI_INT, r, 0, world, MPI_STATUS_IGNORE);
    if (step == 0) printf("under way\n");
    fflush(stdout);
  }
  if (rank != last) MPI_Iallreduce(x, all, 2, MPI_INT, MPI_SUM, copy, &request);
  MPI_Comm_free(&copy);
  if (rank != last) {
    MPI_Send(NULL, 0, MPI_INT, last, 0, world);
    was_handled("an error", MPI_Wait(&request, MPI_STATUS_IGNORE), freed);
    MPI_Send(NULL, 0, MPI_INT, last, 0, world);
  }
  sum(world);
}

/* MPI's own handler, as a communicator has it if the program has said nothing. */
static void fatal(void) {
  sums_until_error(world);
  right("has not come so far", 0);
}

static void fatal_later(void) {
  later_sums_until_error(world);
  right("has not come so far", 0);
}

/* The program has set a deadline, and rank 1 does not call until the others have been told. Its own call may
 * end well, as the others have made it, too, if it does before rank 1 hears of them; the next does not. */
static void deadline(void) {
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  sum(world);
  if (rank == 1) {
    for (int r = 0; r < size; ++r)
      if (r != 1) MPI_Recv(NULL, 0, MPI_INT, r, 0, world, MPI_STATUS_IGNORE);
  }
  int error = MPI_Barrier(world);
  if (rank == 1 && error == MPI_SUCCESS) error = MPI_Barrier(world);
  is_epics("an error", error, "did not end before its deadline");
  if (rank == 0) {
    char told[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(error, told, &length);
    printf("told: %s\n", told);
  }
  if (rank != 1) MPI_Send(NULL, 0, MPI_INT, 1, 0, world);
}

/* Rank 1 calls in one communicator, the others in another one: each waits for who waits there. */
static void crossed(void) {
  MPI_Comm copy;
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  MPI_Comm_dup(world, &copy);
  sum(world);
  sum(copy);
  all_have_their_results(size - 1);
  const int error = try_sum(rank == 1 ? copy : world);
  is_epics("an error", error, "did not end before its deadline");
  char told[MPI_MAX_ERROR_STRING];
  int length;
  MPI_Error_string(error, told, &length);
  if (rank == 0) printf("told: %s\n", told);
}

/* A rank gives less than its part: an error everywhere, and nothing is read that is not there. */
static void parts(void) {
  int in[2] = {rank, rank}, out[128];
  const int gives = rank == 1 ? 1 : 2;
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  sum_or_error("parts of different sizes");
  is_epics("parts that differ", MPI_Allgather(in, gives, MPI_INT, out, 2, MPI_INT, world),
           "parts of different sizes");
}

/* The same of a call that does not wait; Open MPI's alone are EPIC's. */
static void parts_later(void) {
  int in[2] = {rank, rank}, out[128];
  MPI_Request request;
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  sum_or_error("parts of different sizes");
  int error = MPI_Iallgather(in, rank == 1 ? 1 : 2, MPI_INT, out, 2, MPI_INT, world, &request);
  if (error == MPI_SUCCESS) error = MPI_Wait(&request, MPI_STATUS_IGNORE);
  is_epics("parts that differ", error, "parts of different sizes");
}

/* The last rank gives less than the others, or makes another call than they: an error everywhere, no wrong
 * sum. */
static void differs(void) {
  int in[2] = {rank, rank}, out[2];
  MPI_Comm copy;
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  MPI_Comm_dup(world, &copy);
  sum(world);
  sum(copy);
  all_have_their_results(size - 1);
  is_epics("another count", MPI_Allreduce(in, out, rank == size - 1 ? 1 : 2, MPI_INT, MPI_SUM, world),
           "mismatch: ");
  is_epics("another call",
           rank == size - 1 ? MPI_Barrier(copy) : MPI_Allreduce(in, out, 2, MPI_INT, MPI_MAX, copy),
           "mismatch: ");
  MPI_Comm_free(&copy);
}

/* The same of calls that do not wait. */
static void differs_later(void) {
  int in[3] = {rank, rank, rank}, out[3];
  MPI_Request request;
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  sum(world);
  all_have_their_results(size - 1);
  for (int i = 0; i < 2; ++i) {
    int error = MPI_Iallreduce(in, out, rank == size - 1 ? 3 : 2, MPI_UNSIGNED, MPI_SUM, world, &request);
    if (error == MPI_SUCCESS) error = MPI_Wait(&request, MPI_STATUS_IGNORE);
    is_epics("another count", error, "mismatch: ");
  }
}

/* Without MPI_Finalize: rank 1 while the others wait for it. */
static void one_exits(void) {
  sum(world);
  if (rank == 1) exit(4);
  MPI_Barrier(world);
}

/* All have told before the first exits, as the MPI may end the others for it. */
static void all_exit(void) {
  sum(world);
  MPI_Barrier(world);
  const int status = tell_checks(rank);
  each_knows_that_all_have_their_results();
  exit(status);
}

static const Scene scenes[] = {{"fleeting", fleeting},
                               {"steps", steps},
                               {"freed early", freed_early},
                               {"children", children},
                               {"lost", lost},
                               {"handler", handler},
                               {"handler later", handler_later},
                               {"handler of freed", handler_of_freed},
                               {"fatal", fatal},
                               {"fatal later", fatal_later},
                               {"deadline", deadline},
                               {"crossed", crossed},
                               {"parts", parts},
                               {"parts later", parts_later},
                               {"differs", differs},
                               {"differs later", differs_later},
                               {"one exits", one_exits},
                               {"all exit", all_exit}};

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int wrong = play_scenes(scenes, sizeof scenes / sizeof scenes[0], argc, argv, rank);
  MPI_Finalize();
  return wrong;
}
