/* Elements of more bytes than an int counts, which Open MPI's functions for whole elements do not copy. Their
 * memory is the same few pages again and again, so that a test of two gigabytes takes some megabytes. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mpi/openmpi/coll_epic.h"
#include "opal/runtime/opal.h"

enum { kPage = 1 << 22, kHole = 64, kBlock = 1 << 20, kBlocks = (1 << 10) + 1 };
static const size_t kHalf = (size_t)kBlock * kBlocks; /* of an element, before the hole and behind it */

static int wrong;

static void Right(const char* what, int is_right) {
  if (!is_right) fprintf(stderr, "wrong: %s\n", what);
  wrong += !is_right;
}

/* So many bytes of address space, all of which are the same `kPage` bytes. Null without them. */
static char* SameAgain(size_t bytes) {
  const int file = memfd_create("types_test", 0);
  char* const all = mmap(NULL, bytes + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (file < 0 || all == MAP_FAILED || ftruncate(file, kPage) != 0) return NULL;
  for (size_t at = 0; at < bytes; at += kPage) {
    if (mmap(all + at, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
      return NULL;
  }
  close(file);
  return all;
}

/* Two halves with a hole between them. */
static ompi_datatype_t* Large(void) {
  ompi_datatype_t *block, *half, *element;
  ompi_datatype_create_contiguous(kBlock, &ompi_mpi_byte.dt, &block);
  ompi_datatype_create_contiguous(kBlocks, block, &half);
  ompi_datatype_create_hvector(2, 1, (ptrdiff_t)kHalf + kHole, half, &element);
  ompi_datatype_commit(&element);
  return element;
}

int main(int argc, char** argv) {
  if (opal_init_util(&argc, &argv) != OPAL_SUCCESS || ompi_datatype_init() != OMPI_SUCCESS) return 2;
  ompi_datatype_t* const type = Large();
  char *const buffer = SameAgain(2 * kHalf + kHole), *const row = SameAgain(2 * kHalf);
  if (buffer == NULL || row == NULL) return 2;
  size_t size;
  ompi_datatype_type_size(type, &size);
  Right("more than an int counts", size == 2 * kHalf && size > INT32_MAX);

  /* What is copied last is at the end. */
  memset(buffer, 1, kPage);
  buffer[2 * kHalf + kHole - 1] = 7;
  Right("packed", CollEpicCopy(buffer, 1, type, row, 1) == MPI_SUCCESS);
  Right("the end of the row", row[2 * kHalf - 1] == 7);

  memset(row, 2, kPage);
  memset(buffer, 1, kPage);
  row[2 * kHalf - 1] = 9;
  Right("unpacked", CollEpicCopy(buffer, 1, type, row, 0) == MPI_SUCCESS);
  Right("the end of the element", buffer[2 * kHalf + kHole - 1] == 9 && buffer[2 * kHalf + kHole - 2] == 2);
  return wrong != 0;
}
