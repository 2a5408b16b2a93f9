#include "check/conform/rules.h"

#include <fmt/format.h>

namespace epic::conform {
namespace {

struct RuleText {
  const char* name;
  const char* section;
};

constexpr RuleText kTexts[kRules] = {
    {"address", "PROTOCOL.md 1"},
    {"installed", "PROTOCOL.md 7"},
    {"stopped", "PROTOCOL.md 7"},
    {"isolation", "PROTOCOL.md 1"},
    {"position", "PROTOCOL.md 2"},
    {"opcode", "PROTOCOL.md 2"},
    {"length", "PROTOCOL.md 2"},
    {"immediate", "PROTOCOL.md 3"},
    {"contribution", "PROTOCOL.md 5.1, PROTOCOL-MODE-I.md 3"},
    {"result", "PROTOCOL.md 5.2, PROTOCOL-MODE-I.md 4"},
    {"payload", "PROTOCOL.md 5.6, 8"},
    {"control", "PROTOCOL.md 3"},
    {"repeat", "PROTOCOL.md 5.3"},
    {"window", "PROTOCOL.md 4, PROTOCOL-MODE-III.md State"},
    {"failed", "PROTOCOL.md 3"},
    {"ack", "PROTOCOL.md 5, PROTOCOL-MODE-III.md Data"},
    {"nak", "PROTOCOL.md 5, PROTOCOL-MODE-III.md Data"},
    {"syndrome", "PROTOCOL.md 5.3"},
    {"msn", "PROTOCOL.md 5.3"},
    {"cnp", "PROTOCOL-MODE-I.md 5"},
};

}  // namespace

const char* Name(Rule rule) { return rule < Rule::kCount ? kTexts[static_cast<size_t>(rule)].name : "none"; }
const char* Section(Rule rule) {
  return rule < Rule::kCount ? kTexts[static_cast<size_t>(rule)].section : "";
}

std::string Describe(const Violation& v) {
  return fmt::format("line {}: rule {} ({}): to {}: expected {}; seen {}", v.line, Name(v.rule),
                     Section(v.rule), v.to, v.expected, v.seen);
}

void Judge::Break(Rule rule, std::string expected, std::string seen) {
  if (++verdict_.violations > Verdict::kKept) return;
  std::string to = fmt::format("group {}, ", group_);
  if (child_ == -2) {
    to = "nobody known";
  } else {
    to += child_ == -1 ? "the parent" : fmt::format("child {}", child_);
  }
  verdict_.first.push_back({line_, rule, std::move(to), std::move(expected), std::move(seen)});
}

}  // namespace epic::conform
