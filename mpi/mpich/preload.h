/* How functions of libepic_mpi.so stand before MPICH's. */
#ifndef EPIC_MPI_MPICH_PRELOAD_H_
#define EPIC_MPI_MPICH_PRELOAD_H_

#include <stdint.h>

#include "mpi/binding/binding.h"
#include "mpi/mpich/front.h"

/* MPICH's handles are int, Open MPI's are addresses: what is handed on must have room for either. */
typedef intptr_t Handle;

/* Null unless EPIC is used. Set by MPI_Init, before the program can have threads that call MPI. */
extern const EpicMpichFront* epic_preload_front;
/* EPIC's requests that the program has; 0 without EPIC. */
extern int epic_preload_requests;

/* The function that the program would have without us. `is_tools`: it has one of MPI's names and is not the
 * MPI's, but of a tool that stands behind us. That one is to see the call, and hands it on by PMPI's name,
 * which is ours, too. */
void* EpicPreloadNext(const char* name, int* is_tools);
/* Whether the caller is the MPI itself, which calls PMPI's functions for those of files: its own calls. */
int EpicPreloadIsTheMpi(const void* caller);

/* Defines a function of MPI's with these parameters, beside mpi.h's declaration of it. */
#define EXPORTED(name, parameters)                                                        \
  __attribute__((visibility("default"))) int EpicPreload##name parameters __asm__(#name); \
  int EpicPreload##name parameters

/* Finds who would have a call without us: `function`, and `is_tools` as above. */
#define FIND_NEXT(name, parameters)                                     \
  static int(*next) parameters;                                         \
  static int is_tools;                                                  \
  int(*function) parameters = __atomic_load_n(&next, __ATOMIC_ACQUIRE); \
  if (function == NULL) {                                               \
    function = (int(*) parameters)EpicPreloadNext(#name, &is_tools);    \
    __atomic_store_n(&next, function, __ATOMIC_RELEASE);                \
  }

/* Hands a call on. */
#define HAND_ON(name, parameters, arguments) \
  FIND_NEXT(name, parameters)                \
  return function arguments

/* A function that is the front end's if a condition holds, and if that does not take it, the MPI's. */
#define BEFORE(condition, name, member, parameters, arguments, front_arguments) \
  EXPORTED(name, parameters) {                                                  \
    FIND_NEXT(name, parameters)                                                 \
    if ((condition) && !is_tools) {                                             \
      const int result = epic_preload_front->member front_arguments;            \
      if (result != kEpicMpiFallBack) return result;                            \
    }                                                                           \
    return function arguments;                                                  \
  }

#endif
