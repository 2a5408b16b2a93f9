/* The functions of libepic_mpi.so for requests, and those in which a program waits for others: the front
 * end's while EPIC has requests. By both of their names: MPICH's Fortran 2008 and tools that stand before
 * MPI's functions call PMPI's, and would wait for what nobody ends. */
#include "mpi/mpich/preload.h"

#define HAS_REQUESTS (__atomic_load_n(&epic_preload_requests, __ATOMIC_RELAXED) != 0)
#define OF_REQUESTS(name, member, parameters, arguments, front_arguments)          \
  BEFORE(HAS_REQUESTS, MPI_##name, member, parameters, arguments, front_arguments) \
  BEFORE(HAS_REQUESTS, PMPI_##name, member, parameters, arguments, front_arguments)

OF_REQUESTS(Wait, wait, (void* request, void* status), (request, status), (request, status))
OF_REQUESTS(Waitall, waitall, (int count, void* requests, void* statuses), (count, requests, statuses),
            (count, requests, statuses))
OF_REQUESTS(Waitany, waitany, (int count, void* requests, int* index, void* status),
            (count, requests, index, status), (count, requests, index, status))
OF_REQUESTS(Waitsome, waitsome, (int count, void* requests, int* ended, int* indices, void* statuses),
            (count, requests, ended, indices, statuses), (count, requests, ended, indices, statuses))
OF_REQUESTS(Test, test, (void* request, int* flag, void* status), (request, flag, status),
            (request, flag, status))
OF_REQUESTS(Testall, testall, (int count, void* requests, int* flag, void* statuses),
            (count, requests, flag, statuses), (count, requests, flag, statuses))
OF_REQUESTS(Testany, testany, (int count, void* requests, int* index, int* flag, void* status),
            (count, requests, index, flag, status), (count, requests, index, flag, status))
OF_REQUESTS(Testsome, testsome, (int count, void* requests, int* ended, int* indices, void* statuses),
            (count, requests, ended, indices, statuses), (count, requests, ended, indices, statuses))
OF_REQUESTS(Request_get_status, request_get_status, (Handle request, int* flag, void* status),
            (request, flag, status), ((MPI_Request)request, flag, status))
OF_REQUESTS(Start, start, (void* request), (request), (request))
OF_REQUESTS(Startall, startall, (int count, void* requests), (count, requests), (count, requests))
OF_REQUESTS(Request_free, request_free, (void* request), (request), (request))
OF_REQUESTS(Cancel, cancel, (void* request), (request), (request))
OF_REQUESTS(Send, send, (const void* buffer, int count, Handle type, int to, int tag, Handle comm),
            (buffer, count, type, to, tag, comm),
            (buffer, count, (MPI_Datatype)type, to, tag, (MPI_Comm)comm))
OF_REQUESTS(Ssend, ssend, (const void* buffer, int count, Handle type, int to, int tag, Handle comm),
            (buffer, count, type, to, tag, comm),
            (buffer, count, (MPI_Datatype)type, to, tag, (MPI_Comm)comm))
OF_REQUESTS(Recv, recv, (void* buffer, int count, Handle type, int from, int tag, Handle comm, void* status),
            (buffer, count, type, from, tag, comm, status),
            (buffer, count, (MPI_Datatype)type, from, tag, (MPI_Comm)comm, status))
OF_REQUESTS(Sendrecv, sendrecv,
            (const void* sbuf, int scount, Handle stype, int to, int stag, void* rbuf, int rcount,
             Handle rtype, int from, int rtag, Handle comm, void* status),
            (sbuf, scount, stype, to, stag, rbuf, rcount, rtype, from, rtag, comm, status),
            (sbuf, scount, (MPI_Datatype)stype, to, stag, rbuf, rcount, (MPI_Datatype)rtype, from, rtag,
             (MPI_Comm)comm, status))
OF_REQUESTS(Probe, probe, (int from, int tag, Handle comm, void* status), (from, tag, comm, status),
            (from, tag, (MPI_Comm)comm, status))
OF_REQUESTS(Mprobe, mprobe, (int from, int tag, Handle comm, void* message, void* status),
            (from, tag, comm, message, status), (from, tag, (MPI_Comm)comm, message, status))
OF_REQUESTS(Comm_free, comm_free, (void* comm), (comm), (comm))
OF_REQUESTS(Comm_disconnect, comm_disconnect, (void* comm), (comm), (comm))
