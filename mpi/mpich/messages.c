/* MPI's functions that wait for messages, while there are requests of EPIC's: those calls of a communicator
 * that wait for their turn are started here, too. Another rank may have to have their results before it
 * sends. */
#include "mpi/binding/rest.h"
#include "mpi/mpich/requests.h"

int EpicMpichSend(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  MPI_Request request;
  if (!EpicMpichIsBusy()) return kEpicMpiFallBack;
  const int error = PMPI_Isend(buffer, count, type, to, tag, comm, &request);
  return error != MPI_SUCCESS ? error : EpicMpichWait(&request, MPI_STATUS_IGNORE);
}

int EpicMpichSsend(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  MPI_Request request;
  if (!EpicMpichIsBusy()) return kEpicMpiFallBack;
  const int error = PMPI_Issend(buffer, count, type, to, tag, comm, &request);
  return error != MPI_SUCCESS ? error : EpicMpichWait(&request, MPI_STATUS_IGNORE);
}

int EpicMpichRecv(void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                  MPI_Status* status) {
  MPI_Request request;
  if (!EpicMpichIsBusy()) return kEpicMpiFallBack;
  const int error = PMPI_Irecv(buffer, count, type, from, tag, comm, &request);
  return error != MPI_SUCCESS ? error : EpicMpichWait(&request, status);
}

int EpicMpichSendrecv(const void* sbuf, int scount, MPI_Datatype stype, int to, int stag, void* rbuf,
                      int rcount, MPI_Datatype rtype, int from, int rtag, MPI_Comm comm, MPI_Status* status) {
  MPI_Request request;
  MPI_Request sent;
  if (!EpicMpichIsBusy()) return kEpicMpiFallBack;
  int error = PMPI_Irecv(rbuf, rcount, rtype, from, rtag, comm, &request);
  if (error != MPI_SUCCESS) return error;
  error = PMPI_Isend(sbuf, scount, stype, to, stag, comm, &sent);
  if (error == MPI_SUCCESS)
    error = EpicMpichWait(&sent, MPI_STATUS_IGNORE);
  else
    epic_mpich.Cancel(&request);
  const int received = EpicMpichWait(&request, status);
  return error != MPI_SUCCESS ? error : received;
}

int EpicMpichProbe(int from, int tag, MPI_Comm comm, MPI_Status* status) {
  for (EpicMpiWaiting waiting = {0, 0}; EpicMpichIsBusy(); EpicMpiRest(&waiting)) {
    int flag = 0;
    EpicMpichProgress();
    const int error = PMPI_Iprobe(from, tag, comm, &flag, status);
    if (error != MPI_SUCCESS || flag) return error;
  }
  return kEpicMpiFallBack;
}

int EpicMpichMprobe(int from, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status) {
  for (EpicMpiWaiting waiting = {0, 0}; EpicMpichIsBusy(); EpicMpiRest(&waiting)) {
    int flag = 0;
    EpicMpichProgress();
    const int error = PMPI_Improbe(from, tag, comm, &flag, message, status);
    if (error != MPI_SUCCESS || flag) return error;
  }
  return kEpicMpiFallBack;
}
