// mpi_calls DEVICE COLLECTIVE SIZE:ITERATIONS...: times collectives of MPI the way that epic-perf times ours.
//
// COLLECTIVE is allreduce, reduce, broadcast, reducescatter, allgather or barrier; SIZE the bytes of all ranks' shares
// together, FP32. Rank 0 writes a line {"size", "time_us", "sent_bytes", "received_bytes"} for each size: the slowest
// rank's mean time of a call, and what the network device DEVICE of each rank has sent and received in all timed calls.
// The result of the last timed call is verified; a wrong element ends the program with status 1.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/link_bytes.h"

static int rank, ranks;
static float *send_buffer, *recv_buffer;

// Every element of a rank's buffer, and what comes of it.
static float own_value(int of_rank) { return (float)(of_rank + 1); }
static float sum_of_values(void) { return (float)(ranks * (ranks + 1) / 2); }

static void call(const char* collective, int count) {
  if (!strcmp(collective, "allreduce")) {
    MPI_Allreduce(send_buffer, recv_buffer, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  } else if (!strcmp(collective, "reduce")) {
    MPI_Reduce(send_buffer, recv_buffer, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
  } else if (!strcmp(collective, "broadcast")) {
    MPI_Bcast(rank == 0 ? send_buffer : recv_buffer, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
  } else if (!strcmp(collective, "reducescatter")) {
    MPI_Reduce_scatter_block(send_buffer, recv_buffer, count / ranks, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  } else if (!strcmp(collective, "allgather")) {
    MPI_Allgather(send_buffer, count / ranks, MPI_FLOAT, recv_buffer, count / ranks, MPI_FLOAT, MPI_COMM_WORLD);
  } else {
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

// Elements of the last call's result that are wrong at this rank.
static int wrong_elements(const char* collective, int count) {
  int wrong = 0;
  if (!strcmp(collective, "allreduce") || (!strcmp(collective, "reduce") && rank == 0)) {
    for (int i = 0; i < count; ++i) wrong += recv_buffer[i] != sum_of_values();
  } else if (!strcmp(collective, "reducescatter")) {
    for (int i = 0; i < count / ranks; ++i) wrong += recv_buffer[i] != sum_of_values();
  } else if (!strcmp(collective, "broadcast") && rank != 0) {
    for (int i = 0; i < count; ++i) wrong += recv_buffer[i] != own_value(0);
  } else if (!strcmp(collective, "allgather")) {
    for (int i = 0; i < count / ranks * ranks; ++i) wrong += recv_buffer[i] != own_value(i / (count / ranks));
  }
  return wrong;
}

// The device's counters, when all ranks are here; none go on before all have read theirs.
static struct LinkBytes count_bytes(const char* device) {
  struct LinkBytes bytes = {0, 0};
  MPI_Barrier(MPI_COMM_WORLD);
  if (CountLinkBytes(device, &bytes) != 0) {
    fprintf(stderr, "there is no network device %s\n", device);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return bytes;
}

// Of every rank, [1,2,...].
static void print_bytes(const char* name, uint64_t mine) {
  uint64_t* const all = malloc((size_t)ranks * sizeof(uint64_t));
  MPI_Gather(&mine, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  if (rank == 0) printf(", \"%s\": [", name);
  for (int r = 0; rank == 0 && r < ranks; ++r) printf("%s%" PRIu64, r ? ", " : "", all[r]);
  if (rank == 0) printf("]");
  free(all);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int any_wrong = 0;
  for (int a = 3; a < argc; ++a) {
    char* colon;
    const long size = strtol(argv[a], &colon, 10);
    const int iterations = atoi(colon + 1), count = (int)(size / (long)sizeof(float));
    send_buffer = malloc((size_t)size + sizeof(float));
    recv_buffer = malloc((size_t)size + sizeof(float));
    for (int i = 0; i < count; ++i) send_buffer[i] = own_value(rank);
    memset(recv_buffer, 0xee, (size_t)size);
    for (int i = 0; i < 1 + iterations / 10; ++i) call(argv[2], count);
    const struct LinkBytes before = count_bytes(argv[1]);
    const double begin = MPI_Wtime();
    for (int i = 0; i < iterations; ++i) call(argv[2], count);
    const double mine = (MPI_Wtime() - begin) * 1e6 / iterations;
    const struct LinkBytes after = count_bytes(argv[1]);
    double slowest;
    MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    const int wrong = wrong_elements(argv[2], count);
    MPI_Allreduce(&wrong, &any_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && any_wrong) fprintf(stderr, "%s of %ld bytes: %d wrong elements\n", argv[2], size, any_wrong);
    if (rank == 0) printf("{\"size\": %ld, \"time_us\": %.3f", size, slowest);
    print_bytes("sent_bytes", after.sent - before.sent);
    print_bytes("received_bytes", after.received - before.received);
    if (rank == 0) printf("}\n");
    fflush(stdout);
    free(send_buffer);
    free(recv_buffer);
    if (any_wrong) break;
  }
  MPI_Finalize();
  return any_wrong != 0;
}
