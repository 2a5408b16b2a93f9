/* A line is fitted to points that are spread over all ranks, by gradient descent: an ordinary MPI program,
 * whose sums EPIC makes.
 *
 *   mpicc examples/mpi/fit.c -o fit && scripts/epic-run --mpi mpirun --host a,b,c,d ./fit */
#include <math.h>
#include <mpi.h>
#include <stdio.h>

enum { kPoints = 1000, kSteps = 200 };

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);

  /* Points of y = 3x - 1, every rank's own. */
  double x[kPoints], y[kPoints];
  for (int i = 0; i < kPoints; ++i) {
    x[i] = (double)(i * ranks + rank) / (kPoints * ranks);
    y[i] = 3 * x[i] - 1;
  }

  double line[2] = {0, 0}; /* slope and height */
  MPI_Bcast(line, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  for (int step = 0; step < kSteps; ++step) {
    double gradient[2] = {0, 0}, curvature[3] = {0, 0, 0};
    for (int i = 0; i < kPoints; ++i) {
      const double error = line[0] * x[i] + line[1] - y[i];
      gradient[0] += error * x[i];
      gradient[1] += error;
      curvature[0] += x[i] * x[i];
      curvature[1] += x[i];
      curvature[2] += 1;
    }
    MPI_Allreduce(MPI_IN_PLACE, gradient, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, curvature, 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    const double rate = 1 / (curvature[0] + curvature[1] + curvature[2]);
    line[0] -= rate * 2 * gradient[0];
    line[1] -= rate * 2 * gradient[1];
  }

  const int right = fabs(line[0] - 3) < 0.01 && fabs(line[1] + 1) < 0.01;
  if (rank == 0)
    printf("%s: y = %.2f x %+.2f, of %d points\n", right ? "ok" : "wrong", line[0], line[1], kPoints * ranks);
  MPI_Finalize();
  return right ? 0 : 1;
}
