/* The begin and the end of a program: rank 0's settings on their way to all ranks. */
#include <dlfcn.h>

#include "mpi/mpich/requests.h"

enum { kSettingsBytes = 4096 };

EpicMpichOwnFunctions epic_mpich;

static int is_first;

int EpicMpichFindOwn(void) {
  void* const mpich = dlopen("libmpich.so.12", RTLD_LAZY | RTLD_NOLOAD);
  if (mpich == NULL) return 0;
#define IS_THERE(name) ((epic_mpich.name = (__typeof__(epic_mpich.name))dlsym(mpich, "PMPI_" #name)) != NULL)&
  return EPIC_MPICH_OWN(IS_THERE) 1;
#undef IS_THERE
}

/* What stands before MPICH's functions by PMPI's names makes these calls EPIC's, of the program's
 * communicators. Those of this library, also of what it shares with other MPIs, come here instead. */
#define OWN(name, parameters, arguments)                                                          \
  __attribute__((visibility("hidden"))) int EpicMpichOwn##name parameters __asm__("PMPI_" #name); \
  int EpicMpichOwn##name parameters { return epic_mpich.name arguments; }
OWN(Allreduce, (const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
    (in, out, count, type, op, comm))
OWN(Reduce, (const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm),
    (in, out, count, type, op, root, comm))
OWN(Bcast, (void* data, int count, MPI_Datatype type, int root, MPI_Comm comm),
    (data, count, type, root, comm))
OWN(Allgather,
    (const void* in, int in_count, MPI_Datatype in_type, void* out, int count, MPI_Datatype type,
     MPI_Comm comm),
    (in, in_count, in_type, out, count, type, comm))

static int Begin(int* requests) {
  static char text[kSettingsBytes];
  const int has_own = EpicMpichFindOwn();
  int rank, ranks;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
  is_first = rank == 0;
  /* MPICH hands mpirun's variables to all hosts, but a host may have its own. */
  if (is_first) EpicMpiOwnSettings(NULL, text, sizeof text);
  if (PMPI_Bcast(text, kSettingsBytes, MPI_BYTE, 0, MPI_COMM_WORLD) != MPI_SUCCESS) return 0;
  int usable = EpicMpiConfigure(text, is_first) && ranks > 1;
  if (usable) usable = EpicMpichBeginComms(has_own);
  EpicMpichBeginRequests(requests);
  return usable;
}

static void End(void) {
  /* Whoever is late may wait for a message from who is here, or for its part of a call. */
  MPI_Request all_are_here;
  epic_mpich.Ibarrier(MPI_COMM_WORLD, &all_are_here);
  EpicMpichWait(&all_are_here, MPI_STATUS_IGNORE);
  EpicMpichEndRequests();
  EpicMpichEndComms();
  EpicMpiFinalize(is_first);
}

__attribute__((visibility("default"))) extern const EpicMpichFront EpicMpichFrontEnd;
#define FORMS(name, member, parameters, arguments) \
  .member = EpicMpich##name, .i##member = EpicMpichI##name, .member##_init = EpicMpich##name##Init,
const EpicMpichFront EpicMpichFrontEnd = {.begin = Begin,
                                          .end = End,
                                          .error_class = EpicMpichErrorClass,
                                          .wait = EpicMpichWait,
                                          .waitall = EpicMpichWaitall,
                                          .waitany = EpicMpichWaitany,
                                          .waitsome = EpicMpichWaitsome,
                                          .test = EpicMpichTest,
                                          .testall = EpicMpichTestall,
                                          .testany = EpicMpichTestany,
                                          .testsome = EpicMpichTestsome,
                                          .request_get_status = EpicMpichRequestGetStatus,
                                          .start = EpicMpichStartRequest,
                                          .startall = EpicMpichStartall,
                                          .request_free = EpicMpichRequestFree,
                                          .cancel = EpicMpichCancel,
                                          .send = EpicMpichSend,
                                          .ssend = EpicMpichSsend,
                                          .recv = EpicMpichRecv,
                                          .sendrecv = EpicMpichSendrecv,
                                          .probe = EpicMpichProbe,
                                          .mprobe = EpicMpichMprobe,
                                          .comm_free = EpicMpichCommFree,
                                          .comm_disconnect = EpicMpichCommDisconnect,
                                          EPIC_MPICH_EACH(FORMS)};
