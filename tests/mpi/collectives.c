/* Calls MPI's collectives in every form, type and operation that EPIC has and some that it has not, and
 * compares each element of each result with what the MPI itself makes of all ranks' inputs
 * (MPI_Reduce_local). An ordinary MPI program: it knows nothing of EPIC. Exit status 0: all was right.
 *
 * With the argument "own" the MPI makes nonblocking and persistent calls, or what of them is within a host,
 * and the least and the most of unsigned numbers are left out of them: both MPIs compare some as signed. */
/* clang-format off */
#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h> /* needs mpi.h */
#endif
/* clang-format on */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mpi/checks.h"

/* Open MPI 4.1 has them as an extension. */
#ifdef OPEN_MPI
#define PERSISTENT(name) MPIX_##name##_init
#else
#define PERSISTENT(name) MPI_##name##_init
#endif

enum { kLongest = 70000, kShort = 1000 };

/* With the type that the MPI's own result is made of: Open MPI 4.1.4 compares MPI_UNSIGNED_LONG as signed
 * numbers. */
static const struct {
  MPI_Datatype type, reference;
  int is_float;
} types[] = {
    {MPI_FLOAT, MPI_FLOAT, 1},           {MPI_DOUBLE, MPI_DOUBLE, 1},     {MPI_INT8_T, MPI_INT8_T, 0},
    {MPI_INT16_T, MPI_INT16_T, 0},       {MPI_INT32_T, MPI_INT32_T, 0},   {MPI_INT64_T, MPI_INT64_T, 0},
    {MPI_UINT8_T, MPI_UINT8_T, 0},       {MPI_UINT16_T, MPI_UINT16_T, 0}, {MPI_UINT32_T, MPI_UINT32_T, 0},
    {MPI_UINT64_T, MPI_UINT64_T, 0},     {MPI_LONG, MPI_LONG, 0},         {MPI_UNSIGNED, MPI_UNSIGNED, 0},
    {MPI_UNSIGNED_LONG, MPI_UINT64_T, 0}};
enum { kTypes = sizeof types / sizeof types[0] };

/* The first four are for all types, the others for integers. */
static const MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MIN,  MPI_MAX, MPI_BAND,
                             MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR};
enum { kOps = sizeof ops / sizeof ops[0], kFloatOps = 4 };

static int rank, size, of_the_mpi;
static char *in, *out, *want, *other;

/* What a rank gives at an index: exact in every type, also multiplied by all ranks. */
static void put(char* buffer, int t, int i, int of_rank) {
  const uint64_t bits = (uint64_t)(i * 2654435761u) ^ (0x9e3779b97f4a7c15ull << (8 * of_rank % 32));
  int bytes;
  MPI_Type_size(types[t].type, &bytes);
  if (types[t].is_float) {
    const double value = (double)((i + of_rank * 5) % 7 - 3);
    const float narrow = (float)value;
    memcpy(buffer + (size_t)i * (size_t)bytes, bytes == 4 ? (const void*)&narrow : &value, (size_t)bytes);
  } else {
    /* Zeros are rare, but there are some, for the logical operations. Sums of small types do not overflow:
     * Open MPI's wrap in some of its functions and saturate in others. */
    const uint64_t value = (i + of_rank) % 5 == 0 ? 0 : bytes <= 2 ? bits % 4 : bits;
    memcpy(buffer + (size_t)i * (size_t)bytes, &value, (size_t)bytes);
  }
}

static void fill(char* buffer, int t, int count, int of_rank) {
  for (int i = 0; i < count; ++i) put(buffer, t, i, of_rank);
}

/* Whether these are unsigned numbers that are compared. */
static int compares_unsigned(int t, MPI_Op op) {
  static const MPI_Datatype no_signs[] = {MPI_UINT8_T,  MPI_UINT16_T, MPI_UINT32_T,
                                          MPI_UINT64_T, MPI_UNSIGNED, MPI_UNSIGNED_LONG};
  int has_sign = 1;
  for (size_t i = 0; i < sizeof no_signs / sizeof no_signs[0]; ++i) has_sign &= types[t].type != no_signs[i];
  return (op == MPI_MIN || op == MPI_MAX) && !has_sign;
}

/* Where the MPI compares unsigned numbers as signed ones, as MPICH 4.0.2 does, these are in the right order
 * with the top bit turned round. */
