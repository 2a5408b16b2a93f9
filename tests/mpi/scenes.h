/* Programs of scenes: each argument is the name of one, and they are played one after the other. */
#ifndef EPIC_TESTS_MPI_SCENES_H_
#define EPIC_TESTS_MPI_SCENES_H_

#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "tests/mpi/checks.h"

typedef struct {
  const char* name;
  void (*play)(void);
} Scene;

/* What a scene calls: MPI_COMM_WORLD where it is the only one. Of several each has a copy of it, with a group
 * of its own, so that none notices what another has done to its group; no call is made of the world itself.
 */
static MPI_Comm world;

/* All ranks have the results of their calls so far, when `collector` returns: none of them can be ended by the
 * error of a call that this rank makes afterwards, or has somebody cause. The MPI's own call, of at most 1024
 * ranks. */
static inline void all_have_their_results(int collector) {
  static int all[1024];
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Gather(&rank, 1, MPI_INT, all, 1, MPI_INT, collector, MPI_COMM_WORLD);
}

/* The same when it returns on any rank: what this one does then can end no call of another. */
static inline void each_knows_that_all_have_their_results(void) {
  static int all[1024];
  int own;
  all_have_their_results(0);
  MPI_Scatter(all, 1, MPI_INT, &own, 1, MPI_INT, 0, MPI_COMM_WORLD);
}

/* Plays the scenes of these names, and tells of each: "rank 0: NAME: 1234 checks, 0 wrong". Returns an exit
 * status. */
static inline int play_scenes(const Scene* scenes, size_t count, int argc, char** argv, int rank) {
  int status = argc < 2 ? 2 : 0;
  for (int played = 1; played < argc; ++played) {
    const Scene* scene = scenes;
    while (scene != scenes + count && strcmp(scene->name, argv[played]) != 0) ++scene;
    if (scene == scenes + count) return 2;
    world = MPI_COMM_WORLD;
    if (argc > 2) MPI_Comm_dup(MPI_COMM_WORLD, &world);
    checks_made = checks_wrong = 0;
    scene->play();
    printf("rank %d: %s: %d checks, %d wrong\n", rank, scene->name, checks_made, checks_wrong);
    fflush(stdout);
    if (checks_made == 0 || checks_wrong != 0) status = 1;
    if (argc > 2) MPI_Comm_free(&world);
  }
  return status;
}

#endif
