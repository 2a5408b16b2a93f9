/* Scenes of an MPI program, by their names: calls whose ranks describe the same data otherwise, and derived
 * types that are given up while calls need them. An ordinary MPI program. Exit status 0: all was right. */
/* clang-format off */
#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h> /* needs mpi.h */
#endif
/* clang-format on */
#include <string.h>

#include "tests/mpi/scenes.h"

/* Open MPI 4.1 has them as an extension. */
#ifdef OPEN_MPI
#define PERSISTENT(name) MPIX_##name##_init
#else
#define PERSISTENT(name) MPI_##name##_init
#endif

static int rank, size;

/* A vector on one rank is plain ints on the others; none of the ints between. */
static void vector(void) {
  enum { kInts = 5000 };
  static int ints[2 * kInts];
  MPI_Datatype every_second;
  MPI_Request request;
  MPI_Type_vector(kInts, 1, 2, MPI_INT, &every_second);
  MPI_Type_commit(&every_second);
  MPI_Barrier(world);
  for (int round = 0; round < 2 * size; ++round) {
    const int root = round % size, gaps = (rank + round / size) % 2;
    for (int i = 0; i < 2 * kInts; ++i) ints[i] = rank != root ? -1 : gaps && i % 2 ? -1 : 3 * i / (1 + gaps);
    MPI_Ibcast(ints, gaps ? 1 : kInts, gaps ? every_second : MPI_INT, root, world, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < kInts; ++i) right("Ibcast of layouts", ints[gaps ? 2 * i : i] == 3 * i);
    for (int i = 0; gaps && i < kInts - 1; ++i) right("gaps of Ibcast", ints[2 * i + 1] == -1);
    if (round % 2 == 0) MPI_Bcast(ints, gaps ? 1 : kInts, gaps ? every_second : MPI_INT, root, world);
  }
  MPI_Type_free(&every_second);
}

