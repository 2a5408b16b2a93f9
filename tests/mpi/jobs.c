/* Scenes of an MPI program, by their names: communicators that can have no group, between two groups of
 * ranks, of one rank, or with a program that this one has started. An ordinary MPI program. Exit status 0:
 * all was right. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "tests/mpi/scenes.h"

enum { kChildren = 2 };

static int rank, size;
static char* program;

static int in(MPI_Comm comm) {
  int number;
  MPI_Comm_rank(comm, &number);
  return number;
}

/* The sum of all ranks' numbers from `first` on, which each gives. */
static void sum_of(const char* what, MPI_Comm comm, int gives, int wanted) {
  int sum = -1;
  MPI_Allreduce(&gives, &sum, 1, MPI_INT, MPI_SUM, comm);
  right(what, sum == wanted);
}

/* Each call of a communicator between two groups once: rank 0 of the `first` gives what there is one of. The
 * others of both groups give `own`, and get the other group's `sum` of these. */
static void between(MPI_Comm inter, int is_first, int own, int sum) {
  enum { kMost = 8 };
  int others, all[kMost] = {0}, value = is_first ? 77 : 0, total = -1;
  const int root = !is_first ? 0 : in(inter) == 0 ? MPI_ROOT : MPI_PROC_NULL;
  MPI_Comm_remote_size(inter, &others);
  sum_of("sum of the other group", inter, own, sum);
  MPI_Reduce(&own, &total, 1, MPI_INT, MPI_SUM, root, inter);
  right("sum at the root", total == (root == MPI_ROOT ? sum : -1));
  MPI_Bcast(&value, 1, MPI_INT, root, inter);
  right("value of the other group's root", value == 77);
  MPI_Allgather(&own, 1, MPI_INT, all, 1, MPI_INT, inter);
  total = 0;
  for (int i = 0; i < others; ++i) total += all[i];
  right("parts of the other group", total == sum);
  MPI_Request request;
  total = -1;
  MPI_Iallreduce(&own, &total, 1, MPI_INT, MPI_SUM, inter, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  right("sum of the other group later", total == sum);
  MPI_Barrier(inter);
}

/* The even ranks and the odd ones, and both in one. */
static void inter(void) {
  MPI_Comm half, inter, merged;
  const int odd = rank % 2;
  MPI_Comm_split(world, odd, rank, &half);
  MPI_Intercomm_create(half, 0, world, 1 - odd, 9, &inter);
  for (int i = 0; i < 3; ++i) between(inter, !odd, 1 << rank, odd ? 05 : 012);
  MPI_Intercomm_merge(inter, odd, &merged);
  sum_of("merged", merged, 1 << (3 * rank), 01111);
  MPI_Comm_free(&merged);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

/* A communicator of one rank. */
static void alone(void) {
  for (int i = 0; i < 5; ++i) sum_of("alone", MPI_COMM_SELF, rank, rank);
  MPI_Barrier(MPI_COMM_SELF);
}

/* What parents and children do together; children have the numbers from 100 on. */
static void together(MPI_Comm inter, int is_parent, int parents) {
  const int ours = parents * (parents - 1) / 2, theirs = 100 * kChildren + kChildren * (kChildren - 1) / 2;
  MPI_Comm merged;
  between(inter, is_parent, is_parent ? rank : 100 + rank, is_parent ? theirs : ours);
  MPI_Intercomm_merge(inter, !is_parent, &merged);
  for (int i = 0; i < 4; ++i) sum_of("of both jobs", merged, is_parent ? rank : 100 + rank, ours + theirs);
  MPI_Barrier(merged);
  MPI_Comm_free(&merged);
  MPI_Comm_disconnect(&inter);
}

/* This program again, as a job of its own. */
static void spawn(void) {
  char* arguments[] = {"child", NULL};
  MPI_Comm children;
  sum_of("before", world, rank, size * (size - 1) / 2);
  /* Told by the program itself: of one that its MPI ends, the last words may be lost. */
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  const int error =
      MPI_Comm_spawn(program, arguments, kChildren, MPI_INFO_NULL, 0, world, &children, MPI_ERRCODES_IGNORE);
  MPI_Comm_set_errhandler(world, MPI_ERRORS_ARE_FATAL);
  if (error != MPI_SUCCESS) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(error, text, &length);
    printf("%s\n", text);
    right("spawned", 0);
    return;
  }
  together(children, 1, size);
  sum_of("afterwards", world, rank, size * (size - 1) / 2);
}

static void child(void) {
  MPI_Comm parents;
  int count;
  MPI_Comm_get_parent(&parents);
  MPI_Comm_remote_size(parents, &count);
  for (int i = 0; i < 7; ++i) sum_of("of children", world, rank + 1, size * (size + 1) / 2);
  together(parents, 0, count);
}

static const Scene scenes[] = {{"inter", inter}, {"alone", alone}, {"spawn", spawn}, {"child", child}};

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  program = argv[0];
  const int wrong = play_scenes(scenes, sizeof scenes / sizeof scenes[0], argc, argv, rank);
  MPI_Finalize();
  return wrong;
}
