/* Nonblocking and persistent calls of MPI's collectives, in place and not, waited for in every way that MPI
 * has, beside messages; each element of each result is compared with what the MPI itself makes of all ranks'
 * inputs. An ordinary MPI program: it knows nothing of EPIC. Exit status 0: all was right.
 *
 * With the argument "nonblocking" such calls only: MPICH 4.0.2 takes persistent calls of its own for active
 * ones when they have ended, so that MPI_Waitany and the like have them again and again, and each is an error
 * in MPI_Testall. "persistent": these, too, but nothing that Open MPI 4.1.4 does not survive with its own,
 * such as the end of their communicator. "queued": nonblocking ones, and more of them than EPIC has at a
 * time. */
/* clang-format off */
#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h> /* needs mpi.h */
#endif
/* clang-format on */
#include <stdlib.h>

#include "tests/mpi/checks.h"

/* Open MPI 4.1 has them as an extension. */
#ifdef OPEN_MPI
#define PERSISTENT(name) MPIX_##name##_init
#else
#define PERSISTENT(name) MPI_##name##_init
#endif

enum { kPart = 600, kSlots = 9, kMost = 8 * kPart };

static int rank, size;
static MPI_Comm comm; /* of the calls */

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
      MPI_Iallreduce(in, b->out, all, MPI_DOUBLE, MPI_SUM, comm, &r);
      break;
    case kReduce:
      MPI_Ireduce(in, rank == root ? b->out : NULL, all, MPI_DOUBLE, MPI_SUM, root, comm, &r);
      break;
    case kBcast:
      MPI_Ibcast(b->out, all, MPI_DOUBLE, root, comm, &r);
      break;
    case kAllgather:
      MPI_Iallgather(in, kPart, MPI_DOUBLE, b->out, kPart, MPI_DOUBLE, comm, &r);
      break;
    case kBlock:
      MPI_Ireduce_scatter_block(in, part, kPart, MPI_DOUBLE, MPI_SUM, comm, &r);
      break;
    case kScatter:
      MPI_Ireduce_scatter(in, part, counts, MPI_DOUBLE, MPI_SUM, comm, &r);
      break;
    default:
      MPI_Ibarrier(comm, &r);
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
      PERSISTENT(Allreduce)(in, b->out, all, MPI_DOUBLE, MPI_SUM, comm, info, &r);
      break;
    case kReduce:
      PERSISTENT(Reduce)(in, rank == root ? b->out : NULL, all, MPI_DOUBLE, MPI_SUM, root, comm, info, &r);
      break;
    case kBcast:
      PERSISTENT(Bcast)(b->out, all, MPI_DOUBLE, root, comm, info, &r);
      break;
    case kAllgather:
      PERSISTENT(Allgather)(in, kPart, MPI_DOUBLE, b->out, kPart, MPI_DOUBLE, comm, info, &r);
      break;
    case kBlock:
      PERSISTENT(Reduce_scatter_block)(in, part, kPart, MPI_DOUBLE, MPI_SUM, comm, info, &r);
      break;
    case kScatter:
      PERSISTENT(Reduce_scatter)(in, part, counts, MPI_DOUBLE, MPI_SUM, comm, info, &r);
      break;
    default:
      PERSISTENT(Barrier)(comm, info, &r);
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
static void mixed(Buffers* buffers, int persistent, int in_place) {
  MPI_Request requests[kSlots], made[kForms];
  enum { kRoot = 1 };
  for (int form = 0; persistent && form < kForms; ++form)
    made[form] = make(&buffers[form], form, in_place, kRoot);
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
        MPI_Start(&made[form]);
      }
      memcpy(requests, made, sizeof made);
    } else {
      for (int form = 0; form < kForms; ++form)
        requests[form] = begin(&buffers[form], form, in_place, given % size);
    }
    MPI_Isend(&to, 1, MPI_DOUBLE, (rank + 1) % size, 1, MPI_COMM_WORLD, &requests[kForms + 1]);
    const char* const how = wait_for(requests, kForms + 2, round);
    for (int form = 0; form < kForms; ++form) check(&buffers[form], form, in_place, given, how);
    right("the message beside", from == (rank + size - 1) % size + round);
  }
  for (int form = 0; persistent && form < kForms; ++form) MPI_Request_free(&made[form]);
}

/* More persistent calls of a communicator than have groups, started together. */
static void many(Buffers* buffers) {
  enum { kCalls = 3 };
  MPI_Request made[kCalls];
  for (int i = 0; i < kCalls; ++i) made[i] = make(&buffers[i], kAllreduce, 0, 0);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < kCalls; ++i) fill(&buffers[i], kAllreduce, 0, round);
    MPI_Startall(kCalls, made);
    MPI_Waitall(kCalls, made, MPI_STATUSES_IGNORE);
    for (int i = 0; i < kCalls; ++i) check(&buffers[i], kAllreduce, 0, round, "many");
  }
  for (int i = 0; i < kCalls; ++i) MPI_Request_free(&made[i]);
}

