/* libepic_mpi.so, which a dynamic linker loads before a program (LD_PRELOAD): its functions stand before
 * those of MPICH, and hand on what EPIC does not do. It is also in processes that are none of MPICH's, down
 * to the shell that starts one, and does nothing there but hand on. */
#define _GNU_SOURCE
#include "mpi/mpich/preload.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OWN_MPI "libmpich.so.12"
#define OPEN_MPI "libmpi.so.40"

const EpicMpichFront* epic_preload_front;
int epic_preload_requests;

static void* Loaded(const char* library) { return dlopen(library, RTLD_LAZY | RTLD_NOLOAD); }

void* EpicPreloadNext(const char* name, int* is_tools) {
  void* next = dlsym(RTLD_NEXT, name);
  void* library = Loaded(OWN_MPI);
  void* const of_mpich = library == NULL ? NULL : dlsym(library, name);
  __atomic_store_n(is_tools, name[0] == 'M' && next != NULL && of_mpich != NULL && next != of_mpich,
                   __ATOMIC_RELAXED);
  /* A program may have loaded its MPI by itself, for itself. */
  if (next == NULL) next = of_mpich;
  if (next == NULL && (library = Loaded(OPEN_MPI)) != NULL) next = dlsym(library, name);
  if (next == NULL) {
    fprintf(stderr, "EPIC: %s is called, and the program has no MPI\n", name);
    abort();
  }
  return next;
}

/* Where MPICH's code is, from any function of it; 0 without such. */
static uintptr_t mpich_begin, mpich_end;

static int FindMpich(struct dl_phdr_info* object, size_t size, void* function) {
  uintptr_t begin = UINTPTR_MAX, end = 0;
  (void)size;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)* const part = &object->dlpi_phdr[i];
    if (part->p_type != PT_LOAD || (part->p_flags & PF_X) == 0) continue;
    const uintptr_t at = object->dlpi_addr + part->p_vaddr;
    if (at < begin) begin = at;
    if (at + part->p_memsz > end) end = at + part->p_memsz;
  }
  if ((uintptr_t)function < begin || (uintptr_t)function >= end) return 0;
  mpich_begin = begin;
  mpich_end = end;
  return 1;
}

int EpicPreloadIsTheMpi(const void* caller) {
  return (uintptr_t)caller >= mpich_begin && (uintptr_t)caller < mpich_end;
}

/* The front end, from the folder of this library; or null, and says why. */
static const EpicMpichFront* Load(void) {
  Dl_info own;
  char file[4096] = "";
  if (dladdr((void*)&epic_preload_front, &own) != 0 && own.dli_fname != NULL) {
    const char* const slash = strrchr(own.dli_fname, '/');
    const int folder = slash == NULL ? 0 : (int)(slash + 1 - own.dli_fname);
    snprintf(file, sizeof file, "%.*s%s", folder, own.dli_fname, EPIC_MPICH_LIBRARY);
  }
  void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  const EpicMpichFront* const found = library == NULL ? NULL : dlsym(library, EPIC_MPICH_FRONT);
  if (found == NULL) fprintf(stderr, "EPIC: the MPI's own collectives are used: %s\n", dlerror());
  return found;
}

/* All ranks that have this library come here, and each has to learn of one that cannot go on. */
static void Begin(void) {
  void* const mpich = Loaded(OWN_MPI);
  if (mpich == NULL || Loaded(OPEN_MPI) != NULL) return;
  int (*const allreduce)(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm) =
      dlsym(mpich, "PMPI_Allreduce");
  const EpicMpichFront* const found = Load();
  int all = found != NULL;
  if (allreduce == NULL ||
      allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD) != MPI_SUCCESS) {
    return;
  }
  dl_iterate_phdr(FindMpich, (void*)allreduce);
  if (all && found->begin(&epic_preload_requests)) epic_preload_front = found;
}

/* By both of their names: tools that stand before MPI's functions call PMPI's, and so does MPICH's Fortran
 * 2008. */
