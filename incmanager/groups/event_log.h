// What has happened lately, for operators: joins, placements, refusals with their reasons, losses. Bounded.
// Not thread-safe; no clock, the time comes in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/types.h"
#include "incmanager/text.h"

namespace epic::manager {

struct Event {
  uint64_t number = 0;  // from 1 on, ascending
  Nanos at = 0;         // when it happened last
  uint32_t times = 1;   // how often in a row, of all that is about the same
  std::string about;    // "group train", "switch leaf1"
  std::string text;
  bool ending = false;
};

struct EventQuery {
  uint64_t after = 0;  // those with higher numbers
  std::string about;   // empty: of all
  uint32_t last = 0;   // of them the newest so many; 0: all
};

class EventLog {
 public:
  static constexpr size_t kKept = 10'000;
  // Of one answer, so that it stays below a megabyte.
  static constexpr size_t kPage = 1'000;
  static constexpr size_t kMaxTextBytes = kMaxEventBytes;
  // Of refusals, which are kept apart, so that who is refused all the time displaces nothing else; and of one
  // who is refused, so that he does not displace those of others.
  static constexpr size_t kRefusals = 1'000;
  static constexpr size_t kRefusalsOfOne = 100;

  // "group train: running with 4 ranks": what it is about, and what happened. Of a line that says the same as
  // the newest about it, the first stays and counts. What is longer than kMaxTextBytes is cut between
  // characters; control characters become '?'.
  void Add(Nanos now, const std::string& line);

  // In the order of their numbers, at most kPage: more behind them if *more.
  std::vector<Event> Find(const EventQuery& query, bool* more) const;
  // As Add, of a line that says how what it is about has ended: also kept when kKept newer ones have come, as
  // the newest such line of each of kKept of these.
  void AddEnding(Nanos now, const std::string& line);

  // What a store, which has all but refusals, lacks since the last call: at most so many events that are new
  // or have counted, and the numbers of those that are kept no longer. The rest comes with the next call.
  struct Changes {
    std::vector<Event> events;
    std::vector<uint64_t> dropped;
  };
  Changes TakeChanges(size_t most);
  // Those of a former manager, by ascending numbers; to be called first.
  void Resume(const std::vector<Event>& events);
  // As Add, of what `whom` has been refused. Of a line that has been said of him and is kept, however long ago,
  // the first stays and counts. Returns how often that is by now.
  uint32_t AddRefusal(Nanos now, const std::string& whom, const std::string& line);

  // Aborts if something does not hold that always does: events are in
  // order and found by what they are about, refusals by whom and for what, and no more are kept than may be.
  void CheckInvariants() const;

  // The number of the newest; 0 if there is none.
  uint64_t newest() const { return next_ - 1; }

 private:
  // The event that the line has become, or that it repeats; valid until the next one.
  Event& Put(Nanos now, const std::string& line);
  void DropOldest();
  // Of events_: which has this number.
  std::deque<Event>::iterator FindEvent(uint64_t number);
  void Lose(uint64_t number);
  void DropRefusal(uint64_t number);

  std::map<uint64_t, Event> endings_;          // by number, of those that are not in events_ any more
  std::map<std::string, uint64_t> ending_of_;  // by what they are about
  std::deque<Event> events_;                   // in the order of their numbers
  std::map<std::string, uint64_t> newest_of_;  // by what they are about, of those of events_
  struct Refusal {
    Event event;
    std::string whom;
    std::string line;
  };
  std::map<uint64_t, Refusal> refusals_;                                // by number
  std::map<std::string, std::map<std::string, uint64_t>> refusals_of_;  // by whom, by line
  // By number, what TakeChanges has not given yet.
  std::set<uint64_t> changed_, dropped_;
  uint64_t given_ = 0;  // the highest number that it has given
  uint64_t next_ = 1;
};

}  // namespace epic::manager
