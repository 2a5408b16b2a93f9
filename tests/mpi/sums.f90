! An ordinary MPI program in Fortran: sums of Fortran's types, broadcasts, an operation in place, and nonblocking calls.
program sums
  use mpi
  implicit none
  integer, parameter :: n = 3000
  integer :: rank, ranks, error, i, r, wrong, requests(3)
  integer :: whole(n), whole_sum(n)
  real :: single(n)
  double precision :: double(n), double_max(n)

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  wrong = 0
  do i = 1, n
    whole(i) = i * (rank + 1)
    single(i) = real(i + rank)
    double(i) = dble(mod(i + rank, 17))
  end do
  call MPI_Allreduce(whole, whole_sum, n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  call MPI_Allreduce(MPI_IN_PLACE, single, n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, error)
  call MPI_Reduce(double, double_max, n, MPI_DOUBLE_PRECISION, MPI_MAX, 1, MPI_COMM_WORLD, error)
  do i = 1, n
    if (whole_sum(i) /= i * ranks * (ranks + 1) / 2) wrong = wrong + 1
    if (single(i) /= real(i * ranks + ranks * (ranks - 1) / 2)) wrong = wrong + 1
    if (rank == 1 .and. double_max(i) /= dble(maxval([(mod(i + r, 17), r = 0, ranks - 1)]))) wrong = wrong + 1
  end do
  call MPI_Bcast(whole, n, MPI_INTEGER, 2, MPI_COMM_WORLD, error)
  do i = 1, n
    if (whole(i) /= i * 3) wrong = wrong + 1
  end do
  whole = rank + 1
  double = dble(rank)
  call MPI_Iallreduce(whole, whole_sum, n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, requests(1), error)
  call MPI_Ibcast(double, n, MPI_DOUBLE_PRECISION, ranks - 1, MPI_COMM_WORLD, requests(2), error)
  call MPI_Ibarrier(MPI_COMM_WORLD, requests(3), error)
  call MPI_Waitall(3, requests, MPI_STATUSES_IGNORE, error)
  do i = 1, n
    if (whole_sum(i) /= ranks * (ranks + 1) / 2) wrong = wrong + 1
    if (double(i) /= dble(ranks - 1)) wrong = wrong + 1
  end do
  call MPI_Barrier(MPI_COMM_WORLD, error)
  write (*, '(a,i0,a,i0,a)') 'rank ', rank, ': Fortran checks, ', wrong, ' wrong'
  call MPI_Finalize(error)
  if (wrong /= 0) stop 1
end program sums
