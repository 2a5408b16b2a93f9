/* allreduce.cc in C. */
#include <epic/epic_c.h>
#include <stdio.h>

int main(void) {
  int value = 1;
  epicComm_t comm;
  epicResult_t result = epicCommInitRank(&comm, 0, NULL, NULL, -1);
  if (result == epicSuccess) {
    result = epicAllReduce(&value, &value, 1, epicInt32, epicSum, comm);
    const epicResult_t left = epicCommDestroy(comm);
    if (result == epicSuccess) result = left;
  }
  if (result == epicSuccess) {
    printf("ok: sum is %d\n", value);
    return 0;
  }
  printf("%s: %s\n", epicGetErrorString(result), epicGetLastError());
  return 1;
}