static void turn_round(char* buffer, int t, MPI_Op op, int count) {
#ifdef MPICH
  int bytes;
  MPI_Type_size(types[t].type, &bytes);
  for (int i = 1; compares_unsigned(t, op) && i <= count; ++i)
    buffer[(size_t)i * (size_t)bytes - 1] ^= (char)0x80;
#else
  (void)buffer, (void)t, (void)op, (void)count;
#endif
}

/* The MPI's own result of all ranks' inputs in a round, which are those of the next ranks in the first, into
 * `want`. */
static void expect(int t, MPI_Op op, int count, int round) {
  fill(want, t, count, round);
  turn_round(want, t, op, count);
  for (int r = 1; r < size; ++r) {
    fill(other, t, count, r + round);
    turn_round(other, t, op, count);
    MPI_Reduce_local(other, want, count, types[t].reference, op);
  }
  turn_round(want, t, op, count);
}

static void reduce_all_forms(int t, int o, int count) {
  const MPI_Datatype type = types[t].type;
  const int part = count / size;
  char what[80];
  int bytes;
  int counts[64];
  MPI_Type_size(type, &bytes);
  const size_t all = (size_t)count * (size_t)bytes;
  snprintf(what, sizeof what, "type %d, operation %d, %d elements", t, o, count);
  expect(t, ops[o], count, 0);
  for (int in_place = 0; in_place < 2; ++in_place) {
    fill(in, t, count, rank);
    fill(out, t, in_place ? count : 0, rank);
    MPI_Allreduce(in_place ? MPI_IN_PLACE : in, out, count, type, ops[o], MPI_COMM_WORLD);
    same("Allreduce", what, out, want, all);

    const int root = (t + o) % size;
    memset(out, 0x55, all);
    if (rank == root && in_place) fill(out, t, count, rank);
    MPI_Reduce(rank == root && in_place ? MPI_IN_PLACE : in, rank == root ? out : NULL, count, type, ops[o],
               root, MPI_COMM_WORLD);
    if (rank == root) same("Reduce", what, out, want, all);

    if (part == 0) continue;
    const size_t own = (size_t)part * (size_t)bytes;
    if (in_place) fill(out, t, part * size, rank);
    MPI_Reduce_scatter_block(in_place ? MPI_IN_PLACE : in, out, part, type, ops[o], MPI_COMM_WORLD);
    same("Reduce_scatter_block", what, out, want + (size_t)rank * own, own);
    for (int r = 0; r < size; ++r) counts[r] = part;
    if (in_place) fill(out, t, part * size, rank);
    MPI_Reduce_scatter(in_place ? MPI_IN_PLACE : in, out, counts, type, ops[o], MPI_COMM_WORLD);
    same("Reduce_scatter", what, out, want + (size_t)rank * own, own);
  }
}

enum { kAllreduce, kReduce, kBlock, kScatter, kReductions };
static const char* const names[kReductions] = {"Allreduce", "Reduce", "Reduce_scatter_block",
                                               "Reduce_scatter"};

/* A reduction that does not wait. */
typedef struct {
  int form, t, o, count, in_place, root;
  char out[8 * kShort];
  MPI_Request request;
} Reduction;
static int parts[64]; /* of all ranks */

static void fill_reduction(Reduction* it, int round) {
  fill(in, it->t, it->count, rank + round);
  memset(it->out, 0x55, sizeof it->out);
  if (it->in_place && (it->form != kReduce || rank == it->root))
    fill(it->out, it->t, it->count, rank + round);
}

static void begin(Reduction* it) {
  const MPI_Datatype type = types[it->t].type;
  const int in_place = it->in_place && (it->form != kReduce || rank == it->root);
  const void* const from = in_place ? MPI_IN_PLACE : in;
  for (int r = 0; r < size; ++r) parts[r] = it->count / size;
  if (it->form == kAllreduce)
    MPI_Iallreduce(from, it->out, it->count, type, ops[it->o], MPI_COMM_WORLD, &it->request);
  if (it->form == kReduce)
    MPI_Ireduce(from, it->out, it->count, type, ops[it->o], it->root, MPI_COMM_WORLD, &it->request);
  if (it->form == kBlock)
    MPI_Ireduce_scatter_block(from, it->out, parts[0], type, ops[it->o], MPI_COMM_WORLD, &it->request);
  if (it->form == kScatter)
    MPI_Ireduce_scatter(from, it->out, parts, type, ops[it->o], MPI_COMM_WORLD, &it->request);
}

