#include "incmanager/groups/event_log.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace epic::manager {
namespace {

std::vector<std::string> Texts(const EventLog& log, const EventQuery& query = {}) {
  bool more = false;
  std::vector<std::string> texts;
  for (const Event& event : log.Find(query, &more)) texts.push_back(event.text);
  EXPECT_FALSE(more);
  log.CheckInvariants();
  return texts;
}

using Strings = std::vector<std::string>;

TEST(EventLog, FindsWhatIsAskedFor) {
  EventLog log;
  EXPECT_EQ(log.newest(), 0u);
  EXPECT_EQ(Texts(log), Strings());
  log.Add(1, "group a: reserved for 2 ranks");
  log.Add(2, "switch leaf1: up");
  log.Add(3, "group a: failed: h0 hangs on leaf1");
  log.Add(4, "it stood still");
  EXPECT_EQ(log.newest(), 4u);
  EXPECT_EQ(Texts(log).size(), 4u);
  EXPECT_EQ(Texts(log, {.about = "group a"}),
            (Strings{"reserved for 2 ranks", "failed: h0 hangs on leaf1"}));
  EXPECT_EQ(Texts(log, {.after = 2, .about = "group a"}), (Strings{"failed: h0 hangs on leaf1"}));
  EXPECT_EQ(Texts(log, {.last = 2}), (Strings{"failed: h0 hangs on leaf1", "it stood still"}));
  EXPECT_EQ(Texts(log, {.about = "manager"}), Strings{"it stood still"});
  EXPECT_EQ(Texts(log, {.after = 4}), Strings());
  EXPECT_EQ(Texts(log, {.after = UINT64_MAX, .last = 7}), Strings());
}

// An agent that is refused each second does not push out all else; a group that is made again and again is
// told of.
TEST(EventLog, CountsWhatIsSaidAgain) {
  EventLog log;
  for (Nanos now = 1; now <= 100; ++now) {
    log.Add(now, "switch x: agent refused: the topology has no switch x");
    log.Add(now, now % 2 == 0 ? "group a: removed" : "group a: reserved for 2 ranks");
  }
  bool more = false;
  const auto refused = log.Find({.about = "switch x"}, &more);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].times, 100u);
  EXPECT_EQ(refused[0].at, 100);
  EXPECT_EQ(log.Find({.about = "group a"}, &more).size(), 100u);
}

