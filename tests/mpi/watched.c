/* A few calls of each kind, for a tool that counts them; with a file's name that file is written, too. An
 * ordinary MPI program, but that with "beyond" it reads what it does not have. Exit status 0: all was right.
 */
#include <mpi.h>
#include <stdlib.h>

#include "tests/mpi/checks.h"

static int rank, size;

static void sums(void) {
  for (int i = 0; i < 3; ++i) {
    const int in[2] = {1 << (4 * rank), i};
    int out[2] = {0}, later[2] = {0};
    MPI_Request request;
    MPI_Allreduce(in, out, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Iallreduce(in, later, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    right("sum", out[0] == ((1 << (4 * size)) - 1) / 15 && out[1] == i * size);
    right("sum that does not wait", later[0] == out[0] && later[1] == out[1]);
  }
}

/* What the MPI calls for it is its own. */
static void write_file(const char* name) {
  int all[16] = {0};
  MPI_File file;
  MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
  MPI_File_write_at_all(file, rank * (MPI_Offset)sizeof rank, &rank, 1, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_sync(file);
  MPI_File_read_at_all(file, 0, all, size, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_close(&file);
  for (int i = 0; i < size; ++i) right("file", all[i] == i);
}

static void read_beyond(void) {
  const volatile int* const ints = calloc((size_t)size, sizeof *ints);
  right("no more", ints != NULL && ints[size] == 0);
  free((void*)ints);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  sums();
  if (argc == 2 && strcmp(argv[1], "beyond") == 0)
    read_beyond();
  else if (argc == 2)
    write_file(argv[1]);
  const int wrong = tell_checks(rank);
  MPI_Finalize();
  return wrong;
}
