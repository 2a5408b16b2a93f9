/* EPIC's calls under way as requests of MPICH's: the program has a receive of nothing from this rank itself,
 * and when EPIC's call has ended, this rank sends it that. So all of MPICH's functions take it, beside any
 * others. EPIC's progress is made in those functions that wait or test, which come here first (waits.c). */
#ifndef EPIC_MPI_MPICH_REQUESTS_H_
#define EPIC_MPI_MPICH_REQUESTS_H_

#include "mpi/mpich/arguments.h"

/* `requests` is the count that front.h speaks of. */
void EpicMpichBeginRequests(int* requests);
/* Ends the groups of calls that the program has left under way, for which the other ranks would wait. */
void EpicMpichEndRequests(void);

/* Starts a nonblocking call, or makes a persistent one. Return as the functions of EpicMpichFront do. */
int EpicMpichStart(const EpicMpichCall* it, MPI_Request* request);
int EpicMpichMake(const EpicMpichCall* it, MPI_Request* request);

/* Makes progress with EPIC's calls, and ends those that have ended. */
void EpicMpichProgress(void);
/* Whether any call is under way. */
int EpicMpichIsBusy(void);
/* Of this communicator. */
int EpicMpichIsBusyOf(const EpicMpiHosts* hosts);
/* The end of a queue without calls. */
void EpicMpichQueueEnd(EpicMpichQueue* queue);

/* The error of a request with which the MPI is done; its communicator's handler has been called for it.
 * MPI_SUCCESS is also that of a request that is none of EPIC's. */
int EpicMpichEnded(MPI_Request request);
/* The same, while it is still the program's. */
int EpicMpichErrorOf(MPI_Request request);

/* The functions of EpicMpichFront. */
int EpicMpichStartRequest(MPI_Request* request);
int EpicMpichStartall(int count, MPI_Request* requests);
int EpicMpichRequestFree(MPI_Request* request);
int EpicMpichCancel(MPI_Request* request);

#endif
