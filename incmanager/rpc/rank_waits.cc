#include "incmanager/rpc/rank_waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "incmanager/rpc/waits.h"
#include "incmanager/text.h"

namespace epic::manager {
namespace {

using Doing = proto::CallWait::Doing;

constexpr size_t kMostToAsk = 8;
constexpr size_t kMostAwaitedNamed = 3;

std::string CallInWords(const proto::MadeCall& call) {
  return fmt::format("{} {}", Shortened(call.collective()), call.number());
}

std::string SinceInWords(const proto::MadeCall& call) {
  return "since " + Duration(static_cast<int64_t>(call.ms()));
}

// calls: its answer; null: there is none.
Doing DoingOf(uint32_t rank, const proto::CallsMade* calls) {
  Doing doing;
  doing.set_rank(rank);
  if (calls == nullptr) {
    doing.set_what(Doing::WHAT_SILENT);
    return doing;
  }
  const bool elsewhere = !calls->elsewhere().empty();
  if (elsewhere && calls->elsewhere(0).waits()) {
    doing.set_what(Doing::WHAT_ELSEWHERE);
  } else if (!calls->open().empty()) {
    doing.set_what(Doing::WHAT_IN_CALL);
    *doing.mutable_call() = calls->open(0);
    return doing;
  } else {
    doing.set_what(calls->leaves() ? Doing::WHAT_LEAVES : Doing::WHAT_NO_CALL);
  }
  if (elsewhere) {
    doing.set_group(Shortened(calls->elsewhere(0).group()));
    *doing.mutable_call() = calls->elsewhere(0).call();
  }
  return doing;
}

// Behind the ranks that do so: "rank 1 waits in ...".
std::string DoingInWords(const Doing& doing, bool one) {
  switch (doing.what()) {
    case Doing::WHAT_SILENT:
      return fmt::format("{} not answer: stopped, or without a processor", one ? "does" : "do");
    case Doing::WHAT_ELSEWHERE:
      return fmt::format("{} in group {} ({} {})", one ? "waits" : "wait", doing.group(),
                         CallInWords(doing.call()), SinceInWords(doing.call()));
    case Doing::WHAT_IN_CALL:
      return fmt::format("{} in {} {}", one ? "is" : "are", CallInWords(doing.call()),
                         SinceInWords(doing.call()));
    case Doing::WHAT_LEAVES:
      return fmt::format("{} called Destroy", one ? "has" : "have");
    default:
      return fmt::format("{} in no call{}: {}, or {} for something else", one ? "is" : "are",
                         doing.group().empty() ? ""
                                               : fmt::format(" ({} of group {} is open {})", CallInWords(doing.call()),
                                                             doing.group(), SinceInWords(doing.call())),
                         one ? "it computes" : "they compute", one ? "waits" : "wait");
  }
}

bool IsSame(const Doing& one, const Doing& other) {
  return one.what() == other.what() && one.group() == other.group() &&
         one.call().number() == other.call().number() && one.call().collective() == other.call().collective();
}

// Those that do the same are named together, in the order of the first ones, with the longest time.
std::string AllDoingInWords(const proto::CallWait& wait) {
  std::vector<std::pair<Doing, Ranks>> same;
  for (const Doing& doing : wait.doing()) {
    auto found = std::ranges::find_if(same, [&](const auto& other) { return IsSame(other.first, doing); });
    if (found == same.end()) found = same.insert(same.end(), {doing, {}});
    found->second.Add(doing.rank());
    const uint64_t longest = std::max(found->first.call().ms(), doing.call().ms());
    found->first.mutable_call()->set_ms(longest);
  }
  std::string words;
  for (const auto& [doing, ranks] : same)
    words += fmt::format("; {} {}", RanksInWords(ranks), DoingInWords(doing, ranks.size() == 1));
  return words;
}

// What is missing of a call that all have made: from whom, and where, if these are few.
std::string MissingInWords(const std::map<uint32_t, proto::CallsMade>& calls) {
  std::map<uint32_t, Ranks> missing_at;
  for (const auto& [rank, made] : calls) {
    for (const uint32_t peer : made.awaits()) missing_at[peer].Add(rank);
  }
  std::string words;
  if (missing_at.size() > kMostAwaitedNamed) return words;
  for (const auto& [peer, at] : missing_at)
    words += fmt::format("; {} {} for what comes from rank {}", RanksInWords(at), at.size() == 1 ? "waits" : "wait", peer);
  return words;
}

// The call of a group by the hosts that stands still, and for whom; true if there is one.
bool FindHostsWait(const std::map<uint32_t, proto::CallsMade>& calls, const std::set<uint32_t>& silent,
                   proto::CallWait* wait) {
  int64_t fewest = std::numeric_limits<int64_t>::max(), first_open = fewest;
  for (const auto& [rank, made] : calls) {
    fewest = std::min(fewest, made.made());
    if (!made.open().empty()) first_open = std::min(first_open, made.open(0).number());
  }
  if (first_open == std::numeric_limits<int64_t>::max()) return false;
  // What began first stands still first, though some have called on behind it.
  const bool called_by_all = first_open < fewest;
  wait->set_call(called_by_all ? first_open : fewest);
  wait->set_why(!called_by_all    ? proto::CallWait::WHY_NOT_CALLED
                : silent.empty() ? proto::CallWait::WHY_UNDER_WAY
                                 : proto::CallWait::WHY_SILENT);
  for (const auto& [rank, made] : calls) {
    !called_by_all && made.made() == fewest ? wait->add_for_ranks(rank) : wait->add_others(rank);
    for (const proto::MadeCall& call : made.open()) {
      if (call.number() != wait->call()) continue;
      wait->set_collective(Shortened(call.collective()));
      wait->set_ms(std::max(wait->ms(), call.ms()));
    }
  }
  if (called_by_all) wait->mutable_for_ranks()->Add(silent.begin(), silent.end());
  // Between two answers: it has ended meanwhile.
  return !wait->collective().empty();
}

const proto::CallsMade* AnswerOf(const std::map<uint32_t, proto::CallsMade>& calls, uint32_t rank) {
  const auto found = calls.find(rank);
  return found != calls.end() ? &found->second : nullptr;
}

}  // namespace

std::set<uint32_t> RanksToAsk(const proto::GroupState& group) {
  std::set<uint32_t> ranks;
  for (const uint32_t rank : group.wait().for_ranks()) {
    if (ranks.size() < kMostToAsk) ranks.insert(rank);
  }
  return ranks;
}

void AddDoing(const std::map<uint32_t, proto::CallsMade>& calls, const std::set<uint32_t>& asked,
              proto::GroupState* group) {
  proto::CallWait& wait = *group->mutable_wait();
  for (const uint32_t rank : wait.for_ranks()) {
    if (!asked.contains(rank)) continue;
    const Doing doing = DoingOf(rank, AnswerOf(calls, rank));
    // Who has made the call is in it.
    if (wait.why() == proto::CallWait::WHY_NOT_CALLED || doing.what() == Doing::WHAT_SILENT)
      *wait.add_doing() = doing;
  }
  wait.set_words(wait.words() + AllDoingInWords(wait));
}

void AddHostsWait(const std::map<uint32_t, proto::CallsMade>& calls, const std::set<uint32_t>& asked,
                  proto::GroupState* group) {
  if (asked.empty()) return;
  proto::CallWait wait;
  if (calls.empty()) {
    wait.set_call(-1);
    wait.set_words("no rank answers, so that nothing is known of whom it waits for");
    *group->mutable_wait() = wait;
    return;
  }
  group->set_tells_waits(true);
  std::set<uint32_t> silent;
  for (const uint32_t rank : asked) {
    if (!calls.contains(rank)) silent.insert(rank);
  }
  if (!FindHostsWait(calls, silent, &wait)) return;
  std::set<uint32_t> looked_at(wait.for_ranks().begin(), wait.for_ranks().end());
  looked_at.insert(silent.begin(), silent.end());
  for (const uint32_t rank : looked_at) *wait.add_doing() = DoingOf(rank, AnswerOf(calls, rank));
  wait.set_words(WaitInWords(*group, wait) + AllDoingInWords(wait));
  if (wait.why() == proto::CallWait::WHY_UNDER_WAY) wait.set_words(wait.words() + MissingInWords(calls));
  Ranks unknown;
  for (const uint32_t rank : group->joined_ranks()) {
    if (!asked.contains(rank)) unknown.Add(rank);
  }
  if (!unknown.empty()) wait.set_words(fmt::format("{}; of {} nothing is known", wait.words(), RanksInWords(unknown)));
  *group->mutable_wait() = wait;
}

}  // namespace epic::manager
