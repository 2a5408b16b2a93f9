// The rules by which packets that a switch sends are judged, and what came of it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace epic::conform {

enum class Rule : uint8_t {
  kAddress,       // to an endpoint of a group, from this switch, by the endpoint's port
  kInstalled,     // the group is installed
  kStopped,       // and has not been stopped
  kIsolation,     // a packet or timer of one group makes another send nothing
  kPosition,      // the PSN is one that this direction carries, the first time in order
  kOpcode,        // and the opcode that of its position
  kLength,        // and the length
  kImmediate,     // a control packet's immediate is its invocation
  kContribution,  // every child that owes the index has sent it
  kResult,        // the parent has sent the result
  kPayload,       // the reduction of exactly the contributions; the parent's result
  kControl,       // the merge of the control packets by equality
  kRepeat,        // what is sent again is what was sent
  kWindow,        // it was within the buffers
  kFailed,        // no new data after a reply with a bad status
  kAck,           // acknowledges only what the mode allows
  kNak,           // names nothing beyond what is missing
  kSyndrome,      // an acknowledgement of a kind that may be sent here
  kMsn,           // counts the messages before the PSN
  kCnp,           // only of congestion
  kCount,
};
inline constexpr size_t kRules = static_cast<size_t>(Rule::kCount);

// "ack", for example.
const char* Name(Rule rule);
// Where the rule stands: "PROTOCOL.md 5.3", for example.
const char* Section(Rule rule);

struct Violation {
  uint64_t line = 0;  // of the trace, or whatever the caller numbers its events by
  Rule rule = Rule::kCount;
  std::string to;  // "group 3, child 1"
  std::string expected;
  std::string seen;
};

// "line 12: ack (PROTOCOL.md 5): to group 3, child 1: expected ..., seen ..."
std::string Describe(const Violation& violation);

struct Verdict {
  uint64_t packets_in = 0;
  uint64_t packets_out = 0;
  std::array<uint64_t, kRules> judged{};
  // What was not judged, and why, with the number of packets.
  std::map<std::string, uint64_t> not_judged;
  uint64_t violations = 0;
  std::vector<Violation> first;  // of them, at most kKept

  static constexpr size_t kKept = 20;
  bool accepted() const { return violations == 0; }
};

// One packet before the rules.
class Judge {
 public:
  Judge(Verdict& verdict, uint64_t line, uint64_t group, int child)
      : verdict_(verdict), line_(line), group_(group), child_(child) {}

  // Counts the rule as judged. The descriptions are functions, called only if it is broken. Returns ok.
  template <typename Expected, typename Seen>
  bool Expect(Rule rule, bool ok, const Expected& expected, const Seen& seen) {
    ++verdict_.judged[static_cast<size_t>(rule)];
    if (!ok) Break(rule, expected(), seen());
    return ok;
  }
  void NotJudged(const char* what) { ++verdict_.not_judged[what]; }

 private:
  void Break(Rule rule, std::string expected, std::string seen);

  Verdict& verdict_;
  uint64_t line_;
  uint64_t group_;
  int child_;  // its number; -1: the parent, -2: nobody known
};

}  // namespace epic::conform
