! An ordinary MPI program in Fortran 2008: nonblocking calls, waited for and tested one by one, any of them and all together.
program waits
  use mpi_f08
  implicit none
  integer, parameter :: n = 500, calls = 4
  integer :: rank, ranks, i, way, index, wrong
  integer, asynchronous :: in(n, calls), out(n, calls)
  logical :: ended
  type(MPI_Request) :: requests(calls)

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  in = rank
  call MPI_Bcast(in, n, MPI_INTEGER, 1, MPI_COMM_WORLD)
  wrong = count(in(:, 1) /= 1)
  call MPI_Barrier(MPI_COMM_WORLD)
  do way = 1, 4
    out = 0
    do i = 1, calls
      in(:, i) = rank + i * way
      call MPI_Iallreduce(in(:, i), out(:, i), n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, requests(i))
    end do
    do i = 1, calls
      ended = .false.
      if (way == 1) call MPI_Wait(requests(i), MPI_STATUS_IGNORE)
      if (way == 2) call MPI_Waitany(calls, requests, index, MPI_STATUS_IGNORE)
      do while (way == 3 .and. .not. ended)
        call MPI_Test(requests(i), ended, MPI_STATUS_IGNORE)
      end do
    end do
    if (way == 4) call MPI_Waitall(calls, requests, MPI_STATUSES_IGNORE)
    do i = 1, calls
      if (any(out(:, i) /= ranks * i * way + ranks * (ranks - 1) / 2)) wrong = wrong + 1
    end do
  end do
  write (*, '(a,i0,a,i0,a)') 'rank ', rank, ': Fortran 2008 checks, ', wrong, ' wrong'
  call MPI_Finalize()
  if (wrong /= 0) stop 1
end program waits
