/* Nonblocking and persistent calls of MPI's collectives, in place and not, waited for in every way that MPI
 * has, beside messages; each element of each result is compared with what the MPI itself makes of all ranks'
 * inputs. An ordinary MPI program: it knows nothing of EPIC. Exit status 0: all was right. */
/* clang-format off */
#include <mpi.h>
#include <mpi-ext.h> /* needs mpi.h */
/* clang-format on */
#include <stdlib.h>

#include "tests/mpi/checks.h"

enum { kPart = 600, kSlots = 9, kMost = 8 * kPart };

static int rank, size;

/* One call: what goes in, comes out and should. Buffers of their own, as calls are under way together. */
typedef struct {
  double in[kMost], out[kMost], want[kMost];
  double result[kPart]; /* of a scatter that is not in place */
} Buffers;

static double value(int i, int of_rank, int round) { return (i * 7 + of_rank * 5 + round * 3) % 23 - 11; }

static double sum(int i, int round) {
  double s = 0;
  for (int r = 0; r < size; ++r) s += value(i, r, round);
  return s;
}

enum { kAllreduce, kReduce, kBcast, kAllgather, kBlock, kScatter, kBarrier, kForms };

static const char* const names[kForms] = {
    "Allreduce", "Reduce", "Bcast", "Allgather", "Reduce_scatter_block", "Reduce_scatter", "Barrier"};

/* Counts have to be there until the call has ended. */
static int counts[64];

static void fill(Buffers* b, int form, int in_place, int round) {
  const int all = kPart * size;
  double* const input = in_place || form == kBcast ? b->out : b->in;
  for (int i = 0; i < all; ++i) b->out[i] = -99;
  for (int i = 0; i < kPart; ++i) b->result[i] = -99;
  switch (form) {
    case kAllgather:
      for (int i = 0; i < all; ++i) b->want[i] = value(i % kPart, i / kPart, round);
      for (int i = 0; i < kPart; ++i) input[i + (in_place ? rank * kPart : 0)] = value(i, rank, round);
      break;
    case kBcast:
      for (int i = 0; i < all; ++i) b->want[i] = value(i, round % size, round);
      if (rank == round % size) memcpy(input, b->want, sizeof b->want);
      break;
    default:
      for (int i = 0; i < all; ++i) b->want[i] = sum(i, round);
      for (int i = 0; i < all; ++i) input[i] = value(i, rank, round);
  }
}

static void check(const Buffers* b, int form, int in_place, int round, const char* how) {
  const int all = kPart * size;
  const double* const out = (form == kBlock || form == kScatter) && !in_place ? b->result : b->out;
  char what[80];
  snprintf(what, sizeof what, "%s, %s, round %d", how, in_place ? "in place" : "apart", round);
  if (form == kBlock || form == kScatter)
    same(names[form], what, out, b->want + rank * kPart, kPart * sizeof(double));
  else if (form != kBarrier && (form != kReduce || rank == round % size))
    same(names[form], what, out, b->want, (size_t)all * sizeof(double));
}

/* Of Reduce the root only is in place. */
static void* input_of(Buffers* b, int form, int in_place, int root) {
  return in_place && (form != kReduce || rank == root) ? MPI_IN_PLACE : in_place ? b->out : b->in;
}

static MPI_Request begin(Buffers* b, int form, int in_place, int root) {
  const int all = kPart * size;
  void* const in = input_of(b, form, in_place, root);
  double* const part = in_place ? b->out : b->result;
  MPI_Request r = MPI_REQUEST_NULL;
  switch (form) {
    case kAllreduce:
      MPI_Iallreduce(in, b->out, all, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &r);
      break;
    case kReduce:
      MPI_Ireduce(in, rank == root ? b->out : NULL, all, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD, &r);
      break;
    case kBcast:
      MPI_Ibcast(b->out, all, MPI_DOUBLE, root, MPI_COMM_WORLD, &r);
      break;
    case kAllgather:
      MPI_Iallgather(in, kPart, MPI_DOUBLE, b->out, kPart, MPI_DOUBLE, MPI_COMM_WORLD, &r);
      break;
    case kBlock:
      MPI_Ireduce_scatter_block(in, part, kPart, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &r);
      break;
    case kScatter:
      MPI_Ireduce_scatter(in, part, counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &r);
      break;
    default:
      MPI_Ibarrier(MPI_COMM_WORLD, &r);
  }
  return r;
}