/* What is done with requests beside waiting for them. Rank 0's call is under way until the others hear of it.
 */
static void handles(Buffers* b) {
  MPI_Request made, request;
  int flag = 0, class = MPI_SUCCESS;
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* Open MPI has it for requests */
  fill(b, kAllreduce, 0, 1);
  if (rank != 0) MPI_Recv(NULL, 0, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  request = begin(b, kAllreduce, 0, 0);
  if (rank == 0) {
    const MPI_Request before = request;
    (void)MPI_Cancel(&request); /* forbidden, and said to be by MPICH only */
    MPI_Error_class(MPI_Request_free(&request), &class);
    right("a request under way is not freed", class == MPI_ERR_REQUEST && request == before);
    MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
    right("a request under way has not ended", !flag);
    for (int r = 1; r < size; ++r) MPI_Send(NULL, 0, MPI_INT, r, 2, MPI_COMM_WORLD);
  }
  while (!flag) MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
  check(b, kAllreduce, 0, 1, "Request_get_status");
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  right("no request", request == MPI_REQUEST_NULL);

  /* A communicator that is freed before its persistent call has begun. */
  made = make(b, kAllreduce, 0, 0);
  MPI_Comm_free(&comm);
  for (int round = 2; round < 4; ++round) {
    fill(b, kAllreduce, 0, round);
    MPI_Start(&made);
    MPI_Wait(&made, MPI_STATUS_IGNORE);
    check(b, kAllreduce, 0, round, "freed");
  }
  MPI_Request_free(&made);
  right("no request", made == MPI_REQUEST_NULL);
}

/* A message between each two ranks, by one of MPI's ways. */
static void exchange(int way) {
  enum { kInts = 1 << 20 };
  static int from[kInts], to[kInts];
  const int peer = rank ^ 1, is_even = rank % 2 == 0;
  MPI_Message message;
  from[way] = -1;
  to[way] = rank + way;
  if (way == 0) {
    MPI_Sendrecv(to, kInts, MPI_INT, peer, 5, from, kInts, MPI_INT, peer, 5, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
  } else if (is_even == way % 2) {
    if (way == 1) MPI_Ssend(to, way + 1, MPI_INT, peer, 5, MPI_COMM_WORLD);
    if (way != 1) MPI_Send(to, kInts, MPI_INT, peer, 5, MPI_COMM_WORLD);
  } else {
    if (way == 2) MPI_Probe(peer, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (way == 4) MPI_Mprobe(peer, 5, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    if (way == 4) MPI_Mrecv(from, kInts, MPI_INT, &message, MPI_STATUS_IGNORE);
    if (way != 4) MPI_Recv(from, kInts, MPI_INT, peer, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  right("message", from[way] == peer + way || (way != 0 && is_even == way % 2));
}

/* More calls under way than EPIC has at a time, which one of two ranks waits for before a message and the
 * other after it. */
static void queued(void) {
  enum { kCalls = 200, kWays = 7 };
  static int out[kCalls][2];
  MPI_Request requests[kCalls];
  for (int way = 0; way < kWays; ++way) {
    for (int i = 0; i < kCalls; ++i) {
      out[i][0] = out[i][1] = i + rank;
      MPI_Iallreduce(MPI_IN_PLACE, out[i], 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[i]);
    }
    if (rank % 2 == 1) MPI_Waitall(kCalls, requests, MPI_STATUSES_IGNORE);
    exchange(way);
    if (rank % 2 == 0) MPI_Waitall(kCalls, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < kCalls; ++i) right("queued", out[i][1] == i * size + size * (size - 1) / 2);
  }
}

int main(int argc, char** argv) {
  MPI_Comm other;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  for (int r = 0; r < size; ++r) counts[r] = kPart;
  Buffers* const buffers = malloc(kForms * sizeof *buffers);
  comm = MPI_COMM_WORLD;
  for (int in_place = 0; in_place < 2; ++in_place) mixed(buffers, 0, in_place); /* before a blocking call */
  MPI_Barrier(MPI_COMM_WORLD);
  for (int in_place = 0; in_place < 2; ++in_place) mixed(buffers, 0, in_place);
  if (argc == 2 && strcmp(argv[1], "queued") == 0) queued();
  if (argc < 2 || strcmp(argv[1], "persistent") == 0) {
    /* A communicator for each form, as it has groups for 8 persistent calls. */
    mixed(buffers, 1, 0);
    many(buffers);
    comm = other;
    mixed(buffers, 1, 1);
  }
  if (argc < 2) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Barrier(comm);
    handles(buffers);
  }
  MPI_Comm_free(&other);
  free(buffers);
  const int wrong = tell_checks(rank);
  MPI_Finalize();
  return wrong;
}
