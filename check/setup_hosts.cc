#include "check/setup_hosts.h"

#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "base/number.h"

namespace epic::check {
namespace {

constexpr uint32_t kMostRanks = 8;
constexpr uint32_t kMostMessages = 64;
constexpr uint32_t kMostMulticastRanks = 4;  // of more there are too many channels

Status Invalid(const std::string& message) { return MakeStatus(StatusCode::kInvalidArgument, message); }

// "count@1": the field and the rank.
StatusOr<DifferentCall> DifferenceNamed(const std::string& text, uint32_t ranks, const ControlHeader& call) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('@', 1));
  const auto& [field, rank] = parts;
  DifferentCall different{.header = call};
  if (!ReadNumber(rank, &different.rank) || different.rank >= ranks)
    return Invalid(fmt::format("different: '{}' names none of {} ranks, as in count@1", text, ranks));
  const bool has_data = call.type != DataType::kNone;
  if (field == "count" && has_data) {
    --different.header.count;
  } else if (field == "op" && has_data) {
    different.header.op = call.op == ReduceOp::kSum ? ReduceOp::kBitXor : ReduceOp::kSum;
  } else if (field == "collective") {
    const ControlHeader barrier{.collective = Collective::kBarrier};
    different.header = has_data ? barrier
                                : ControlHeader{.collective = Collective::kAllReduce,
                                                .op = ReduceOp::kSum,
                                                .type = DataType::kInt32,
                                                .count = ranks};
  } else {
    return Invalid(fmt::format(
        "different: '{}' is neither collective nor, of a last call with data, count or op", field));
  }
  return different;
}

// Only datagrams may be lost, and nothing has a timer.
Status CheckMulticast(const Setup& setup, bool by_multicast) {
  const auto never = [](const char* option) { return Invalid(fmt::format("{}: not by multicast", option)); };
  if (!by_multicast) return setup.tokens == 0 ? absl::OkStatus() : Invalid("tokens: by multicast only");
  if (setup.tokens > HostMulticast::kMostTokens)
    return Invalid(fmt::format("tokens: at most {}", HostMulticast::kMostTokens));
  if (setup.ranks > kMostMulticastRanks)
    return Invalid(fmt::format("ranks: by multicast 2 to {}", kMostMulticastRanks));
  if (setup.reorder != "neighbours") return never("reorder");
  if (setup.faults.timeouts > 0) return never("timeouts");
  if (setup.faults.late_timers > 0) return never("late-timers");
  if (setup.late_calls != "0") return never("late-calls");
  if (!setup.different.empty()) return never("different");
  return absl::OkStatus();
}

// All datagrams of a call by token must be more than the staging ring has, or none is needed.
Status MakeByMulticast(const Setup& setup, SystemConfig* config) {
  config->algorithm = Algorithm::kMulticast;
  config->tokens = setup.tokens;
  for (const ControlHeader& call : config->calls) {
    const bool copies =
        call.collective == Collective::kBroadcast || call.collective == Collective::kAllGather;
    if (call.collective == Collective::kBarrier) continue;
    if (!copies || IsInlined(call))
      return Invalid("collective: by multicast broadcast, allgather and barrier are explored");
    if (setup.tokens > 0 && CallBytes(call) <= uint64_t{kPathMtu} * 2 * setup.tokens)
      return Invalid("messages: so few need no token");
  }
  return absl::OkStatus();
}

}  // namespace

Status CheckByHosts(const Setup& setup) {
  const Setup plain;
  if (setup.ranks < 2 || setup.ranks > kMostRanks) return Invalid(fmt::format("ranks: 2 to {}", kMostRanks));
  const bool by_multicast = setup.algorithm == "multicast";
  if (setup.algorithm != "ring" && setup.algorithm != "doubling" && !by_multicast)
    return Invalid(fmt::format("algorithm: '{}' is none of ring, doubling, multicast", setup.algorithm));
  if (Status status = CheckMulticast(setup, by_multicast); !status.ok()) return status;
  if (setup.algorithm == "doubling" && setup.messages != 1)
    return Invalid("messages: by doubling a call's data are in one message");
  if (setup.messages > kMostMessages / setup.ranks)
    return Invalid(
        fmt::format("messages: {} at most in each of {} blocks", kMostMessages / setup.ranks, setup.ranks));
  const auto only_below = [](const char* option) {
    return Invalid(fmt::format("{}: not between the hosts, which have no switches", option));
  };
  if (setup.mode != plain.mode) return only_below("mode");
  if (setup.topology != plain.topology) return only_below("topology");
  if (setup.groups != plain.groups) return only_below("groups");
  if (setup.slices != plain.slices) return only_below("slices");
  if (setup.window != plain.window) return only_below("window");
  if (setup.send_windows != plain.send_windows) return only_below("send-windows");
  if (setup.buffers != plain.buffers) return only_below("buffers");
  if (setup.faults.crashes > 0) return only_below("crashes");
  if (setup.faults.regroups > 0) return only_below("regroups");
  if (setup.message_packets != 1) return Invalid("packets: between the hosts a message is one packet");
  return absl::OkStatus();
}

Status MakeByHosts(const Setup& setup, SystemConfig* config) {
  if (setup.algorithm == "multicast") return MakeByMulticast(setup, config);
  const bool is_ring = setup.algorithm == "ring";
  config->algorithm = is_ring ? Algorithm::kRing : Algorithm::kDoubling;
  for (ControlHeader& call : config->calls) {
    if (call.collective == Collective::kBarrier) continue;
    if (call.collective != Collective::kAllReduce || IsInlined(call))
      return Invalid("collective: between the hosts allreduce and barrier are explored");
    call.count = is_ring ? call.count * setup.ranks : (kPathMtu - kControlBytes) / ElementBytes(call.type);
  }
  if (setup.different.empty()) return absl::OkStatus();
  const auto different = DifferenceNamed(setup.different, setup.ranks, config->calls.back());
  if (!different.ok()) return different.status();
  config->different = *different;
  return absl::OkStatus();
}

std::string LineByHosts(const Setup& s) {
  std::string line = fmt::format("path=hosts ranks={} collective={} algorithm={} messages={} psn={:#x}",
                                 s.ranks, s.collective, s.algorithm, s.messages, s.psn);
  if (s.tokens != 0) line += fmt::format(" tokens={}", s.tokens);
  if (!s.different.empty()) line += " different=" + s.different;
  return line;
}

}  // namespace epic::check
