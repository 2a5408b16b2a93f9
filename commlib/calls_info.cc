#include "commlib/calls_info.h"

#include "proto/manager.pb.h"

namespace epic::internal {
namespace {

void Set(const MadeCallInfo& call, proto::MadeCall* out) {
  out->set_number(call.number);
  out->set_collective(call.collective);
  out->set_ms(static_cast<uint64_t>(call.for_time.count()));
}

}  // namespace

proto::ClientMessage ToProto(const CallsInfo& own, const std::vector<CallsInfo>& others) {
  proto::ClientMessage message;
  proto::CallsMade& calls = *message.mutable_calls();
  calls.set_made(own.made);
  for (const MadeCallInfo& call : own.open) Set(call, calls.add_open());
  calls.set_leaves(own.leaves);
  for (const uint32_t rank : own.awaits) calls.add_awaits(rank);
  for (const bool waits : {true, false}) {
    for (const CallsInfo& other : others) {
      if (other.waits != waits || other.open.empty()) continue;
      if (calls.elsewhere_size() == static_cast<int>(kMostElsewhereTold)) break;
      proto::CallsMade::Elsewhere& elsewhere = *calls.add_elsewhere();
      elsewhere.set_group(other.group);
      elsewhere.set_waits(waits);
      Set(other.open.front(), elsewhere.mutable_call());
    }
  }
  return message;
}

}  // namespace epic::internal
