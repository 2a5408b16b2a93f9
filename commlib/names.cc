// The names of what a program chooses from: those that EPIC_PATH, EPIC_TYPES and the command lines take.
#include "epic/epic.h"
#include "protocol/types.h"

namespace epic {

const char* PathName(PathChoice path) {
  switch (path) {
    case PathChoice::kDefault:
      return "default";
    case PathChoice::kAuto:
      return "auto";
    case PathChoice::kNetwork:
      return "network";
    case PathChoice::kHosts:
      return "hosts";
  }
  return "unknown";
}

// The numbers are the protocol's (arguments.cc), and its names are literals, which end with a zero.
const char* DatatypeName(Datatype type) {
  const auto row = static_cast<size_t>(type) - 1;
  return row < kCallerTypes.size() ? kCallerTypes[row].name.data() : "unknown";
}

const char* RedOpName(RedOp op) {
  switch (op) {
    case RedOp::kSum:
      return "sum";
    case RedOp::kMin:
      return "min";
    case RedOp::kMax:
      return "max";
    case RedOp::kAvg:
      return "avg";
    case RedOp::kProduct:
      return "product";
    case RedOp::kBitAnd:
      return "band";
    case RedOp::kBitOr:
      return "bor";
    case RedOp::kBitXor:
      return "bxor";
    case RedOp::kLogicalAnd:
      return "land";
    case RedOp::kLogicalOr:
      return "lor";
  }
  return "unknown";
}

}  // namespace epic
