! An ordinary MPI program in Fortran: the collectives that EPIC has, blocking, nonblocking and persistent, of Fortran's types and
! of a derived one; reductions are compared with what the MPI itself makes of all ranks' inputs (MPI_Reduce_local). With the
! argument "once" persistent calls are started once: MPICH 4.0.2's own Allgather sends at every start what was there at the first.
program forms
  use mpi
  implicit none
  integer, parameter :: n = 600 ! of each rank's part
  integer :: rank, ranks, error, i, wrong, m, round, rounds, root
  character(8) :: argument
  integer :: strided, started(7)
  integer, allocatable :: counts(:)
  integer(8), allocatable, asynchronous :: long(:), long_out(:)
  double precision, allocatable, asynchronous :: double(:), double_out(:)
  real, allocatable, asynchronous :: single(:), single_out(:)
  integer, allocatable, asynchronous :: bits(:), bits_out(:), gathered(:), spread(:)
  integer(8), allocatable :: long_want(:)
  double precision, allocatable :: double_want(:)
  real, allocatable :: single_want(:)
  integer, allocatable :: bits_want(:)

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  m = n * ranks
  wrong = 0
  allocate (long(m), long_out(m), long_want(m), double(m), double_out(m), double_want(m))
  allocate (single(m), single_out(n), single_want(m), bits(m), bits_out(n), bits_want(m), gathered(m), spread(3 * n))
  allocate (counts(ranks))
  counts = n
  call MPI_Type_vector(n, 1, 3, MPI_INTEGER, strided, error)
  call MPI_Type_commit(strided, error)

  root = 0
  call expect(0)
  call MPI_Allreduce(long, long_out, m, MPI_INTEGER8, MPI_SUM, MPI_COMM_WORLD, error)
  call MPI_Reduce(double, double_out, m, MPI_DOUBLE_PRECISION, MPI_MAX, root, MPI_COMM_WORLD, error)
  call MPI_Reduce_scatter_block(single, single_out, n, MPI_REAL, MPI_MIN, MPI_COMM_WORLD, error)
  call MPI_Reduce_scatter(bits, bits_out, counts, MPI_INTEGER, MPI_BOR, MPI_COMM_WORLD, error)
  call MPI_Bcast(spread, 1, strided, root, MPI_COMM_WORLD, error)
  call MPI_Allgather(bits, n, MPI_INTEGER, gathered, n, MPI_INTEGER, MPI_COMM_WORLD, error)
  call MPI_Barrier(MPI_COMM_WORLD, error)
  call check('blocking', 0)

  root = 1
  call expect(1)
  call MPI_Iallreduce(long, long_out, m, MPI_INTEGER8, MPI_SUM, MPI_COMM_WORLD, started(1), error)
  call MPI_Ireduce(double, double_out, m, MPI_DOUBLE_PRECISION, MPI_MAX, root, MPI_COMM_WORLD, started(2), error)
  call MPI_Ireduce_scatter_block(single, single_out, n, MPI_REAL, MPI_MIN, MPI_COMM_WORLD, started(3), error)
  call MPI_Ireduce_scatter(bits, bits_out, counts, MPI_INTEGER, MPI_BOR, MPI_COMM_WORLD, started(4), error)
  call MPI_Ibcast(spread, 1, strided, root, MPI_COMM_WORLD, started(5), error)
  call MPI_Iallgather(bits, n, MPI_INTEGER, gathered, n, MPI_INTEGER, MPI_COMM_WORLD, started(6), error)
  call MPI_Ibarrier(MPI_COMM_WORLD, started(7), error)
  call MPI_Waitall(7, started, MPI_STATUSES_IGNORE, error)
  call check('nonblocking', 1)

  root = ranks - 1
  call make_persistent()
  call get_command_argument(1, argument)
  rounds = merge(1, 2, argument == 'once')
  do round = 2, 1 + rounds
    call expect(round)
    call MPI_Startall(7, started, error)
    do i = 1, 7
      call MPI_Wait(started(i), MPI_STATUS_IGNORE, error)
    end do
    call check('persistent', round)
  end do
  do i = 1, 7
    call MPI_Request_free(started(i), error)
  end do
  call MPI_Type_free(strided, error)
  write (*, '(a,i0,a,i0,a)') 'rank ', rank, ': Fortran checks, ', wrong, ' wrong'
  call MPI_Finalize(error)
  if (wrong /= 0) stop 1

contains

  subroutine make_persistent()