TEST(EventLog, KeepsTheNewestAndHandsThemOutInPages) {
  EventLog log;
  for (int i = 0; i < 25'000; ++i)
    log.Add(i, "group g" + std::to_string(i % 7) + ": event " + std::to_string(i));
  EventQuery query;
  bool more = true;
  int next = 15'000;
  while (more) {
    const auto page = log.Find(query, &more);
    ASSERT_EQ(page.size(), EventLog::kPage);
    for (const Event& event : page) ASSERT_EQ(event.text, "event " + std::to_string(next++));
    query.after = page.back().number;
  }
  EXPECT_EQ(next, 25'000);
  // Whose last event has been pushed out begins anew.
  log.Add(1, "switch s: up");
  for (int i = 0; i < 10'000; ++i) log.Add(i, "group g: event " + std::to_string(i));
  log.Add(2, "switch s: up");
  EXPECT_EQ(Texts(log, {.about = "switch s"}), Strings{"up"});
  EXPECT_EQ(Texts(log, {.last = 1}), Strings{"up"});
}

// Of a busy manager how a group ended is kept longer than what else happens.
TEST(EventLog, KeepsEndingsLonger) {
  EventLog log;
  log.Add(1, "group a: running with 2 ranks");
  log.AddEnding(2, "group a: failed: first");
  log.AddEnding(3, "group a: failed: last");
  log.AddEnding(4, "group b: all 2 ranks have left");
  for (int i = 0; i < 30'000; ++i) log.Add(5, "group c: event " + std::to_string(i));
  EXPECT_EQ(Texts(log, {.about = "group a"}), Strings{"failed: last"});
  EXPECT_EQ(Texts(log, {.after = 4, .about = "group b"}), Strings());
  EXPECT_EQ(Texts(log, {.about = "group b", .last = 1}), Strings{"all 2 ranks have left"});
  EXPECT_EQ(Texts(log, {.last = 1}), Strings{"event 29999"});
  bool more = false;
  const auto page = log.Find({}, &more);
  EXPECT_TRUE(more);
  ASSERT_EQ(page.size(), EventLog::kPage);
  EXPECT_EQ(page[0].text, "failed: last") << "in the order of their numbers";
  EXPECT_EQ(page[1].text, "all 2 ranks have left");
  // As many endings as there are other events, then the oldest go.
  for (size_t i = 0; i < EventLog::kKept; ++i) log.AddEnding(6, "group x" + std::to_string(i) + ": ended");
  for (size_t i = 0; i < EventLog::kKept; ++i) log.Add(7, "group c: again " + std::to_string(i));
  EXPECT_EQ(Texts(log, {.about = "group b"}), Strings());
  EXPECT_EQ(Texts(log, {.about = "group x0"}), Strings{"ended"});
}

TEST(EventLog, TextOfOthersIsCutAndPrintable) {
  EventLog log;
  std::string text = "x";
  for (int i = 0; i < 1000; ++i) text += "\u00e4";
  log.Add(1, "group g: " + text);
  log.Add(2, "group g: \x1b[2J\n\x7f\u00e4");
  const Strings texts = Texts(log);
  EXPECT_LE(texts[0].size(), EventLog::kMaxTextBytes + 3);
  EXPECT_EQ(texts[0].substr(texts[0].size() - 5), "\u00e4...") << "between characters";
  EXPECT_EQ(texts[1], "?[2J??\u00e4");
}

// What a store is told makes, with the same numbers, a log that answers the same.
TEST(EventLog, GivesWhatAStoreLacksAndGoesOnFromIt) {
  EventLog log;
  std::map<uint64_t, Event> kept;
  const auto keep = [&kept](EventLog* from, size_t most) {
    const EventLog::Changes changes = from->TakeChanges(most);
    for (const uint64_t number : changes.dropped) EXPECT_EQ(kept.erase(number), 1u) << number;
    for (const Event& event : changes.events) kept[event.number] = event;
    EXPECT_LE(changes.events.size(), most);
    return changes.events.size();
  };
  const auto resumed = [&kept] {
    std::vector<Event> events;
    for (const auto& [number, event] : kept) events.push_back(event);
    auto after = std::make_unique<EventLog>();
    after->Resume(events);
    return after;
  };
  log.Add(1, "group a: joined");
  log.AddEnding(2, "group a: ended");
  log.Add(3, "switch s: refused");
  EXPECT_EQ(keep(&log, 2), 2u);
  log.Add(4, "switch s: refused");
  EXPECT_EQ(keep(&log, 2), 1u);
  EXPECT_EQ(keep(&log, 2), 0u);
  EXPECT_EQ(kept.at(3).times, 2u);
  EXPECT_EQ(resumed()->newest(), 3u);
  EXPECT_EQ(Texts(*resumed()), Texts(log));

  // Who is not asked for long is not to be told of what has come and gone meanwhile.
  for (size_t i = 0; i < EventLog::kKept + 10; ++i) log.Add(5, "group b: is made for time " + std::to_string(i));
  log.AddEnding(6, "group a: ended again");
  while (keep(&log, 1'000) != 0) {
  }
  // The ending before it is still there, among those that stay.
  EXPECT_EQ(kept.size(), EventLog::kKept + 1);
  const auto after = resumed();
  EXPECT_EQ(after->newest(), log.newest());
  EXPECT_EQ(Texts(*after, {.about = "group a"}), (Strings{"ended", "ended again"}));
  bool more = false;
  EXPECT_EQ(after->Find({.last = 5}, &more).front().number, log.Find({.last = 5}, &more).front().number);
  // Both go on alike.
  for (EventLog* const one : {&log, after.get()}) one->AddEnding(7, "group b: ended");
  EXPECT_EQ(log.newest(), after->newest());
  EXPECT_EQ(after->TakeChanges(10).dropped, log.TakeChanges(10).dropped);
}

TEST(EventLog, RefusalsStandBetweenTheOthersAndDisplaceNone) {
  EventLog log;
  log.Add(1, "group a: reserved for 2 ranks");
  EXPECT_EQ(log.AddRefusal(2, "host h0", "group a: rank 1 refused: x"), 1U);
  log.Add(3, "switch leaf1: up");
  EXPECT_EQ(log.AddRefusal(4, "host h0", "group a: rank 1 refused: x"), 2U);
  EXPECT_EQ(log.AddRefusal(5, "host h1", "group a: rank 1 refused: x"), 1U) << "another one's";
  EXPECT_EQ(log.AddRefusal(6, "host h0", "group a: rank 2 refused: x"), 1U);
  EXPECT_EQ(Texts(log), (Strings{"reserved for 2 ranks", "rank 1 refused: x", "up", "rank 1 refused: x", "rank 2 refused: x"}));
  EXPECT_EQ(Texts(log, {.after = 1, .about = "group a", .last = 2}), (Strings{"rank 1 refused: x", "rank 2 refused: x"}));
  bool more = false;
  const Event counted = log.Find({.after = 1}, &more).front();
  EXPECT_EQ(counted.times, 2U);
  EXPECT_EQ(counted.at, 4);

  for (int i = 0; i < 20'000; ++i) log.AddRefusal(i, "host h0", "group g" + std::to_string(i) + ": refused");
  EXPECT_EQ(Texts(log, {.about = "group a"}), (Strings{"reserved for 2 ranks", "rank 1 refused: x"})) << "h1's";
  EXPECT_EQ(Texts(log).size(), 2 + 1 + EventLog::kRefusalsOfOne);
  for (int i = 0; i < 20'000; ++i) log.AddRefusal(i, "host " + std::to_string(i), "group g: refused");
  EXPECT_EQ(log.Find({.after = 3}, &more).size(), EventLog::kRefusals);
  EXPECT_EQ(log.Find({.last = 1}, &more).front().number, log.newest());
  log.CheckInvariants();
}

}  // namespace
}  // namespace epic::manager
