/* What c_rank's ranks give to a call, and what must come of it, by type and operation. */
#ifndef EPIC_TESTS_E2E_C_VALUES_H_
#define EPIC_TESTS_E2E_C_VALUES_H_

#include <epic/epic_c.h>
#include <stdint.h>
#include <string.h>

/* Each rank has two bits of a sum of its own, so that a missing or doubled rank shows; the sum has eight
 * bits, which also a bfloat16 holds. */
static unsigned Input(int of_rank, size_t element) {
  return (unsigned)((element * 5 + (size_t)of_rank * 3 + element / 7) % 4) << (2 * of_rank);
}

static size_t Bytes(epicDataType_t type) {
  switch (type) {
    case epicInt8:
    case epicUint8:
      return 1;
    case epicInt16:
    case epicUint16:
    case epicFloat16:
    case epicBfloat16:
      return 2;
    case epicInt64:
    case epicUint64:
    case epicFloat64:
      return 8;
    default:
      return 4;
  }
}

static int IsInteger(epicDataType_t type) {
  return type != epicFloat16 && type != epicBfloat16 && type != epicFloat32 && type != epicFloat64;
}

/* A number that is an integer of at most 20 bits, or a multiple of 1/4 below 256, as the type has it. */
static void Put(epicDataType_t type, float value, uint8_t* to) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  uint64_t wide = bits;
  const double as_double = value;
  if (IsInteger(type)) wide = (uint64_t)(int64_t)value;
  if (type == epicFloat64) memcpy(&wide, &as_double, 8);
  if (type == epicBfloat16) wide = bits >> 16;
  if (type == epicFloat16) wide = value == 0 ? 0 : (bits - (112u << 23)) >> 13;
  memcpy(to, &wide, Bytes(type));
}

static float Reduced(epicDataType_t type, epicRedOp_t op, int ranks, size_t element) {
  int sum = 0, product = 1, least = INT32_MAX, most = INT32_MIN, both = -1, either = 0, parity = 0, all = 1;
  for (int r = 0; r < ranks; ++r) {
    const unsigned bits = Input(r, element);
    const int value = type == epicInt8 ? (int8_t)bits : (int)bits;
    sum += value;
    product *= value;
    least = value < least ? value : least;
    most = value > most ? value : most;
    both &= value;
    either |= value;
    parity ^= value;
    all &= value != 0;
  }
  if (type == epicInt8) sum = (int8_t)sum;
  if (op == epicProd) return (float)product;
  if (op == epicMin) return (float)least;
  if (op == epicMax) return (float)most;
  if (op == epicBand) return (float)both;
  if (op == epicBor) return (float)either;
  if (op == epicBxor) return (float)parity;
  if (op == epicLand) return (float)all;
  if (op == epicLor) return (float)(either != 0);
  return op == epicAvg ? (float)sum / (float)ranks : (float)sum;
}

/* Products have up to 20 bits. */
static int Has(epicDataType_t type, epicRedOp_t op) {
  return op == epicProd ? Bytes(type) >= 4 : op < epicBand || IsInteger(type);
}

#endif /* EPIC_TESTS_E2E_C_VALUES_H_ */
