#include "check/setup_groups.h"

#include <fmt/format.h>

#include <utility>

namespace epic::check {
namespace {

constexpr uint32_t kMostGroups = 3;
constexpr size_t kMostCalls = 20;

Status Invalid(const std::string& message) { return MakeStatus(StatusCode::kInvalidArgument, message); }

}  // namespace

Status CheckGroups(const Setup& setup, const sim::ModeSpec& mode, size_t switches) {
  if (setup.groups < 1 || setup.groups > kMostGroups)
    return Invalid(fmt::format("groups: 1 to {}", kMostGroups));
  if (setup.groups == 1) return absl::OkStatus();
  for (size_t s = 0; s < switches; ++s) {
    if (mode.At(s) == Mode::kTerminated) return Invalid("groups: in mode I there are no blocks");
  }
  if (setup.faults.crashes > 0) return Invalid("crashes: not of several groups");
  if (setup.faults.regroups > 0) return Invalid("regroups: not of several groups");
  return absl::OkStatus();
}

Status AskForMemory(std::vector<ControlHeader>* calls) {
  if (calls->size() > kMostCalls)
    return Invalid(fmt::format("collective: of several groups at most {} calls", kMostCalls));
  std::vector<ControlHeader> invocations;
  for (ControlHeader call : *calls) {
    if (CallBytes(call) > 0) {
      ControlHeader request = call;
      request.flags = kRequestFlag;
      request.turn = 0;
      invocations.push_back(request);
      call.flags |= kGrantedFlag;
    }
    invocations.push_back(call);
  }
  *calls = std::move(invocations);
  return absl::OkStatus();
}

}  // namespace epic::check
