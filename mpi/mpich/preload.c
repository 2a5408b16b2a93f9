/* libepic_mpi.so, which a dynamic linker loads before a program (LD_PRELOAD): its functions stand before
 * those of MPICH, and hand on what EPIC does not do. It is also in processes that are none of MPICH's, down
 * to the shell that starts one, and does nothing there but hand on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/binding/binding.h"
#include "mpi/mpich/front.h"

#define OWN_MPI "libmpich.so.12"
#define OPEN_MPI "libmpi.so.40"

/* MPICH's handles are int, Open MPI's are addresses: what is handed on must have room for either. */
typedef intptr_t Handle;

/* Null unless EPIC is used. Set by MPI_Init, before the program can have threads that call MPI. */
static const EpicMpichFront* front;

static void* Loaded(const char* library) { return dlopen(library, RTLD_LAZY | RTLD_NOLOAD); }

/* The function that the program would have without us. */
static void* Next(const char* name) {
  void* next = dlsym(RTLD_NEXT, name);
  void* library = NULL;
  /* A program may have loaded its MPI by itself, for itself. */
  if (next == NULL && (library = Loaded(OWN_MPI)) != NULL) next = dlsym(library, name);
  if (next == NULL && (library = Loaded(OPEN_MPI)) != NULL) next = dlsym(library, name);
  if (next == NULL) {
    fprintf(stderr, "EPIC: %s is called, and the program has no MPI\n", name);
    abort();
  }
  return next;
}

/* The front end, from the folder of this library; or null, and says why. */
static const EpicMpichFront* Load(void) {
  Dl_info own;
  char file[4096] = "";
  if (dladdr((void*)&front, &own) != 0 && own.dli_fname != NULL) {
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
  if (all && found->begin()) front = found;
}

/* Defines MPI_NAME with these parameters, beside mpi.h's declaration of it. */
#define EXPORTED(name, parameters)                                                               \
  __attribute__((visibility("default"))) int EpicPreload##name parameters __asm__("MPI_" #name); \
  int EpicPreload##name parameters

/* Hands a call on to who would have it without us. */
#define HAND_ON(name, parameters, arguments)                            \
  static int(*next) parameters;                                         \
  int(*function) parameters = __atomic_load_n(&next, __ATOMIC_RELAXED); \
  if (function == NULL) {                                               \
    function = (int(*) parameters)Next("MPI_" #name);                   \
    __atomic_store_n(&next, function, __ATOMIC_RELAXED);                \
  }                                                                     \
  return function arguments

/* A collective: of the front end's, and if that does not take it, of the MPI's. */
#define COLLECTIVE(name, member, parameters, arguments, front_arguments) \
  EXPORTED(name, parameters) {                                           \
    if (front != NULL) {                                                 \
      const int result = front->member front_arguments;                  \
      if (result != kEpicMpiFallBack) return result;                     \
    }                                                                    \
    HAND_ON(name, parameters, arguments);                                \
  }

COLLECTIVE(Allreduce, allreduce,
           (const void* sbuf, void* rbuf, int count, Handle type, Handle op, Handle comm),
           (sbuf, rbuf, count, type, op, comm),
           (sbuf, rbuf, count, (MPI_Datatype)type, (MPI_Op)op, (MPI_Comm)comm))
COLLECTIVE(Reduce, reduce,
           (const void* sbuf, void* rbuf, int count, Handle type, Handle op, int root, Handle comm),
           (sbuf, rbuf, count, type, op, root, comm),
           (sbuf, rbuf, count, (MPI_Datatype)type, (MPI_Op)op, root, (MPI_Comm)comm))
COLLECTIVE(Bcast, bcast, (void* buffer, int count, Handle type, int root, Handle comm),
           (buffer, count, type, root, comm), (buffer, count, (MPI_Datatype)type, root, (MPI_Comm)comm))
COLLECTIVE(Allgather, allgather,
           (const void* sbuf, int scount, Handle stype, void* rbuf, int rcount, Handle rtype, Handle comm),
           (sbuf, scount, stype, rbuf, rcount, rtype, comm),
           (sbuf, scount, (MPI_Datatype)stype, rbuf, rcount, (MPI_Datatype)rtype, (MPI_Comm)comm))
COLLECTIVE(Reduce_scatter_block, reduce_scatter_block,
           (const void* sbuf, void* rbuf, int rcount, Handle type, Handle op, Handle comm),
           (sbuf, rbuf, rcount, type, op, comm),
           (sbuf, rbuf, rcount, (MPI_Datatype)type, (MPI_Op)op, (MPI_Comm)comm))
COLLECTIVE(Reduce_scatter, reduce_scatter,
           (const void* sbuf, void* rbuf, const int* rcounts, Handle type, Handle op, Handle comm),
           (sbuf, rbuf, rcounts, type, op, comm),
           (sbuf, rbuf, rcounts, (MPI_Datatype)type, (MPI_Op)op, (MPI_Comm)comm))
COLLECTIVE(Barrier, barrier, (Handle comm), (comm), ((MPI_Comm)comm))

static int NextInit(int* argc, char*** argv) { HAND_ON(Init, (int*, char***), (argc, argv)); }

static int NextInitThread(int* argc, char*** argv, int required, int* provided) {
  HAND_ON(Init_thread, (int*, char***, int, int*), (argc, argv, required, provided));
}

static int NextFinalize(void) { HAND_ON(Finalize, (void), ()); }

static int NextErrorClass(int code, int* error_class) {
  HAND_ON(Error_class, (int, int*), (code, error_class));
}

EXPORTED(Error_class, (int code, int* error_class)) {
  const int error = NextErrorClass(code, error_class);
  if (error == MPI_SUCCESS && front != NULL) *error_class = front->error_class(*error_class);
  return error;
}

EXPORTED(Init, (int* argc, char*** argv)) {
  const int error = NextInit(argc, argv);
  if (error == MPI_SUCCESS) Begin();
  return error;
}

EXPORTED(Init_thread, (int* argc, char*** argv, int required, int* provided)) {
  const int error = NextInitThread(argc, argv, required, provided);
  if (error == MPI_SUCCESS) Begin();
  return error;
}

EXPORTED(Finalize, (void)) {
  if (front != NULL) front->end();
  front = NULL;
  return NextFinalize();
}