static MPI_Request make(Buffers* b, int form, int in_place, int root) {
  const int all = kPart * size;
  void* const in = input_of(b, form, in_place, root);
  double* const part = in_place ? b->out : b->result;
  const MPI_Info info = MPI_INFO_NULL;
  MPI_Request r = MPI_REQUEST_NULL;
  switch (form) {
    case kAllreduce:
      MPIX_Allreduce_init(in, b->out, all, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, info, &r);
      break;
    case kReduce:
      MPIX_Reduce_init(in, rank == root ? b->out : NULL, all, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD, info,
                       &r);
      break;
    case kBcast:
      MPIX_Bcast_init(b->out, all, MPI_DOUBLE, root, MPI_COMM_WORLD, info, &r);
      break;
    case kAllgather:
      MPIX_Allgather_init(in, kPart, MPI_DOUBLE, b->out, kPart, MPI_DOUBLE, MPI_COMM_WORLD, info, &r);
      break;
    case kBlock:
      MPIX_Reduce_scatter_block_init(in, part, kPart, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, info, &r);
      break;
    case kScatter:
      MPIX_Reduce_scatter_init(in, part, counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, info, &r);
      break;
    default:
      MPIX_Barrier_init(MPI_COMM_WORLD, info, &r);
  }
  return r;
}

/* Waits for all, by one of MPI's ways. */
static const char* wait_for(MPI_Request* requests, int n, int way) {
  static const char* const ways[] = {"Wait", "Waitall", "Waitany", "Waitsome",
                                     "Test", "Testall", "Testany", "Testsome"};
  int index, flag = 0, some = 0, indices[kSlots];
  switch (way) {
    case 0:
      for (int i = n; i-- > 0;) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
      break;
    case 1:
      MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
      break;
    case 2:
      do MPI_Waitany(n, requests, &index, MPI_STATUS_IGNORE);
      while (index != MPI_UNDEFINED);
      break;
    case 3:
      do MPI_Waitsome(n, requests, &some, indices, MPI_STATUSES_IGNORE);
      while (some != MPI_UNDEFINED);
      break;
    case 4:
      for (int i = n; i-- > 0;) {
        do MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
        while (!flag);
      }
      break;
    case 5:
      do MPI_Testall(n, requests, &flag, MPI_STATUSES_IGNORE);
      while (!flag);
      break;
    case 6:
      do MPI_Testany(n, requests, &index, &flag, MPI_STATUS_IGNORE);
      while (!flag || index != MPI_UNDEFINED);
      break;
    default:
      do MPI_Testsome(n, requests, &some, indices, MPI_STATUSES_IGNORE);
      while (some != MPI_UNDEFINED);
  }
  return ways[way];
}

/* All collectives under way together, between a message to the next rank and one from the rank before. */
static void mixed(Buffers* buffers, int persistent) {
  MPI_Request requests[kSlots], made[2][kForms];
  enum { kRoot = 1 };
  for (int in_place = 0; in_place < 2; ++in_place) {
    for (int form = 0; persistent && form < kForms; ++form)
      made[in_place][form] = make(&buffers[form], form, in_place, kRoot);
    for (int round = 0; round < 8; ++round) {
      /* The roots of persistent calls are what they are. */
      const int given = persistent ? kRoot + size * round : round;
      double from = -1, to = rank + round;
      MPI_Irecv(&from, 1, MPI_DOUBLE, (rank + size - 1) % size, 1, MPI_COMM_WORLD, &requests[kForms]);
      for (int form = 0; form < kForms; ++form) fill(&buffers[form], form, in_place, given);
      if (persistent) {
        /* Ranks start them in different orders, as MPI allows. */
        for (int i = 0; i < kForms; ++i) {
          const int form = (i * (rank % 2 == 0 ? 1 : kForms - 1) + rank) % kForms;
          MPI_Start(&made[in_place][form]);
        }
        memcpy(requests, made[in_place], sizeof made[in_place]);
      } else {
        for (int form = 0; form < kForms; ++form)
          requests[form] = begin(&buffers[form], form, in_place, given % size);
      }
      MPI_Isend(&to, 1, MPI_DOUBLE, (rank + 1) % size, 1, MPI_COMM_WORLD, &requests[kForms + 1]);
      const char* const how = wait_for(requests, kForms + 2, round);
      for (int form = 0; form < kForms; ++form) check(&buffers[form], form, in_place, given, how);
      right("the message beside", from == (rank + size - 1) % size + round);
    }
    for (int form = 0; persistent && form < kForms; ++form) MPI_Request_free(&made[in_place][form]);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int r = 0; r < size; ++r) counts[r] = kPart;
  Buffers* const buffers = malloc(kForms * sizeof *buffers);
  mixed(buffers, 0); /* the MPI's: no blocking call has been */
  MPI_Barrier(MPI_COMM_WORLD);
  mixed(buffers, 0);
  mixed(buffers, 1);
  free(buffers);
  const int wrong = tell_checks(rank);
  MPI_Finalize();
  return wrong;
}