/* As many bytes as an int has: one element at the root, four on the others. */
static void four_bytes(void) {
  MPI_Datatype four;
  MPI_Request request;
  MPI_Type_contiguous(4, MPI_BYTE, &four);
  MPI_Type_commit(&four);
  MPI_Barrier(world);
  for (int root = 0; root < size; ++root) {
    int data = rank == root ? 7 + root : -1;
    MPI_Ibcast(&data, rank == root ? 1 : 4, rank == root ? four : MPI_BYTE, root, world, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    right("Ibcast of four bytes", data == 7 + root);
  }
  MPI_Type_free(&four);
}

enum { kElements = 300, kStride = 3 };

/* Every third int. */
static MPI_Datatype spread(void) {
  MPI_Datatype type;
  MPI_Type_vector(kElements, 1, kStride, MPI_INT, &type);
  MPI_Type_commit(&type);
  return type;
}

/* Gives up a type, and has others that look otherwise, where its memory was if nobody keeps it. */
static void give_up(MPI_Datatype* type) {
  MPI_Datatype others[8];
  MPI_Type_free(type);
  for (int i = 0; i < 8; ++i) {
    MPI_Type_vector(kElements, 1, 1 + i % 2, MPI_INT, &others[i]);
    MPI_Type_commit(&others[i]);
  }
  for (int i = 0; i < 8; ++i) MPI_Type_free(&others[i]);
}

static void fill(int* ints, int value) {
  for (int i = 0; i < kElements * kStride; ++i) ints[i] = i % kStride == 0 ? value + i : -1;
}

/* A Bcast and an Allgather of which the type has been freed before they are started, or before they are
 * waited for; nonblocking, which begin at once, then persistent. */
static void freed_types(void) {
  enum { kRoot = 1, kMostRanks = 64 };
  static int ints[kElements * kStride], part[kElements * kStride], all[kMostRanks * kElements];
  MPI_Barrier(world);
  for (int way = 0; way < 3; ++way) {
    MPI_Datatype types[2] = {spread(), spread()};
    MPI_Request requests[2];
    fill(ints, rank == kRoot ? 50 : 0);
    fill(part, 1000 * rank);
    memset(all, 0, sizeof all);
    if (way == 0) {
      MPI_Ibcast(ints, 1, types[0], kRoot, world, &requests[0]);
      MPI_Iallgather(part, 1, types[1], all, kElements, MPI_INT, world, &requests[1]);
    } else {
      PERSISTENT(Bcast)(ints, 1, types[0], kRoot, world, MPI_INFO_NULL, &requests[0]);
      PERSISTENT(Allgather)
      (part, 1, types[1], all, kElements, MPI_INT, world, MPI_INFO_NULL, &requests[1]);
    }
    for (int i = 0; way == 1 && i < 2; ++i) give_up(&types[i]);
    if (way != 0) MPI_Startall(2, requests);
    for (int i = 0; way != 1 && i < 2; ++i) give_up(&types[i]);
    for (int i = 0; i < 2; ++i) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    for (int i = 0; i < kElements * kStride; ++i)
      right("Bcast of a freed type", ints[i] == (i % kStride == 0 ? 50 + i : -1));
    for (int i = 0; i < size * kElements; ++i)
      right("Allgather of a freed type", all[i] == 1000 * (i / kElements) + kStride * (i % kElements));
    for (int i = 0; way != 0 && i < 2; ++i) MPI_Request_free(&requests[i]);
  }
}

/* The ints of an array with one between them and one before them, by their addresses. */
static MPI_Datatype at_addresses(int* ints, int count) {
  const int one = 1;
  MPI_Datatype every_second, type;
  MPI_Aint begin;
  MPI_Get_address(&ints[1], &begin);
  MPI_Type_vector(count, 1, 2, MPI_INT, &every_second);
  MPI_Type_create_hindexed(1, &one, &begin, every_second, &type);
  MPI_Type_free(&every_second);
  MPI_Type_commit(&type);
  return type;
}

/* Data at MPI_BOTTOM, whose types have its addresses. */
static void bottom(void) {
  enum { kInts = 50, kMostRanks = 64, kRoot = 1 };
  static int ints[2 * kInts + 1], part[2 * kInts + 1], all[2 * kInts * kMostRanks + 1], packed[kInts];
  MPI_Datatype types[3] = {at_addresses(ints, kInts), at_addresses(part, kInts), at_addresses(all, kInts)};
  MPI_Datatype parts;
  MPI_Request request;
  MPI_Type_create_resized(types[2], 0, 2 * kInts * (MPI_Aint)sizeof(int), &parts);
  MPI_Type_commit(&parts);
  MPI_Barrier(world);
  for (int way = 0; way < 6; ++way) {
    const int is_bcast = way % 2 == 0;
    for (int i = 0; i <= 2 * kInts; ++i) ints[i] = i % 2 && rank == kRoot ? 40 + i : -1;
    for (int i = 0; i <= 2 * kInts; ++i) part[i] = i % 2 ? 1000 * rank + i : -1;
    for (int i = 0; i <= 2 * kInts * size; ++i) all[i] = -1;
    if (way == 0) MPI_Bcast(MPI_BOTTOM, 1, types[0], kRoot, world);
    if (way == 1) MPI_Allgather(MPI_BOTTOM, 1, types[1], MPI_BOTTOM, 1, parts, world);
    if (way == 2) MPI_Ibcast(MPI_BOTTOM, 1, types[0], kRoot, world, &request);
    if (way == 3) MPI_Iallgather(MPI_BOTTOM, 1, types[1], MPI_BOTTOM, 1, parts, world, &request);
    if (way == 4) PERSISTENT(Bcast)(MPI_BOTTOM, 1, types[0], kRoot, world, MPI_INFO_NULL, &request);
    if (way == 5) {
      for (int i = 1; i < 2 * kInts; i += 2) all[2 * kInts * rank + i] = part[i];
      PERSISTENT(Allgather)
      (MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, MPI_BOTTOM, 1, parts, world, MPI_INFO_NULL, &request);
    }
    if (way >= 4) MPI_Start(&request);
    if (way >= 2) MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (way >= 4) MPI_Request_free(&request);
    for (int i = 0; is_bcast && i <= 2 * kInts; ++i)
      right("Bcast at MPI_BOTTOM", ints[i] == (i % 2 ? 40 + i : -1));
    for (int i = 0; !is_bcast && i < 2 * kInts * size; ++i)
      right("Allgather at MPI_BOTTOM", all[i] == (i % 2 ? 1000 * (i / 2 / kInts) + i % (2 * kInts) : -1));
  }
  /* One rank's data is at addresses, that of the others in a row. */
  for (int i = 0; i < 2 * kInts; ++i) ints[i] = rank == kRoot ? i : -1;
  if (rank == kRoot)
    MPI_Bcast(MPI_BOTTOM, 1, types[0], kRoot, world);
  else
    MPI_Bcast(packed, kInts, MPI_INT, kRoot, world);
  for (int i = 0; rank != kRoot && i < kInts; ++i) right("Bcast from MPI_BOTTOM", packed[i] == 2 * i + 1);
  for (int i = 0; i < 3; ++i) MPI_Type_free(&types[i]);
  MPI_Type_free(&parts);
}

/* Ranks that call MPI's functions with large counts and ranks that call the others, in the same calls; those
 * of barriers by both of their names, one of which is what Fortran 2008 calls. */
static void large_counts(void) {
#ifdef MPICH
  enum { kInts = 100, kMostRanks = 64, kWays = 3 };
  static int in[kInts * kMostRanks], sum[kInts * kMostRanks], part[kInts], all[kInts * kMostRanks];
  int few[kMostRanks];
  MPI_Count many[kMostRanks];
  MPI_Request r[5];
  const MPI_Comm w = world;
  const MPI_Info info = MPI_INFO_NULL;
  const int large = rank % 2, n = kInts * size;
  for (int i = 0; i < size; ++i) few[i] = kInts, many[i] = kInts;
  for (int way = 0; way < kWays; ++way) {
    int from[kInts];
    for (int i = 0; i < n; ++i) in[i] = i * (rank + 1), sum[i] = all[i] = -1;
    for (int i = 0; i < kInts; ++i) from[i] = rank == 1 ? 7 * i : -1, part[i] = -1;
    if (way == 0 && large) {
      MPI_Allreduce_c(in, sum, n, MPI_INT, MPI_SUM, w);
      MPI_Bcast_c(from, kInts, MPI_INT, 1, w);
      MPI_Allgather_c(in, kInts, MPI_INT, all, kInts, MPI_INT, w);
      MPI_Reduce_scatter_c(in, part, many, MPI_INT, MPI_SUM, w);
      PMPI_Barrier(w);
    } else if (way == 0) {
      MPI_Allreduce(in, sum, n, MPI_INT, MPI_SUM, w);
      MPI_Bcast(from, kInts, MPI_INT, 1, w);
      MPI_Allgather(in, kInts, MPI_INT, all, kInts, MPI_INT, w);
      MPI_Reduce_scatter(in, part, few, MPI_INT, MPI_SUM, w);
      MPI_Barrier(w);
    } else if (way == 1 && large) {
      MPI_Iallreduce_c(in, sum, n, MPI_INT, MPI_SUM, w, &r[0]);
      MPI_Ibcast_c(from, kInts, MPI_INT, 1, w, &r[1]);
      MPI_Iallgather_c(in, kInts, MPI_INT, all, kInts, MPI_INT, w, &r[2]);
      MPI_Ireduce_scatter_c(in, part, many, MPI_INT, MPI_SUM, w, &r[3]);
      PMPI_Ibarrier(w, &r[4]);
    } else if (way == 1) {
      MPI_Iallreduce(in, sum, n, MPI_INT, MPI_SUM, w, &r[0]);
      MPI_Ibcast(from, kInts, MPI_INT, 1, w, &r[1]);
      MPI_Iallgather(in, kInts, MPI_INT, all, kInts, MPI_INT, w, &r[2]);
      MPI_Ireduce_scatter(in, part, few, MPI_INT, MPI_SUM, w, &r[3]);
      MPI_Ibarrier(w, &r[4]);
    } else if (large) {
      MPI_Allreduce_init_c(in, sum, n, MPI_INT, MPI_SUM, w, info, &r[0]);
      MPI_Bcast_init_c(from, kInts, MPI_INT, 1, w, info, &r[1]);
      MPI_Allgather_init_c(in, kInts, MPI_INT, all, kInts, MPI_INT, w, info, &r[2]);
      MPI_Reduce_scatter_init_c(in, part, many, MPI_INT, MPI_SUM, w, info, &r[3]);
      PMPI_Barrier_init(w, info, &r[4]);
    } else {
      MPI_Allreduce_init(in, sum, n, MPI_INT, MPI_SUM, w, info, &r[0]);
      MPI_Bcast_init(from, kInts, MPI_INT, 1, w, info, &r[1]);
      MPI_Allgather_init(in, kInts, MPI_INT, all, kInts, MPI_INT, w, info, &r[2]);
      MPI_Reduce_scatter_init(in, part, few, MPI_INT, MPI_SUM, w, info, &r[3]);
      MPI_Barrier_init(w, info, &r[4]);
    }
    if (way == 2) MPI_Startall(5, r);
    for (int i = 0; way > 0 && i < 5; ++i) MPI_Wait(&r[i], MPI_STATUS_IGNORE);
    for (int i = 0; way == 2 && i < 5; ++i) MPI_Request_free(&r[i]);
    const int ranks = size * (size + 1) / 2;
    for (int i = 0; i < n; ++i) right("Allreduce", sum[i] == i * ranks);
    for (int i = 0; i < n; ++i) right("Allgather", all[i] == i % kInts * (i / kInts + 1));
    for (int i = 0; i < kInts; ++i) right("Bcast", from[i] == 7 * i);
    for (int i = 0; i < kInts; ++i) right("Reduce_scatter", part[i] == (rank * kInts + i) * ranks);
  }
#endif
}

static const Scene scenes[] = {{"vector", vector},
                               {"four bytes", four_bytes},
                               {"freed-types", freed_types},
                               {"bottom", bottom},
                               {"large counts", large_counts}};

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int wrong = play_scenes(scenes, sizeof scenes / sizeof scenes[0], argc, argv, rank);
  MPI_Finalize();
  return wrong;
}
