! Heat in a rod, a part of which is every rank's: neighbours exchange their ends by messages of the MPI's, the largest change
! and the sum are EPIC's.
!
!   mpifort examples/mpi/heat.f90 -o heat && scripts/epic-run --mpi mpirun --host a,b,c,d ./heat
program heat
  use mpi
  implicit none
  integer, parameter :: cells = 6, tag = 1
  double precision :: rod(0:cells + 1), new(cells), change, total
  integer :: rank, ranks, left, right, error, step, status(MPI_STATUS_SIZE)
  logical :: good

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  left = merge(rank - 1, MPI_PROC_NULL, rank > 0)
  right = merge(rank + 1, MPI_PROC_NULL, rank < ranks - 1)

  ! Both ends are held at 1, the rod begins at 0.
  rod = 0
  if (rank == 0) rod(0) = 1
  if (rank == ranks - 1) rod(cells + 1) = 1
  change = 1
  step = 0
  do while (change > 1d-6)
    call MPI_Sendrecv(rod(1), 1, MPI_DOUBLE_PRECISION, left, tag, rod(cells + 1), 1, MPI_DOUBLE_PRECISION, right, tag, &
                      MPI_COMM_WORLD, status, error)
    call MPI_Sendrecv(rod(cells), 1, MPI_DOUBLE_PRECISION, right, tag, rod(0), 1, MPI_DOUBLE_PRECISION, left, tag, &
                      MPI_COMM_WORLD, status, error)
    new = (rod(0:cells - 1) + rod(2:cells + 1)) / 2
    change = maxval(abs(new - rod(1:cells)))
    call MPI_Allreduce(MPI_IN_PLACE, change, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, error)
    rod(1:cells) = new
    step = step + 1
  end do

  total = sum(rod(1:cells))
  call MPI_Allreduce(MPI_IN_PLACE, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  good = abs(total - cells * ranks) < 0.01 * cells * ranks
  if (rank == 0) write (*, '(a,f5.3,a,i0,a)') trim(merge('ok   ', 'wrong', good))//': mean ', total / (cells * ranks), &
                                              ' after ', step, ' steps'
  call MPI_Finalize(error)
  if (.not. good) stop 1
end program heat