static void make(Reduction* it, MPI_Comm comm) {
  const MPI_Datatype type = types[it->t].type;
  const MPI_Info info = MPI_INFO_NULL;
  for (int r = 0; r < size; ++r) parts[r] = it->count / size;
  if (it->form == kAllreduce)
    PERSISTENT(Allreduce)(in, it->out, it->count, type, ops[it->o], comm, info, &it->request);
  if (it->form == kReduce)
    PERSISTENT(Reduce)(in, it->out, it->count, type, ops[it->o], it->root, comm, info, &it->request);
  if (it->form == kBlock)
    PERSISTENT(Reduce_scatter_block)(in, it->out, parts[0], type, ops[it->o], comm, info, &it->request);
  if (it->form == kScatter)
    PERSISTENT(Reduce_scatter)(in, it->out, parts, type, ops[it->o], comm, info, &it->request);
}

static void check(const Reduction* it, const char* how) {
  char what[80];
  int bytes;
  MPI_Type_size(types[it->t].type, &bytes);
  snprintf(what, sizeof what, "%s, type %d, operation %d, %d elements", how, it->t, it->o, it->count);
  const size_t all = (size_t)it->count * (size_t)bytes, own = (size_t)(it->count / size) * (size_t)bytes;
  if (it->form == kBlock || it->form == kScatter)
    same(names[it->form], what, it->out, want + (size_t)rank * own, own);
  else if (it->form != kReduce || rank == it->root)
    same(names[it->form], what, it->out, want, all);
}

/* All that reduce, under way together. */
static void nonblocking(int t, int o, int count) {
  static Reduction all[kReductions];
  const int forms = count < size ? kBlock : kReductions;
  if (of_the_mpi && compares_unsigned(t, ops[o])) return;
  expect(t, ops[o], count, 0);
  for (int form = 0; form < forms; ++form) {
    all[form] = (Reduction){form, t, o, count, (t + o) % 2, (t + o) % size, "", MPI_REQUEST_NULL};
    fill_reduction(&all[form], 0);
    begin(&all[form]);
  }
  for (int form = 0; form < forms; ++form) MPI_Wait(&all[form].request, MPI_STATUS_IGNORE);
  for (int form = 0; form < forms; ++form) check(&all[form], "nonblocking");
}

/* One for each type, so that all operations and forms come; as many of a communicator as have groups. */
static void persistent(void) {
  enum { kOfComm = 8 };
  static Reduction it;
  MPI_Comm comm = MPI_COMM_NULL;
  for (int t = 0; t < kTypes; ++t) {
    const int o = t % (types[t].is_float ? kFloatOps : kOps);
    if (t % kOfComm == 0) {
      if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
      MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    }
    if (of_the_mpi && compares_unsigned(t, ops[o])) continue;
    it = (Reduction){t % kReductions, t, o, kShort, 0, t % size, "", MPI_REQUEST_NULL};
    make(&it, comm);
    for (int round = 0; round < 2; ++round) {
      expect(t, ops[o], kShort, round);
      fill_reduction(&it, round);
      MPI_Start(&it.request);
      MPI_Wait(&it.request, MPI_STATUS_IGNORE);
      check(&it, "persistent");
    }
    MPI_Request_free(&it.request);
  }
  MPI_Comm_free(&comm);
}

/* Bytes of every rank, and where gaps are, what was there before. */
static void copies(int count) {
  char what[80];
  const size_t all = (size_t)count * sizeof(int);
  int* const numbers = (int*)in;
  int* const results = (int*)out;
  snprintf(what, sizeof what, "%d elements", count);
  for (int root = 0; root < size; ++root) {
    for (int i = 0; i < count; ++i) ((int*)want)[i] = i * 3 + root;
    memcpy(out, want, rank == root ? all : 0);
    MPI_Bcast(out, count, MPI_INT, root, MPI_COMM_WORLD);
    same("Bcast", what, out, want, all);
  }
  for (int in_place = 0; in_place < 2; ++in_place) {
    const int part = count / size;
    for (int i = 0; i < part * size; ++i) ((int*)want)[i] = i % part + 1000 * (i / part);
    for (int i = 0; i < part; ++i) (in_place ? results + rank * part : numbers)[i] = i + 1000 * rank;
    if (in_place)
      MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, part, MPI_INT, MPI_COMM_WORLD);
    else
      MPI_Allgather(in, part, MPI_INT, out, part, MPI_INT, MPI_COMM_WORLD);
    same("Allgather", what, out, want, (size_t)(part * size) * sizeof(int));
  }
}

