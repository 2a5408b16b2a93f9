// Calls whose data travel as whole numbers (docs/PROTOCOL.md, section 8): FP32 as INT32, where what is not
// finite is refused before anything of the call is sent, or floating-point numbers as blocks of INT8. What
// goes between the hosts becomes so in memory of its own. On the way through the network RankCalls does that,
// in its bounce buffers.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "commlib/comm.h"
#include "commlib/core/slices.h"
#include "commlib/log.h"
#include "commlib/messages.h"
#include "protocol/flow.h"
#include "reduce/quantise.h"

namespace epic::internal {

namespace {

Error AllocateQuantised(uint64_t bytes, Call* call) {
  call->quantised.reset(new (std::nothrow) uint8_t[bytes]);
  if (call->quantised) return {};
  return {ErrorCode::kNoResource, fmt::format("there is no memory for {} bytes of whole numbers", bytes)};
}

}  // namespace

Error Comm::CheckQuantisedLength(const ControlHeader& header) const {
  const uint64_t most = calls_.MostQuantised(header.collective) / ElementBytes(header.type) / header.parts;
  if (SlicesOf(header.count, std::max<uint64_t>(1, most)) <= kMaxSlices) return {};
  return {ErrorCode::kInvalidArgument,
          fmt::format("count {}: a call of floating-point numbers as whole numbers is made in at most {} "
                      "invocations, of {} elements each here",
                      CalledElements(header), kMaxSlices, most * (IsInBlocks(header) ? kBlockElements : 1))};
}

Error Comm::PrepareQuantised(Call* call, std::string* refusal) const {
  const ControlHeader& header = call->header;
  if (IsScaled(header)) return PrepareScaled(call, refusal);
  if (!calls_.GoesByHosts(header)) {
    if (Error e = CheckQuantisedLength(header); !e.ok()) return e;
  }
  if (!calls_.GoesByHosts(header) && !calls_.Asks(header)) return {};
  return AllocateQuantised(CallBytes(header), call);
}

Error Comm::PrepareScaled(Call* call, std::string* refusal) const {
  const ControlHeader& header = call->header;
  const auto rank = static_cast<uint32_t>(options_.rank);
  const uint64_t bytes = SendBytes(header, rank);
  if (const auto at = FirstNotFinite({call->send, bytes})) {
    float value;
    std::memcpy(&value, call->send + *at * sizeof value, sizeof value);
    *refusal = NotFiniteInWords(header, rank, *at, value);
    return {};
  }
  if (alone_) return {};
  if (!calls_.GoesByHosts(header)) return CheckQuantisedLength(header);
  if (Error e = AllocateQuantised(bytes, call); !e.ok()) return e;
  call->saturated_inputs = Quantise(abilities_.scale, {call->quantised.get(), bytes}, call->send);
  // What is received may take the place of what is sent, as in a call in place.
  const bool scatters = header.collective == Collective::kReduceScatter;
  const uint64_t own = scatters ? rank * (bytes / header.parts) : 0;
  call->result = call->recv;
  call->send = call->quantised.get();
  call->recv = call->quantised.get() + own;
  return {};
}

void Comm::FinishScaled(Call* call) {
  const uint64_t bytes = RecvBytes(call->header, static_cast<uint32_t>(options_.rank));
  if (!call->error.ok() || bytes == 0) return;
  const double divisor = DivisorOf(call->header, abilities_.scale, static_cast<uint32_t>(options_.size));
  saturation_.results += Dequantise(divisor, {call->result, bytes}, call->recv);
}

// Nothing of this call is sent, so that no rank has the answer to it, nor anything of the calls behind it: to
// the others these would be it.
Error Comm::Hold(std::shared_ptr<Call> call, const std::string& refusal, bool wait_follows,
                 std::shared_ptr<Call>* out) {
  if (alone_) {
    Fail({ErrorCode::kNotFinite, refusal}, false);
    return error_;
  }
  if (!calls_.holds()) session_->TellNotFinite(refusal);
  calls_.HoldBack();
  Make(call, Way::kDirect);
  *out = std::move(call);
  if (!wait_follows) PassOn();
  return {};
}

void Comm::RunAloneScaled(const Call& call) {
  const uint64_t bytes = CallBytes(call.header);
  const uint64_t inputs = Quantise(abilities_.scale, {call.recv, bytes}, call.send);
  const uint64_t results =
      Dequantise(DivisorOf(call.header, abilities_.scale, 1), {call.recv, bytes}, call.recv);
  const Lock lock(mutex_);
  saturation_.inputs += inputs;
  saturation_.results += results;
  TellOfSaturation();
}

Quantisation Comm::Quantised() {
  if (InChild()) return {};
  const Lock lock(mutex_);
  const bool switched = path_.path == PathChoice::kNetwork && !abilities_.asks;
  return {
      .scale = abilities_.scale,
      .saturated_inputs = calls_.saturation().inputs + saturation_.inputs,
      .saturated_results = calls_.saturation().results + saturation_.results,
      .int8 = abilities_.blocks,
      .plain_bytes = abilities_.plain_bytes,
      .levels = std::max(alone_ || switched ? 0 : options_.size - 1, static_cast<int>(abilities_.levels))};
}

void Comm::TellOfSaturation() {
  const uint64_t inputs = calls_.saturation().inputs + saturation_.inputs;
  const uint64_t results = calls_.saturation().results + saturation_.results;
  if (told_saturation_ || inputs + results == 0) return;
  told_saturation_ = true;
  Log(LogLevel::kWarn,
      "group {} rank {}: float32 times {} has come to a limit of int32: so far {} elements of this rank's "
      "input, {} of "
      "results (Communicator::Quantised counts on)",
      options_.group, options_.rank, abilities_.scale, inputs, results);
}

}  // namespace epic::internal
