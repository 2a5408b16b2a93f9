/* MPICH's types, operations and layouts as EPIC has them. */
#include <stdlib.h>

#include "mpi/mpich/mpich.h"

/* What a handle is of, and how it came to be, are in its bits, and MPI's own have constants in mpi.h. */
static unsigned Kind(int handle) { return (unsigned)handle >> 26 & 0xf; }
static unsigned Origin(int handle) { return (unsigned)handle >> 30; }

int EpicMpichIsType(MPI_Datatype type) { return Kind(type) == Kind(MPI_INT) && Origin(type) != 0; }
int EpicMpichIsOp(MPI_Op op) { return Kind(op) == Kind(MPI_SUM) && Origin(op) != 0; }
int EpicMpichIsNamed(MPI_Datatype type) { return Origin(type) == Origin(MPI_INT); }

int EpicMpichIsCommitted(MPI_Datatype type) {
  int size;
  return EpicMpichIsNamed(type) || PMPI_Pack_size(0, type, EpicMpichOwn(), &size) == MPI_SUCCESS;
}

static EpicMpiType Integer(MPI_Datatype type, int is_signed) {
  int size;
  PMPI_Type_size(type, &size);
  switch (size) {
    case 1:
      return is_signed ? kEpicMpiInt8 : kEpicMpiUint8;
    case 2:
      return is_signed ? kEpicMpiInt16 : kEpicMpiUint16;
    case 4:
      return is_signed ? kEpicMpiInt32 : kEpicMpiUint32;
    case 8:
      return is_signed ? kEpicMpiInt64 : kEpicMpiUint64;
    default:
      return kEpicMpiNoType;
  }
}

static EpicMpiType Float(MPI_Datatype type) {
  int size;
  PMPI_Type_size(type, &size);
  if (size == 4) return kEpicMpiFloat32;
  return size == 8 ? kEpicMpiFloat64 : kEpicMpiNoType;
}

EpicMpiType EpicMpichTypeOf(MPI_Datatype type) {
  if (!EpicMpichIsNamed(type)) return kEpicMpiNoType;
  switch (type) {
    case MPI_SIGNED_CHAR:
    case MPI_SHORT:
    case MPI_INT:
    case MPI_LONG:
    case MPI_LONG_LONG:
    case MPI_INT8_T:
    case MPI_INT16_T:
    case MPI_INT32_T:
    case MPI_INT64_T:
    case MPI_AINT:
    case MPI_OFFSET:
    case MPI_COUNT:
    case MPI_INTEGER:
    case MPI_INTEGER1:
    case MPI_INTEGER2:
    case MPI_INTEGER4:
    case MPI_INTEGER8:
      return Integer(type, 1);
    case MPI_UNSIGNED_CHAR:
    case MPI_UNSIGNED_SHORT:
    case MPI_UNSIGNED:
    case MPI_UNSIGNED_LONG:
    case MPI_UNSIGNED_LONG_LONG:
    case MPI_UINT8_T:
    case MPI_UINT16_T:
    case MPI_UINT32_T:
    case MPI_UINT64_T:
      return Integer(type, 0);
    case MPI_FLOAT:
    case MPI_DOUBLE:
    case MPI_REAL:
    case MPI_REAL4:
    case MPI_REAL8:
    case MPI_DOUBLE_PRECISION:
      return Float(type);
    default:
      return kEpicMpiNoType;
  }
}

EpicMpiOp EpicMpichOpOf(MPI_Op op) {
  switch (op) {
    case MPI_SUM:
      return kEpicMpiSum;
    case MPI_PROD:
      return kEpicMpiProduct;
    case MPI_MIN:
      return kEpicMpiMin;
    case MPI_MAX:
      return kEpicMpiMax;
    case MPI_BAND:
      return kEpicMpiBitAnd;
    case MPI_BOR:
      return kEpicMpiBitOr;
    case MPI_BXOR:
      return kEpicMpiBitXor;
    case MPI_LAND:
      return kEpicMpiLogicalAnd;
    case MPI_LOR:
      return kEpicMpiLogicalOr;
    default:
      return kEpicMpiNoOp;
  }
}

/* Derived types have their elements in any order, and pairs have gaps. */
static int IsInARow(MPI_Datatype type, MPI_Count size) {
  MPI_Aint lower, extent;
  if (!EpicMpichIsNamed(type)) return 0;
  PMPI_Type_get_extent(type, &lower, &extent);
  return lower == 0 && extent == size;
}

/* `count` elements at a buffer, as MPI_Pack and MPI_Unpack of MPICH 4.0.2 take them: MPI_BOTTOM is none to
 * these. Elements that are there have their addresses in the type, and one of `type` has all of them as seen
 * from elsewhere. */
typedef struct {
  void* buffer;
  MPI_Count count;
  MPI_Datatype type;
} Placed;

static int Place(void* buffer, MPI_Count count, MPI_Datatype type, Placed* placed) {
  static char elsewhere;
  *placed = (Placed){buffer, count, type};
  if (buffer != MPI_BOTTOM) return MPI_SUCCESS;
  const MPI_Count to_bottom = -(MPI_Count)(intptr_t)&elsewhere;
  const int error = PMPI_Type_create_hindexed_c(1, &count, &to_bottom, type, &placed->type);
  if (error != MPI_SUCCESS) return error;
  placed->buffer = &elsewhere;
  placed->count = 1;
  return PMPI_Type_commit(&placed->type);
}

static void EndPlaced(Placed* placed, MPI_Datatype type) {
  if (placed->type != type) PMPI_Type_free(&placed->type);
}

static int Pack(const void* buffer, MPI_Count count, MPI_Datatype type, char* bytes, MPI_Count size) {
  MPI_Count done = 0;
  Placed from;
  int error = Place((void*)buffer, count, type, &from);
  if (error == MPI_SUCCESS)
    error = PMPI_Pack_c(from.buffer, from.count, from.type, bytes, size, &done, EpicMpichOwn());
  EndPlaced(&from, type);
  return error;
}

int EpicMpichBytesOf(const void* buffer, int64_t count, MPI_Datatype type, int pack, EpicMpichBytes* bytes) {
  MPI_Count size;
  PMPI_Type_size_x(type, &size);
  bytes->memory = NULL;
  bytes->bytes = (char*)buffer;
  if (IsInARow(type, size)) return MPI_SUCCESS;
  bytes->memory = bytes->bytes = malloc((size_t)(count * size));
  if (bytes->memory == NULL) return EPIC_MPICH_NO_MEMORY;
  return pack ? Pack(buffer, count, type, bytes->bytes, count * size) : MPI_SUCCESS;
}

int EpicMpichUnpack(const EpicMpichBytes* bytes, void* buffer, int64_t count, MPI_Datatype type) {
  MPI_Count size, done = 0;
  Placed to;
  if (bytes->memory == NULL) return MPI_SUCCESS;
  PMPI_Type_size_x(type, &size);
  int error = Place(buffer, count, type, &to);
  if (error == MPI_SUCCESS)
    error = PMPI_Unpack_c(bytes->bytes, count * size, &done, to.buffer, to.count, to.type, EpicMpichOwn());
  EndPlaced(&to, type);
  return error;
}
