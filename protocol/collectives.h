// What collectives are called where people read it.
#pragma once

#include <string_view>

#include "protocol/types.h"

namespace epic {

// "allreduce"; "other" for what is none, as of a later version.
constexpr std::string_view NameOf(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return "allreduce";
    case Collective::kReduce:
      return "reduce";
    case Collective::kBroadcast:
      return "broadcast";
    case Collective::kBarrier:
      return "barrier";
    case Collective::kReduceScatter:
      return "reducescatter";
    case Collective::kAllGather:
      return "allgather";
  }
  return "other";
}

}  // namespace epic
