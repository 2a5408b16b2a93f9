// Calls of groups whose memory in switches other groups own, too (docs/PROTOCOL-BLOCKS.md): each asks for it,
// and goes by the hosts if another group has it. Nothing begins behind a request before the answer has come,
// on neither way: the ranks learn at different times which way the call goes, and all calls must begin in the
// same order everywhere.
#include <utility>

#include "commlib/comm.h"
#include "commlib/core/slices.h"
#include "commlib/log.h"
#include "protocol/flow.h"

namespace epic::internal {

bool Comm::Asks(const ControlHeader& header) const {
  return abilities_.asks && CallBytes(header) > 0 && !GoesByHosts(header);
}

void Comm::BeginNext() {
  while (!behind_.empty() && !asking_ && error_.ok()) {
    const Waiting start = std::move(behind_.front());
    behind_.pop_front();
    if (GoesByHosts(start.call->header)) {
      StartByHosts(start.call);
    } else if (Asks(start.call->header)) {
      Ask(start);
    } else {
      StartByNetwork(start.call, start.way);
    }
  }
}

void Comm::Ask(const Waiting& start) {
  const ControlHeader& header = start.call->header;
  const uint64_t most = MostByNetwork(header);
  // The first of the invocations that are to come.
  ControlHeader request = header;
  if (CallBytes(header) > most) {
    const uint64_t elements = most / ElementBytes(header.type) / header.parts;
    request = HeaderOfSlice(header, std::max<uint64_t>(1, elements), 0);
  }
  request.flags |= kRequestFlag;
  asking_ = start;
  const Invocation invocation = {start.call, request, 0, 0, start.way, std::nullopt};
  waiting_.empty() ? StartInvocation(invocation) : waiting_.push_back(invocation);
}

void Comm::OnAnswered(Outcome outcome) {
  const Waiting start = *std::exchange(asking_, std::nullopt);
  request_.reset();
  Call& call = *start.call;
  if (outcome == Outcome::kOk) {
    ++sharing_.granted;
    call.header.flags |= kGrantedFlag;
    StartByNetwork(start.call, start.way);
  } else {
    if (sharing_.busy++ == 0 && options_.rank == 0) {
      Log(LogLevel::kWarn,
          "group {}: hosts: another group has the memory that it shares with this one in switches (the first "
          "such "
          "call; Communicator::Shared counts on)",
          options_.group);
    }
    call.busy = true;
    call.header.flags |= kByHostsFlag;
    StartByHosts(start.call);
  }
  BeginNext();
}

Sharing Comm::Shared() {
  if (InChild()) return {};
  const std::lock_guard lock(mutex_);
  return sharing_;
}

}  // namespace epic::internal