#define IS_THE_PROGRAMS (epic_preload_front != NULL && !EpicPreloadIsTheMpi(__builtin_return_address(0)))
#define COLLECTIVE(name, member, parameters, arguments, front_arguments)              \
  BEFORE(IS_THE_PROGRAMS, MPI_##name, member, parameters, arguments, front_arguments) \
  BEFORE(IS_THE_PROGRAMS, PMPI_##name, member, parameters, arguments, front_arguments)

/* The three forms of a collective: MPI_Allreduce, MPI_Iallreduce and MPI_Allreduce_init; with the suffix
 * those with large counts. */
#define COLLECTIVES(name, suffix, member, parameters, arguments, front_arguments)                          \
  COLLECTIVE(name##suffix, member, parameters, arguments, front_arguments)                                 \
  COLLECTIVE(I##member##suffix, i##member, (EPIC_MPICH_BARE parameters, void* request),                    \
             (EPIC_MPICH_BARE arguments, request), (EPIC_MPICH_BARE front_arguments, request))             \
  COLLECTIVE(name##_init##suffix, member##_init, (EPIC_MPICH_BARE parameters, Handle info, void* request), \
             (EPIC_MPICH_BARE arguments, info, request),                                                   \
             (EPIC_MPICH_BARE front_arguments, (MPI_Info)info, request))

/* With counts of one type or the other; `counts`: of EpicMpichCounts. */
#define WITH_COUNTS(Count, suffix, counts)                                                                  \
  COLLECTIVES(Allreduce, suffix, allreduce,                                                                 \
              (const void* sbuf, void* rbuf, Count count, Handle type, Handle op, Handle comm),             \
              (sbuf, rbuf, count, type, op, comm),                                                          \
              (sbuf, rbuf, count, (MPI_Datatype)type, (MPI_Op)op, (MPI_Comm)comm))                          \
  COLLECTIVES(Reduce, suffix, reduce,                                                                       \
              (const void* sbuf, void* rbuf, Count count, Handle type, Handle op, int root, Handle comm),   \
              (sbuf, rbuf, count, type, op, root, comm),                                                    \
              (sbuf, rbuf, count, (MPI_Datatype)type, (MPI_Op)op, root, (MPI_Comm)comm))                    \
  COLLECTIVES(Bcast, suffix, bcast, (void* buffer, Count count, Handle type, int root, Handle comm),        \
              (buffer, count, type, root, comm), (buffer, count, (MPI_Datatype)type, root, (MPI_Comm)comm)) \
  COLLECTIVES(                                                                                              \
      Allgather, suffix, allgather,                                                                         \
      (const void* sbuf, Count scount, Handle stype, void* rbuf, Count rcount, Handle rtype, Handle comm),  \
      (sbuf, scount, stype, rbuf, rcount, rtype, comm),                                                     \
      (sbuf, scount, (MPI_Datatype)stype, rbuf, rcount, (MPI_Datatype)rtype, (MPI_Comm)comm))               \
  COLLECTIVES(Reduce_scatter_block, suffix, reduce_scatter_block,                                           \
              (const void* sbuf, void* rbuf, Count rcount, Handle type, Handle op, Handle comm),            \
              (sbuf, rbuf, rcount, type, op, comm),                                                         \
              (sbuf, rbuf, rcount, (MPI_Datatype)type, (MPI_Op)op, (MPI_Comm)comm))                         \
  COLLECTIVES(                                                                                              \
      Reduce_scatter, suffix, reduce_scatter,                                                               \
      (const void* sbuf, void* rbuf, const Count* rcounts, Handle type, Handle op, Handle comm),            \
      (sbuf, rbuf, rcounts, type, op, comm),                                                                \
      (sbuf, rbuf, (EpicMpichCounts){.counts = rcounts}, (MPI_Datatype)type, (MPI_Op)op, (MPI_Comm)comm))
WITH_COUNTS(int, , few)
WITH_COUNTS(MPI_Count, _c, many)

COLLECTIVES(Barrier, , barrier, (Handle comm), (comm), ((MPI_Comm)comm))

/* By both of their names, as MPICH's Fortran 2008 calls PMPI's, and so may a tool that stands before MPI's.
 */
#define ENDS(prefix)                                                                                   \
  static int Next##prefix##Init(int* argc, char*** argv) {                                             \
    HAND_ON(prefix##_Init, (int*, char***), (argc, argv));                                             \
  }                                                                                                    \
  static int Next##prefix##InitThread(int* argc, char*** argv, int required, int* provided) {          \
    HAND_ON(prefix##_Init_thread, (int*, char***, int, int*), (argc, argv, required, provided));       \
  }                                                                                                    \
  static int Next##prefix##Finalize(void) { HAND_ON(prefix##_Finalize, (void), ()); }                  \
  static int Next##prefix##ErrorClass(int code, int* error_class) {                                    \
    HAND_ON(prefix##_Error_class, (int, int*), (code, error_class));                                   \
  }                                                                                                    \
  EXPORTED(prefix##_Init, (int* argc, char*** argv)) { return Begun(Next##prefix##Init(argc, argv)); } \
  EXPORTED(prefix##_Init_thread, (int* argc, char*** argv, int required, int* provided)) {             \
    return Begun(Next##prefix##InitThread(argc, argv, required, provided));                            \
  }                                                                                                    \
  EXPORTED(prefix##_Finalize, (void)) {                                                                \
    End();                                                                                             \
    return Next##prefix##Finalize();                                                                   \
  }                                                                                                    \
  EXPORTED(prefix##_Error_class, (int code, int* error_class)) {                                       \
    const int error = Next##prefix##ErrorClass(code, error_class);                                     \
    if (error == MPI_SUCCESS && epic_preload_front != NULL)                                            \
      *error_class = epic_preload_front->error_class(*error_class);                                    \
    return error;                                                                                      \
  }

/* What MPI_Init has returned. */
static int Begun(int error) {
  static int has_begun;
  if (error == MPI_SUCCESS && !has_begun) {
    has_begun = 1;
    Begin();
  }
  return error;
}

static void End(void) {
  if (epic_preload_front != NULL) epic_preload_front->end();
  epic_preload_front = NULL;
  epic_preload_requests = 0;
}

ENDS(MPI)
ENDS(PMPI)
