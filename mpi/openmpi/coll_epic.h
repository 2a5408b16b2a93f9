/* The component "epic" of Open MPI's framework "coll": MPI's collectives by EPIC, and by the component that
 * would have made them otherwise where EPIC cannot. In C, as Open MPI's headers are. */
#ifndef EPIC_MPI_OPENMPI_COLL_EPIC_H_
#define EPIC_MPI_OPENMPI_COLL_EPIC_H_

#include "mpi/hosts/stages.h"
#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/op/op.h"

typedef struct {
  mca_coll_base_component_t super;
  /* Parameters of the component, which mpirun hands to all ranks: OMPI_MCA_coll_epic_… */
  int priority;
  char* manager; /* as EPIC_MANAGER, which goes before it */
  char* softnic; /* file of a libibverbs to use in place of the system's */
  /* As EPIC_SOFTNIC_DEVICES and EPIC_SOFTNIC_SUPER_FRAMES, which mpirun does not hand to other hosts. */
  char *softnic_devices, *softnic_super_frames;
} CollEpicComponent;

OMPI_MODULE_DECLSPEC extern CollEpicComponent mca_coll_epic_component;

/* Runs f(a function that we have, by its name in coll.h). */
#define COLL_EPIC_EACH(f)                                                                           \
  f(allreduce) f(reduce) f(bcast) f(allgather) f(reduce_scatter_block) f(reduce_scatter) f(barrier) \
      f(iallreduce) f(ireduce) f(ibcast) f(iallgather) f(ireduce_scatter_block) f(ireduce_scatter)  \
          f(ibarrier) f(allreduce_init) f(reduce_init) f(bcast_init) f(allgather_init)              \
              f(reduce_scatter_block_init) f(reduce_scatter_init) f(barrier_init)

/* The functions that a communicator would have without us, with their modules. */
#define COLL_EPIC_MEMBER(name)             \
  mca_coll_base_module_##name##_fn_t name; \
  mca_coll_base_module_t* name##_module;
typedef struct {
  COLL_EPIC_EACH(COLL_EPIC_MEMBER)
} CollEpicOthers;

/* A persistent call's line; goes with its communicator, as the call's group does. */
typedef struct CollEpicOwnLine {
  EpicMpiLine line;
  struct CollEpicOwnLine* next;
} CollEpicOwnLine;

/* One for each communicator, also those that can have no group, whose calls are to be counted. */
typedef struct {
  mca_coll_base_module_t super;
  EpicMpiHosts hosts;
  EpicMpiOutside outside;
  EpicMpiLine line; /* of nonblocking calls, with several ranks on a host */
  CollEpicOwnLine* own_lines;
  unsigned long stalled; /* the last walk through the requests that found a call of ours that has not ended */
  CollEpicOthers others;
  int stays; /* it and its communicator are there until MPI_Finalize, which releases what is left */
} CollEpicModule;
OBJ_CLASS_DECLARATION(CollEpicModule);

/* A new module for a communicator, or null: all its collectives stay as they are. */
mca_coll_base_module_t* CollEpicQuery(ompi_communicator_t* comm, EpicMpiOutside outside, int* priority);

/* What EPIC reduces of a type and an operation of MPI's; kEpicMpiNoType, kEpicMpiNoOp: nothing. */
EpicMpiType CollEpicTypeOf(const ompi_datatype_t* type);
EpicMpiOp CollEpicOpOf(const ompi_op_t* op);

/* Data of any layout as bytes in a row. */
typedef struct {
  char* bytes;  /* where they are: the buffer itself, or memory of its own */
  char* memory; /* to be freed, or null */
} CollEpicBytes;
/* Finds room for `count` elements, and with `pack` fills it with those of the buffer. MPI_SUCCESS,
 * MPI_ERR_NO_MEM, or another error of the MPI's; `memory` is to be freed in any case. */
int CollEpicBytesOf(const void* buffer, size_t count, ompi_datatype_t* type, int pack, CollEpicBytes* bytes);
/* Copies elements between a buffer and a row of bytes: into the row with `pack`, else out of it. An MPI error
 * code. */
int CollEpicCopy(char* buffer, size_t count, ompi_datatype_t* type, char* row, int pack);
/* What such an error means to the other ranks, which have to hear of it. */
const char* CollEpicWhyNotPacked(int error);
/* Puts what is there into the buffer, if it is not there already. An MPI error code. */
int CollEpicUnpack(const CollEpicBytes* bytes, void* buffer, size_t count, ompi_datatype_t* type);

/* A call as it is described to the binding: of bytes, and one that reduces. */
EpicMpiCall CollEpicCallOf(EpicMpiCollective collective, int64_t count, const ompi_datatype_t* type);
EpicMpiCall CollEpicReductionOf(EpicMpiCollective collective, int64_t count, const ompi_datatype_t* type,
                                const ompi_op_t* op);
EpicMpiCall CollEpicReduceScatterOf(const int* counts, const ompi_datatype_t* type, const ompi_op_t* op,
                                    ompi_communicator_t* comm);
/* Whether what a rank gives to an Allgather is a part of its result: EPIC would read what is not there. */
int CollEpicIsPart(const EpicMpiCall* call, size_t count, const ompi_datatype_t* type);
#define COLL_EPIC_NO_PART EPIC_MPI_NO_PART
/* This rank's part of a buffer with all ranks'. */
void* CollEpicOwnPart(void* buffer, int count, ompi_datatype_t* type, ompi_communicator_t* comm);

/* Whether a call made now is not one of MPI_Init, which in a program that another one has started joins the
 * two: no function of MPI's may be called before it is over. The same on all ranks. */
int CollEpicIsTheProgramsOwn(void);

/* The calls that wait; coll.h has their arguments. */
int CollEpicAllreduce(const void* sbuf, void* rbuf, int count, ompi_datatype_t* type, ompi_op_t* op,
                      ompi_communicator_t* comm, mca_coll_base_module_t* module);
int CollEpicReduce(const void* sbuf, void* rbuf, int count, ompi_datatype_t* type, ompi_op_t* op, int root,
                   ompi_communicator_t* comm, mca_coll_base_module_t* module);
int CollEpicBcast(void* buffer, int count, ompi_datatype_t* type, int root, ompi_communicator_t* comm,
                  mca_coll_base_module_t* module);
int CollEpicAllgather(const void* sbuf, int scount, ompi_datatype_t* stype, void* rbuf, int rcount,
                      ompi_datatype_t* rtype, ompi_communicator_t* comm, mca_coll_base_module_t* module);
int CollEpicReduceScatterBlock(const void* sbuf, void* rbuf, int rcount, ompi_datatype_t* type, ompi_op_t* op,
                               ompi_communicator_t* comm, mca_coll_base_module_t* module);
int CollEpicReduceScatter(const void* sbuf, void* rbuf, const int* rcounts, ompi_datatype_t* type,
                          ompi_op_t* op, ompi_communicator_t* comm, mca_coll_base_module_t* module);
int CollEpicBarrier(ompi_communicator_t* comm, mca_coll_base_module_t* module);

/* Puts those that do not, nonblocking and persistent, into a new module. */
void CollEpicInstallRequests(mca_coll_base_module_t* module);

#endif
