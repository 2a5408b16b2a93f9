// What must be true of every state and every step, each with a name: verdicts name it, and a canary shows
// that its check can fail (docs/CANARIES.md).
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace epic::check {

enum class Invariant : uint8_t {
  kResult,
  kOutcome,
  kPayload,
  kOpcode,
  kPlace,
  kAcknowledged,
  kEndToEnd,
  kSlots,
  kInvocations,
  kHolder,
  kCore,
  kGivenBack,
  kCanEnd,
  kFairEnd,
};

struct InvariantInfo {
  Invariant invariant;
  std::string_view name;
  std::string_view meaning;
};
// By invariant.
inline constexpr std::array kInvariants = {
    InvariantInfo{Invariant::kResult, "result", "a call that ends in no error has the reference's result"},
    InvariantInfo{
        Invariant::kOutcome, "outcome",
        "a call ends in an error only after the control plane has ended its group, or, between the "
        "hosts, where a rank's differs, and then on every rank in the same; and a request for a block, "
        "of a group that shares one, ends in the same on every rank"},
    InvariantInfo{Invariant::kPayload, "payload",
                  "a packet carries the reduction of all ranks below (up) or the whole result (down); by "
                  "multicast a Read finds what is whole, of a call that has not ended there"},
    InvariantInfo{Invariant::kOpcode, "opcode", "a packet has the opcode and immediate data of its index"},
    InvariantInfo{Invariant::kPlace, "place",
                  "a data packet has the PSN of an index that its direction carries"},
    InvariantInfo{Invariant::kAcknowledged, "acknowledged",
                  "no ACK or NAK names what its sender has not got"},
    InvariantInfo{Invariant::kEndToEnd, "end-to-end",
                  "mode II: what is acknowledged to a rank has been acknowledged by those that receive it"},
    InvariantInfo{Invariant::kSlots, "slots",
                  "the data that a switch has accepted fit into its slots from the oldest sum that is due"},
    InvariantInfo{Invariant::kInvocations, "invocations",
                  "a switch keeps no more invocations than it has room for"},
    InvariantInfo{Invariant::kHolder, "holder",
                  "of the groups that share a block the one that the recorder names has it, and nobody else "
                  "writes there"},
    InvariantInfo{Invariant::kCore, "core", "the checks of the cores themselves hold (EPIC_CHECK)"},
    InvariantInfo{Invariant::kGivenBack, "given-back",
                  "when the calls of groups that share a block have ended it is given back: from each such "
                  "state by some way, and by that of fair-end"},
    InvariantInfo{
        Invariant::kCanEnd, "can-end",
        "from every state one can be reached, without another fault, in which the calls have ended and "
        "what they sent is acknowledged"},
    InvariantInfo{
        Invariant::kFairEnd, "fair-end",
        "from every quiet state the calls end and what they sent is acknowledged, if all goes as in a "
        "network without faults"},
};

// Some of them: bits by invariant.
using InvariantSet = std::bitset<kInvariants.size()>;

constexpr std::string_view Name(Invariant invariant) {
  return kInvariants[static_cast<size_t>(invariant)].name;
}

// An invariant that does not hold, and how.
struct Breach {
  Invariant invariant = Invariant::kCore;
  std::string what;
  friend bool operator==(const Breach&, const Breach&) = default;
};

// "slots: switch1 has accepted ..."; empty if nothing is wrong.
inline std::string Text(const std::optional<Breach>& breach) {
  return breach ? std::string(Name(breach->invariant)) + ": " + breach->what : std::string();
}

}  // namespace epic::check
