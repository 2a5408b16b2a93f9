/* What a program's arguments say. What the MPI must refuse goes to it untouched, before anything is made of
 * it. */
#include "mpi/mpich/arguments.h"

static int RankIn(const EpicMpiHosts* hosts) {
  int rank;
  PMPI_Comm_rank(hosts->comm, &rank);
  return rank;
}

static int Ranks(const EpicMpiHosts* hosts) {
  int ranks;
  PMPI_Comm_size(hosts->comm, &ranks);
  return ranks;
}

/* Of such a communicator the roots are in the other group, and which buffers count is by the group. */
static int IsInter(const EpicMpiHosts* hosts) {
  return ((const EpicMpichComm*)hosts)->outside == kEpicMpiInter;
}

static int IsRoot(const EpicMpiHosts* hosts, int root) {
  return IsInter(hosts) || (root >= 0 && root < Ranks(hosts));
}

/* Whether there can be data: of the MPI's own types there is none at address 0. */
static int IsBuffer(const void* buffer, MPI_Datatype type) {
  return buffer != MPI_IN_PLACE && (buffer != NULL || !EpicMpichIsNamed(type));
}

/* Whether a rank may give and take so, where both buffers count. */
static int AreBuffers(const void* sbuf, const void* rbuf, MPI_Datatype type) {
  if (!IsBuffer(rbuf, type)) return 0;
  return sbuf == MPI_IN_PLACE || (IsBuffer(sbuf, type) && sbuf != rbuf);
}

/* Describes a call; 0: its arguments are not right. */
static int Describe(EpicMpiCollective collective, int64_t count, MPI_Datatype type, EpicMpiCall* call) {
  MPI_Count size;
  if (count < 0 || !EpicMpichIsType(type) || !EpicMpichIsCommitted(type) ||
      PMPI_Type_size_x(type, &size) != MPI_SUCCESS)
    return 0;
  *call = (EpicMpiCall){
      .collective = collective, .equal_counts = 1, .count = count, .bytes = count * (int64_t)size};
  return 1;
}

/* A call that reduces; 0: its arguments are not right. */
static int Reduction(EpicMpiCollective collective, const void* sbuf, void* rbuf, int64_t count,
                     MPI_Datatype type, MPI_Op op, EpicMpichCall* it) {
  if (!EpicMpichIsOp(op) || !Describe(collective, count, type, &it->call)) return 0;
  it->call.type = EpicMpichTypeOf(type);
  it->call.op = EpicMpichOpOf(op);
  it->in = (EpicMpichData){sbuf == MPI_IN_PLACE ? rbuf : (void*)sbuf, count, type};
  it->out = (EpicMpichData){rbuf, count, type};
  it->op = op;
  return 1;
}

int EpicMpichAllreduceOf(const void* sbuf, void* rbuf, MPI_Count count, MPI_Datatype type, MPI_Op op,
                         MPI_Comm comm, EpicMpichCall* it) {
  it->hosts = EpicMpichHosts(comm, &it->error);
  return it->hosts != NULL && Reduction(kEpicMpiAllreduce, sbuf, rbuf, count, type, op, it) &&
         AreBuffers(sbuf, rbuf, type);
}

int EpicMpichReduceOf(const void* sbuf, void* rbuf, MPI_Count count, MPI_Datatype type, MPI_Op op, int root,
                      MPI_Comm comm, EpicMpichCall* it) {
  it->hosts = EpicMpichHosts(comm, &it->error);
  if (it->hosts == NULL || !IsRoot(it->hosts, root) ||
      !Reduction(kEpicMpiReduce, sbuf, rbuf, count, type, op, it)) {
    return 0;
  }
  it->call.root = root;
  if (IsInter(it->hosts)) return 1;
  return RankIn(it->hosts) == root ? AreBuffers(sbuf, rbuf, type) : IsBuffer(sbuf, type);
}

int EpicMpichBcastOf(void* buffer, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm,
                     EpicMpichCall* it) {
  it->hosts = EpicMpichHosts(comm, &it->error);
  if (it->hosts == NULL || !IsRoot(it->hosts, root) || !Describe(kEpicMpiBcast, count, type, &it->call)) {
    return 0;
  }
  it->call.root = root;
  it->in = it->out = (EpicMpichData){buffer, count, type};
  it->is_root = RankIn(it->hosts) == root;
  return IsInter(it->hosts) || IsBuffer(buffer, type);
}

int EpicMpichAllgatherOf(const void* sbuf, MPI_Count scount, MPI_Datatype stype, void* rbuf, MPI_Count rcount,
                         MPI_Datatype rtype, MPI_Comm comm, EpicMpichCall* it) {
  EpicMpiCall send;
  it->hosts = EpicMpichHosts(comm, &it->error);
  if (it->hosts == NULL || !Describe(kEpicMpiAllgather, rcount, rtype, &it->call) || !IsBuffer(rbuf, rtype)) {
    return 0;
  }
  it->out = (EpicMpichData){rbuf, rcount * Ranks(it->hosts), rtype};
  if (sbuf == MPI_IN_PLACE) {
    MPI_Aint lower, extent;
    PMPI_Type_get_extent(rtype, &lower, &extent);
    it->in = (EpicMpichData){(char*)rbuf + (MPI_Aint)RankIn(it->hosts) * rcount * extent, rcount, rtype};
    return 1;
  }
  it->in = (EpicMpichData){(void*)sbuf, scount, stype};
  if (!Describe(kEpicMpiAllgather, scount, stype, &send) || !IsBuffer(sbuf, stype)) return 0;
  it->differs = send.bytes != it->call.bytes;
  return 1;
}

int EpicMpichReduceScatterBlockOf(const void* sbuf, void* rbuf, MPI_Count rcount, MPI_Datatype type,
                                  MPI_Op op, MPI_Comm comm, EpicMpichCall* it) {
  it->hosts = EpicMpichHosts(comm, &it->error);
  return it->hosts != NULL && Reduction(kEpicMpiReduceScatterBlock, sbuf, rbuf, rcount, type, op, it) &&
         AreBuffers(sbuf, rbuf, type);
}

static MPI_Count CountOf(EpicMpichCounts counts, int rank) {
  return counts.few != NULL ? counts.few[rank] : counts.many[rank];
}

int EpicMpichReduceScatterOf(const void* sbuf, void* rbuf, EpicMpichCounts rcounts, MPI_Datatype type,
                             MPI_Op op, MPI_Comm comm, EpicMpichCall* it) {
  it->hosts = EpicMpichHosts(comm, &it->error);
  if (it->hosts == NULL || (rcounts.few == NULL && rcounts.many == NULL) ||
      !Reduction(kEpicMpiReduceScatter, sbuf, rbuf, CountOf(rcounts, 0), type, op, it)) {
    return 0;
  }
  for (int rank = 1; rank < Ranks(it->hosts); ++rank) {
    if (CountOf(rcounts, rank) < 0) return 0;
    if (CountOf(rcounts, rank) != it->call.count) it->call.equal_counts = 0;
  }
  return !it->call.equal_counts || AreBuffers(sbuf, rbuf, type);
}

int EpicMpichBarrierOf(MPI_Comm comm, EpicMpichCall* it) {
  it->hosts = EpicMpichHosts(comm, &it->error);
  it->call.collective = kEpicMpiBarrier;
  return it->hosts != NULL;
}
