/* Open MPI's types, operations and layouts as EPIC has them. */
#include <stdlib.h>

#include "mpi/openmpi/coll_epic.h"
#include "ompi/datatype/ompi_datatype_internal.h"
#include "ompi/mca/op/op.h"

static EpicMpiType Integer(const ompi_datatype_t* type, int is_signed) {
  switch (type->super.size) {
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

static EpicMpiType Float(const ompi_datatype_t* type) {
  if (type->super.size == 4) return kEpicMpiFloat32;
  return type->super.size == 8 ? kEpicMpiFloat64 : kEpicMpiNoType;
}

EpicMpiType CollEpicTypeOf(const ompi_datatype_t* type) {
  if (!ompi_datatype_is_predefined(type)) return kEpicMpiNoType;
  switch (type->id) {
    /* C's integers, and Fortran's with a size, are names of these. */
    case OMPI_DATATYPE_MPI_INT8_T:
    case OMPI_DATATYPE_MPI_INT16_T:
    case OMPI_DATATYPE_MPI_INT32_T:
    case OMPI_DATATYPE_MPI_INT64_T:
    case OMPI_DATATYPE_MPI_LONG:
    case OMPI_DATATYPE_MPI_INTEGER:
    case OMPI_DATATYPE_MPI_AINT:
    case OMPI_DATATYPE_MPI_OFFSET:
    case OMPI_DATATYPE_MPI_COUNT:
      return Integer(type, 1);
    case OMPI_DATATYPE_MPI_UINT8_T:
    case OMPI_DATATYPE_MPI_UINT16_T:
    case OMPI_DATATYPE_MPI_UINT32_T:
    case OMPI_DATATYPE_MPI_UINT64_T:
    case OMPI_DATATYPE_MPI_UNSIGNED_LONG:
      return Integer(type, 0);
    case OMPI_DATATYPE_MPI_FLOAT:
    case OMPI_DATATYPE_MPI_DOUBLE:
    case OMPI_DATATYPE_MPI_REAL:
    case OMPI_DATATYPE_MPI_DOUBLE_PRECISION:
      return Float(type);
    default:
      return kEpicMpiNoType;
  }
}

EpicMpiOp CollEpicOpOf(const ompi_op_t* op) {
  if (!ompi_op_is_intrinsic((ompi_op_t*)op)) return kEpicMpiNoOp;
  switch (op->o_f_to_c_index) {
    case OMPI_OP_BASE_FORTRAN_SUM:
      return kEpicMpiSum;
    case OMPI_OP_BASE_FORTRAN_PROD:
      return kEpicMpiProduct;
    case OMPI_OP_BASE_FORTRAN_MIN:
      return kEpicMpiMin;
    case OMPI_OP_BASE_FORTRAN_MAX:
      return kEpicMpiMax;
    case OMPI_OP_BASE_FORTRAN_BAND:
      return kEpicMpiBitAnd;
    case OMPI_OP_BASE_FORTRAN_BOR:
      return kEpicMpiBitOr;
    case OMPI_OP_BASE_FORTRAN_BXOR:
      return kEpicMpiBitXor;
    case OMPI_OP_BASE_FORTRAN_LAND:
      return kEpicMpiLogicalAnd;
    case OMPI_OP_BASE_FORTRAN_LOR:
      return kEpicMpiLogicalOr;
    default:
      return kEpicMpiNoOp;
  }
}

/* Where the first byte of data is in a buffer of this type. */
static ptrdiff_t FirstByte(ompi_datatype_t* type) {
  ptrdiff_t first, extent;
  ompi_datatype_get_true_extent(type, &first, &extent);
  return first;
}

/* By a convertor, in parts of the row: what Open MPI has for whole elements counts their bytes in int32,
 * which may be too little for one. */
int CollEpicCopy(char* buffer, size_t count, ompi_datatype_t* type, char* row, int pack) {
  static const size_t kAtOnce = 1u << 30;
  opal_convertor_t convertor;
  size_t size, done = 0;
  ompi_datatype_type_size(type, &size);
  OBJ_CONSTRUCT(&convertor, opal_convertor_t);
  int status = pack ? opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &type->super, count,
                                                               buffer, 0, &convertor)
                    : opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor, &type->super, count,
                                                               buffer, 0, &convertor);
  while (status >= 0 && done < count * size) {
    const size_t rest = count * size - done;
    struct iovec part = {.iov_base = row + done, .iov_len = rest < kAtOnce ? rest : kAtOnce};
    uint32_t parts = 1;
    size_t bytes = part.iov_len;
    status = pack ? opal_convertor_pack(&convertor, &part, &parts, &bytes)
                  : opal_convertor_unpack(&convertor, &part, &parts, &bytes);
    if (bytes == 0) status = OPAL_ERROR;
    done += bytes;
  }
  OBJ_DESTRUCT(&convertor);
  return status < 0 ? MPI_ERR_TYPE : MPI_SUCCESS;
}

int CollEpicBytesOf(const void* buffer, size_t count, ompi_datatype_t* type, int pack, CollEpicBytes* bytes) {
  size_t size;
  bytes->memory = NULL;
  if (count <= INT32_MAX && ompi_datatype_is_contiguous_memory_layout(type, (int32_t)count)) {
    bytes->bytes = (char*)buffer + FirstByte(type);
    return MPI_SUCCESS;
  }
  ompi_datatype_type_size(type, &size);
  bytes->memory = bytes->bytes = malloc(count * size);
  if (bytes->memory == NULL) return MPI_ERR_NO_MEM;
  return pack ? CollEpicCopy((char*)buffer, count, type, bytes->bytes, 1) : MPI_SUCCESS;
}

const char* CollEpicWhyNotPacked(int error) {
  return error == MPI_ERR_NO_MEM ? "no memory to pack a derived type into"
                                 : "the MPI does not pack a derived type";
}

int CollEpicUnpack(const CollEpicBytes* bytes, void* buffer, size_t count, ompi_datatype_t* type) {
  return bytes->memory == NULL ? MPI_SUCCESS : CollEpicCopy(buffer, count, type, bytes->bytes, 0);
}
