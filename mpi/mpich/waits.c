/* MPI's functions that wait for requests, or test them, while there are some of EPIC's: EPIC's progress and
 * MPICH's by turns. What has ended is seen by MPICH, as the requests are its own; here it is told which have
 * failed. */
#include <stdlib.h>
#include <string.h>

#include "mpi/binding/rest.h"
#include "mpi/mpich/requests.h"

int EpicMpichTest(MPI_Request* request, int* flag, MPI_Status* status) {
  if (request == NULL || flag == NULL) return kEpicMpiFallBack;
  const MPI_Request given = *request;
  EpicMpichProgress();
  const int error = epic_mpich.Test(request, flag, status);
  return error == MPI_SUCCESS && *flag ? EpicMpichEnded(given) : error;
}

int EpicMpichWait(MPI_Request* request, MPI_Status* status) {
  int flag = 0;
  if (request == NULL) return kEpicMpiFallBack;
  const MPI_Request given = *request;
  for (EpicMpiWaiting waiting = {0, 0}; EpicMpichIsBusy(); EpicMpiRest(&waiting)) {
    const int error = EpicMpichTest(request, &flag, status);
    if (error != MPI_SUCCESS || flag) return error;
  }
  const int error = epic_mpich.Wait(request, status);
  return error == MPI_SUCCESS ? EpicMpichEnded(given) : error;
}

/* One after the other: MPICH 4.0.2 takes every persistent collective call of its own for an error in
 * MPI_Testall. */
int EpicMpichWaitall(int count, MPI_Request* requests, MPI_Status* statuses) {
  int result = MPI_SUCCESS;
  if (count < 0 || (count > 0 && (requests == NULL || statuses == NULL))) return kEpicMpiFallBack;
  const int has_statuses = statuses != MPI_STATUSES_IGNORE;
  for (int i = 0; i < count; ++i) {
    const int error = EpicMpichWait(&requests[i], has_statuses ? &statuses[i] : MPI_STATUS_IGNORE);
    for (int before = 0; has_statuses && error != MPI_SUCCESS && result == MPI_SUCCESS && before < i;
         ++before)
      statuses[before].MPI_ERROR = MPI_SUCCESS;
    if (error != MPI_SUCCESS) result = MPI_ERR_IN_STATUS;
    if (result != MPI_SUCCESS && has_statuses) statuses[i].MPI_ERROR = error;
  }
  return result;
}

/* Handles as they were given: MPICH takes away those that have ended. */
typedef struct {
  MPI_Request few[64];
  MPI_Request* all; /* null without memory */
} Given;

static int Copy(Given* given, int count, const MPI_Request* requests) {
  const size_t bytes = (size_t)count * sizeof(MPI_Request);
  given->all = bytes <= sizeof given->few ? given->few : malloc(bytes);
  if (given->all == NULL) {
    PMPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
    return 0;
  }
  memcpy(given->all, requests, bytes);
  return 1;
}

static void End(Given* given) {
  if (given->all != given->few) free(given->all);
}

/* What MPICH's function has returned, with the errors of those that have ended, which have their statuses in
 * a row: all, or those of `indices`. */
static int EndedSome(const Given* given, int result, int ended, const int* indices, MPI_Status* statuses) {
  for (int i = 0; i < ended; ++i) {
    const int error = EpicMpichEnded(given->all[indices == NULL ? i : indices[i]]);
    if (error == MPI_SUCCESS) continue;
    for (int other = 0; statuses != MPI_STATUSES_IGNORE && result == MPI_SUCCESS && other < ended; ++other)
      statuses[other].MPI_ERROR = MPI_SUCCESS;
    result = MPI_ERR_IN_STATUS;
    if (statuses != MPI_STATUSES_IGNORE) statuses[i].MPI_ERROR = error;
  }
  return result;
}

int EpicMpichTestall(int count, MPI_Request* requests, int* flag, MPI_Status* statuses) {
  Given given;
  if (count < 0 || (count > 0 && requests == NULL) || flag == NULL) return kEpicMpiFallBack;
  if (!Copy(&given, count, requests)) return MPI_ERR_NO_MEM;
  EpicMpichProgress();
  int result = epic_mpich.Testall(count, requests, flag, statuses);
  if (*flag) result = EndedSome(&given, result, count, NULL, statuses);
  End(&given);
  return result;
}

/* Looks once, or waits. */
static int Any(int waits, int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status) {
  Given given;
  int result = MPI_SUCCESS;
  if (count < 0 || (count > 0 && requests == NULL) || index == NULL) return kEpicMpiFallBack;
  if (!Copy(&given, count, requests)) return MPI_ERR_NO_MEM;
  *flag = 0;
  for (EpicMpiWaiting waiting = {0, 0}; waiting.looks == 0 || (waits && EpicMpichIsBusy());
       EpicMpiRest(&waiting)) {
    EpicMpichProgress();
    result = epic_mpich.Testany(count, requests, index, flag, status);
    if (result != MPI_SUCCESS || *flag || !waits) break;
  }
  if (waits && result == MPI_SUCCESS && !*flag) {
    result = epic_mpich.Waitany(count, requests, index, status);
    *flag = 1;
  }
  if (result == MPI_SUCCESS && *flag && *index != MPI_UNDEFINED) result = EpicMpichEnded(given.all[*index]);
  End(&given);
  return result;
}

int EpicMpichTestany(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status) {
  return flag == NULL ? kEpicMpiFallBack : Any(0, count, requests, index, flag, status);
}

int EpicMpichWaitany(int count, MPI_Request* requests, int* index, MPI_Status* status) {
  int flag;
  return Any(1, count, requests, index, &flag, status);
}

static int Some(int waits, int count, MPI_Request* requests, int* ended, int* indices, MPI_Status* statuses) {
  Given given;
  int result = MPI_SUCCESS;
  if (count < 0 || (count > 0 && (requests == NULL || indices == NULL)) || ended == NULL)
    return kEpicMpiFallBack;
  if (!Copy(&given, count, requests)) return MPI_ERR_NO_MEM;
  *ended = 0;
  for (EpicMpiWaiting waiting = {0, 0}; waiting.looks == 0 || (waits && EpicMpichIsBusy());
       EpicMpiRest(&waiting)) {
    EpicMpichProgress();
    result = epic_mpich.Testsome(count, requests, ended, indices, statuses);
    if (result != MPI_SUCCESS || *ended != 0 || !waits) break;
  }
  if (waits && result == MPI_SUCCESS && *ended == 0)
    result = epic_mpich.Waitsome(count, requests, ended, indices, statuses);
  if (*ended != MPI_UNDEFINED) result = EndedSome(&given, result, *ended, indices, statuses);
  End(&given);
  return result;
}

int EpicMpichTestsome(int count, MPI_Request* requests, int* ended, int* indices, MPI_Status* statuses) {
  return Some(0, count, requests, ended, indices, statuses);
}

int EpicMpichWaitsome(int count, MPI_Request* requests, int* ended, int* indices, MPI_Status* statuses) {
  return Some(1, count, requests, ended, indices, statuses);
}

int EpicMpichRequestGetStatus(MPI_Request request, int* flag, MPI_Status* status) {
  if (flag == NULL) return kEpicMpiFallBack;
  EpicMpichProgress();
  const int error = epic_mpich.Request_get_status(request, flag, status);
  return error == MPI_SUCCESS && *flag ? EpicMpichErrorOf(request) : error;
}