/* Every second int: a vector on even ranks, plain ints on odd ones, in the same call. */
static void layouts(void) {
  enum { kCount = 500 };
  MPI_Datatype vector, resized, shifted;
  const int displacement = 3;
  int* const ints = (int*)out;
  MPI_Type_vector(kCount, 1, 2, MPI_INT, &vector);
  MPI_Type_create_resized(vector, 0, 2 * kCount * (MPI_Aint)sizeof(int), &resized);
  MPI_Type_create_indexed_block(1, kCount, &displacement, MPI_INT, &shifted);
  MPI_Type_commit(&resized);
  MPI_Type_commit(&shifted);
  const int has_gaps = rank % 2 == 0;
  for (int root = 0; root < size; ++root) {
    for (int i = 0; i < 2 * kCount; ++i) ints[i] = -1;
    for (int i = 0; rank == root && i < kCount; ++i) ints[has_gaps ? 2 * i : i + displacement] = i + root;
    if (has_gaps)
      MPI_Bcast(out, 1, resized, root, MPI_COMM_WORLD);
    else
      MPI_Bcast(out, 1, shifted, root, MPI_COMM_WORLD);
    for (int i = 0; i < kCount; ++i)
      right("Bcast of layouts", ints[has_gaps ? 2 * i : i + displacement] == i + root);
    for (int i = 0; has_gaps && i < kCount; ++i) right("gaps of Bcast", ints[2 * i + 1] == -1);
  }
  for (int i = 0; i < 2 * kCount * size; ++i) ints[i] = -1;
  for (int i = 0; i < kCount; ++i) ((int*)in)[i] = i + 1000 * rank;
  if (has_gaps)
    MPI_Allgather(in, kCount, MPI_INT, out, 1, resized, MPI_COMM_WORLD);
  else
    MPI_Allgather(in, kCount, MPI_INT, out, kCount, MPI_INT, MPI_COMM_WORLD);
  for (int i = 0; i < kCount * size; ++i) {
    right("Allgather of layouts", ints[has_gaps ? 2 * i : i] == i % kCount + 1000 * (i / kCount));
    right("gaps of Allgather", !has_gaps || ints[2 * i + 1] == -1);
  }
  MPI_Type_free(&vector);
  MPI_Type_free(&resized);
  MPI_Type_free(&shifted);
}

static void own_sum(void* from, void* to, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *count; ++i) ((int*)to)[i] += ((int*)from)[i];
}

/* What EPIC does not do: right all the same. */
static void the_mpis_own(void) {
  struct {
    double value;
    int at;
  } least = {(double)((rank + 1) % size), rank}, found;
  MPI_Allreduce(&least, &found, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
  right("MINLOC", found.value == 0 && found.at == size - 1);
  MPI_Op op;
  int mine = 1 << (3 * rank), sum = 0, none = 7;
  MPI_Op_create(own_sum, 1, &op);
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, op, MPI_COMM_WORLD);
  right("own operation", sum == 011111111 >> (24 - 3 * size));
  MPI_Op_free(&op);
  MPI_Allreduce(&mine, &none, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  right("no elements", none == 7);
  double complex_in[2] = {rank, 1}, complex_out[2];
  MPI_Allreduce(complex_in, complex_out, 1, MPI_C_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD);
  right("complex", complex_out[0] == size * (size - 1) / 2.0 && complex_out[1] == size);
  int counts[64], all[64 * 64], part[64];
  for (int r = 0; r < size; ++r) counts[r] = r;
  for (int i = 0; i < 64 * 64; ++i) all[i] = i;
  MPI_Reduce_scatter(all, part, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < rank; ++i) right("unequal counts", part[i] == size * (rank * (rank - 1) / 2 + i));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  of_the_mpi = argc == 2 && strcmp(argv[1], "own") == 0;
  in = malloc(8 * kLongest);
  out = malloc(8 * kLongest);
  want = malloc(8 * kLongest);
  other = malloc(8 * kLongest);
  for (int t = 0; t < kTypes; ++t) {
    for (int o = 0; o < (types[t].is_float ? kFloatOps : kOps); ++o) {
      reduce_all_forms(t, o, 1);
      reduce_all_forms(t, o, kShort);
      if (!of_the_mpi) nonblocking(t, o, 1);
      nonblocking(t, o, kShort);
    }
  }
  reduce_all_forms(0, 0, kLongest);
  reduce_all_forms(1, 2, kLongest);
  persistent();
  copies(4);
  copies(3000);
  copies(kLongest);
  layouts();
  the_mpis_own();
  MPI_Barrier(MPI_COMM_WORLD);
  const int wrong = tell_checks(rank);
  free(in);
  free(out);
  free(want);
  free(other);
  MPI_Finalize();
  return wrong;
}
