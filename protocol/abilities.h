// The types and operations that somebody has: a switch, all switches of a group, or nobody yet who is asked
// for them. Of switches also whether they know of parts that take turns (ControlHeader::turn) and of
// priorities (ControlHeader::priority), which no call needs.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/control.h"
#include "protocol/types.h"

namespace epic {

class Abilities {
 public:
  bool turns = false;
  bool priorities = false;

  // All of this version.
  static Abilities All();
  // Those of versions that stated no operations, and had these: FP32, INT32, FP16, BF16 and bytes; SUM, MIN
  // and MAX.
  static Abilities First();

  // Adding what is no type, or no operation, does nothing.
  void Add(DataType type);
  void Add(ReduceOp op);

  bool Has(DataType type) const;
  bool Has(ReduceOp op) const;
  bool HasTypes() const { return types_ != 0; }

  // What both have.
  Abilities With(const Abilities& other) const;
  // What `other` has and this has not.
  Abilities Lacking(const Abilities& other) const;
  // Without the types that are combined in more than `factor` times the bytes that they have on the wire.
  Abilities Within(uint32_t factor) const;
  bool empty() const { return types_ == 0 && ops_ == 0; }
  // How many types and operations these are together.
  uint32_t Count() const { return static_cast<uint32_t>(std::popcount(types_) + std::popcount(ops_)); }

  friend bool operator==(const Abilities&, const Abilities&) = default;

 private:
  uint32_t types_ = 0;  // bit n: type n
  uint32_t ops_ = 0;    // bit n: operation n
};

// "type float64", "operation product": what a call needs and these have not; empty if there is nothing. A
// call without elements needs nothing, nor does one whose data go between the hosts; a copy only its type.
std::string LackOf(const Abilities& abilities, const ControlHeader& call);

// All of them, as "type float64, operations product and bxor"; empty of none.
std::string NamesOf(const Abilities& abilities);

// Whether who has these can combine what the call asks for: it lacks nothing, and the type has the operation.
bool CanServe(const Abilities& abilities, const ControlHeader& call);

// Adds the types of a list of names, "float32,int64". What is wrong with it, as "'float31' is not a type:
// float32, int32, ..."; empty if nothing is.
std::string AddTypes(std::string_view list, Abilities* abilities);
// The same of operations.
std::string AddOps(std::string_view list, Abilities* abilities);

}  // namespace epic
