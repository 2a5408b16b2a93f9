// Sentences about errors, for people.
#pragma once

#include "epic/epic.h"
#include "protocol/control.h"

namespace epic::internal {

// What a communicator says in a child of its process, and what Init says in a child of one that has called
// it.
Error ForkedError();
Error ForkedInitError();

// What a reply other than OK means, for this rank, which called with `here`: the same code on every rank, and
// a message like "rank 2 called with another count than rank 0 (rank 0: 200, rank 2: 100)", of which all but
// rank 2 lack the last part. in_slices: the call here is made in several invocations, of whose length the
// reply tells.
Error RefusalError(const ControlHeader& reply, const ControlHeader& here, uint32_t rank,
                   bool in_slices = false);
// What of a mismatch is the same on every rank: "rank 2 called with another count than rank 0".
std::string MismatchInWords(const ControlHeader& reply);

// What all ranks are told of a quantised call whose input is not finite at this rank: "rank 2 called
// AllReduce with nan as element 17: ...".
std::string NotFiniteInWords(const ControlHeader& call, uint32_t rank, uint64_t element, float value);

}  // namespace epic::internal