! Open MPI 4.1 has them as an extension.
#ifdef EXTENSION
#define MPI_Allreduce_init MPIX_Allreduce_init
#define MPI_Reduce_init MPIX_Reduce_init
#define MPI_Reduce_scatter_block_init MPIX_Reduce_scatter_block_init
#define MPI_Reduce_scatter_init MPIX_Reduce_scatter_init
#define MPI_Bcast_init MPIX_Bcast_init
#define MPI_Allgather_init MPIX_Allgather_init
#define MPI_Barrier_init MPIX_Barrier_init
#endif
    integer :: w, info
    w = MPI_COMM_WORLD
    info = MPI_INFO_NULL
    call MPI_Allreduce_init(long, long_out, m, MPI_INTEGER8, MPI_SUM, w, info, started(1), error)
    call MPI_Reduce_init(double, double_out, m, MPI_DOUBLE_PRECISION, MPI_MAX, root, w, info, started(2), error)
    call MPI_Reduce_scatter_block_init(single, single_out, n, MPI_REAL, MPI_MIN, w, info, started(3), error)
    call MPI_Reduce_scatter_init(bits, bits_out, counts, MPI_INTEGER, MPI_BOR, w, info, started(4), error)
    call MPI_Bcast_init(spread, 1, strided, root, w, info, started(5), error)
    call MPI_Allgather_init(bits, n, MPI_INTEGER, gathered, n, MPI_INTEGER, w, info, started(6), error)
    call MPI_Barrier_init(w, info, started(7), error)
  end subroutine make_persistent

  ! What a rank gives in a round: sums, also of single precision, are exact.
  subroutine fill(of_rank, in_round)
    integer, intent(in) :: of_rank, in_round
    integer :: k
    do k = 1, m
      long(k) = int(k + of_rank, 8) * 4000000007_8 - in_round
      double(k) = dble(mod(k * 7 + of_rank * 5 + in_round, 23)) - 11
      single(k) = real(mod(k * 3 + of_rank * 11 + in_round, 19)) - 9
      bits(k) = ishft(mod(k + in_round, 16), 4 * mod(of_rank, 7))
    end do
  end subroutine fill

  ! This rank's inputs of a round, and what should come of all ranks'.
  subroutine expect(in_round)
    integer, intent(in) :: in_round
    integer :: of_rank
    do of_rank = 0, ranks - 1
      call fill(of_rank, in_round)
      if (of_rank == 0) then
        long_want = long
        double_want = double
        single_want = single
        bits_want = bits
      else
        call MPI_Reduce_local(long, long_want, m, MPI_INTEGER8, MPI_SUM, error)
        call MPI_Reduce_local(double, double_want, m, MPI_DOUBLE_PRECISION, MPI_MAX, error)
        call MPI_Reduce_local(single, single_want, m, MPI_REAL, MPI_MIN, error)
        call MPI_Reduce_local(bits, bits_want, m, MPI_INTEGER, MPI_BOR, error)
      end if
    end do
    call fill(rank, in_round)
    spread = -1
    if (rank == root) spread(1::3) = [(in_round + i, i = 1, n)]
    long_out = 0
    double_out = -99
    single_out = -99
    bits_out = -1
    gathered = -1
  end subroutine expect

  subroutine check(what, in_round)
    character(*), intent(in) :: what
    integer, intent(in) :: in_round
    integer :: part, r, own
    own = rank * n
    call right(what // ' Allreduce', all(long_out == long_want))
    call right(what // ' Reduce', rank /= root .or. all(double_out == double_want))
    call right(what // ' Reduce_scatter_block', all(single_out == single_want(own + 1:own + n)))
    call right(what // ' Reduce_scatter', all(bits_out == bits_want(own + 1:own + n)))
    call right(what // ' Bcast', all(spread(1::3) == [(in_round + i, i = 1, n)]))
    call right(what // ' gaps of Bcast', all(spread(2::3) == -1) .and. all(spread(3::3) == -1))
    do r = 0, ranks - 1
      part = r * n
      call right(what // ' Allgather', &
                 all(gathered(part + 1:part + n) == [(ishft(mod(i + in_round, 16), 4 * mod(r, 7)), i = 1, n)]))
    end do
  end subroutine check

  subroutine right(what, is_right)
    character(*), intent(in) :: what
    logical, intent(in) :: is_right
    if (is_right) return
    wrong = wrong + 1
    write (0, '(2a)') 'wrong: ', what
  end subroutine right
end program forms
