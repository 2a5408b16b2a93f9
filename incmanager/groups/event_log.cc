#include "incmanager/groups/event_log.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/check.h"
#include "incmanager/text.h"

namespace epic::manager {
namespace {

// "group train: running" is about the group, and says the rest.
Event EventOf(uint64_t number, Nanos now, const std::string& line) {
  const size_t colon = line.find(": ");
  const bool about = colon != std::string::npos;
  return {.number = number,
          .at = now,
          .about = Printable(about ? line.substr(0, colon) : "manager", EventLog::kMaxTextBytes),
          .text = Printable(about ? line.substr(colon + 2) : line, EventLog::kMaxTextBytes)};
}

}  // namespace

void EventLog::Add(Nanos now, const std::string& line) { Put(now, line); }

void EventLog::AddEnding(Nanos now, const std::string& line) { Put(now, line).ending = true; }

// Who takes no changes for long is not to be told of all that has come and gone meanwhile.
void EventLog::Lose(uint64_t number) {
  changed_.erase(number);
  if (number <= given_) dropped_.insert(number);
}

EventLog::Changes EventLog::TakeChanges(size_t most) {
  Changes changes{.events = {}, .dropped = {dropped_.begin(), dropped_.end()}};
  dropped_.clear();
  while (!changed_.empty() && changes.events.size() < most) {
    const uint64_t number = *changed_.begin();
    changed_.erase(changed_.begin());
    given_ = std::max(given_, number);
    const auto ending = endings_.find(number);
    changes.events.push_back(ending != endings_.end() ? ending->second : *FindEvent(number));
  }
  return changes;
}

void EventLog::Resume(const std::vector<Event>& events) {
  // What was kept beyond the newest of these had stayed as an ending.
  const size_t first = events.size() - std::min(events.size(), kKept);
  for (size_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    given_ = event.number;
    next_ = event.number + 1;
    if (i >= first) {
      newest_of_[event.about] = event.number;
      events_.push_back(event);
    } else if (event.ending) {
      const auto [ending, is_new] = ending_of_.try_emplace(event.about, event.number);
      if (!is_new) endings_.erase(std::exchange(ending->second, event.number));
      endings_.emplace(event.number, event);
    } else {
      dropped_.insert(event.number);
    }
  }
}

std::deque<Event>::iterator EventLog::FindEvent(uint64_t number) {
  return std::ranges::lower_bound(events_, number, {}, &Event::number);
}

Event& EventLog::Put(Nanos now, const std::string& line) {
  Event event = EventOf(next_, now, line);
  const auto [newest, is_new] = newest_of_.try_emplace(event.about, event.number);
  if (!is_new) {
    Event& before = *FindEvent(newest->second);
    if (before.text == event.text) {
      before.at = now;
      ++before.times;
      changed_.insert(before.number);
      return before;
    }
    newest->second = event.number;
  }
  changed_.insert(event.number);
  events_.push_back(std::move(event));
  ++next_;
  if (events_.size() > kKept) DropOldest();
  return events_.back();
}

uint32_t EventLog::AddRefusal(Nanos now, const std::string& whom, const std::string& line) {
  const std::string key = Shortened(line, kMaxTextBytes);
  if (const auto of = refusals_of_.find(whom); of != refusals_of_.end()) {
    if (const auto known = of->second.find(key); known != of->second.end()) {
      Event& event = refusals_.at(known->second).event;
      event.at = now;
      return ++event.times;
    }
    if (of->second.size() >= kRefusalsOfOne)
      DropRefusal(std::ranges::min_element(of->second, {}, [](const auto& one) { return one.second; })->second);
  }
  if (refusals_.size() >= kRefusals) DropRefusal(refusals_.begin()->first);
  refusals_of_[whom][key] = next_;
  refusals_[next_] = {.event = EventOf(next_, now, line), .whom = whom, .line = key};
  ++next_;
  return 1;
}

void EventLog::CheckInvariants() const {
  EPIC_CHECK(events_.size() <= kKept && endings_.size() <= kKept && refusals_.size() <= kRefusals);
  EPIC_CHECK(std::ranges::is_sorted(events_, std::less_equal<>(), &Event::number));
  EPIC_CHECK(events_.empty() || events_.back().number < next_);
  std::map<std::string, uint64_t> newest;
  for (const Event& event : events_) newest[event.about] = event.number;
  EPIC_CHECK(newest == newest_of_);
  EPIC_CHECK(endings_.size() == ending_of_.size());
  for (const auto& [number, event] : endings_) {
    EPIC_CHECK(event.ending && event.number == number && ending_of_.at(event.about) == number);
    EPIC_CHECK(events_.empty() || number < events_.front().number);
  }
  size_t refusals = 0;
  for (const auto& [whom, lines] : refusals_of_) {
    EPIC_CHECK(!lines.empty() && lines.size() <= kRefusalsOfOne);
    for (const auto& [line, number] : lines)
      EPIC_CHECK(refusals_.at(number).whom == whom && refusals_.at(number).line == line);
    refusals += lines.size();
  }
  EPIC_CHECK(refusals == refusals_.size());
  // A store that is told of a change finds it.
  for (const uint64_t number : changed_)
    EPIC_CHECK(endings_.contains(number) || std::ranges::binary_search(events_, number, {}, &Event::number));
}

void EventLog::DropRefusal(uint64_t number) {
  const auto refusal = refusals_.find(number);
  const auto of = refusals_of_.find(refusal->second.whom);
  of->second.erase(refusal->second.line);
  if (of->second.empty()) refusals_of_.erase(of);
  refusals_.erase(refusal);
}

void EventLog::DropOldest() {
  Event& event = events_.front();
  const uint64_t number = event.number;
  const auto oldest = newest_of_.find(event.about);
  if (oldest->second == event.number) newest_of_.erase(oldest);
  if (event.ending) {
    const auto [ending, is_new] = ending_of_.try_emplace(event.about, event.number);
    if (!is_new) {
      Lose(ending->second);
      endings_.erase(std::exchange(ending->second, event.number));
    }
    endings_.emplace(event.number, std::move(event));
    if (endings_.size() > kKept) {
      Lose(endings_.begin()->first);
      ending_of_.erase(endings_.begin()->second.about);
      endings_.erase(endings_.begin());
    }
  } else {
    Lose(number);
  }
  events_.pop_front();
}

std::vector<Event> EventLog::Find(const EventQuery& query, bool* more) const {
  const auto is_asked_for = [&query](const Event& event) {
    return event.number > query.after && (query.about.empty() || event.about == query.about);
  };
  std::vector<const Event*> asked;
  for (const auto& [number, event] : endings_) {
    if (is_asked_for(event)) asked.push_back(&event);
  }
  for (const Event& event : events_) {
    if (is_asked_for(event)) asked.push_back(&event);
  }
  const auto others = static_cast<std::ptrdiff_t>(asked.size());
  for (const auto& [number, refusal] : refusals_) {
    if (is_asked_for(refusal.event)) asked.push_back(&refusal.event);
  }
  std::inplace_merge(asked.begin(), asked.begin() + others, asked.end(),
                     [](const Event* one, const Event* other) { return one->number < other->number; });
  const size_t last = query.last == 0 ? asked.size() : std::min<size_t>(asked.size(), query.last);
  asked.erase(asked.begin(), asked.end() - static_cast<std::ptrdiff_t>(last));
  *more = asked.size() > kPage;
  std::vector<Event> found;
  for (size_t i = 0; i < std::min(asked.size(), kPage); ++i) found.push_back(*asked[i]);
  return found;
}

}  // namespace epic::manager
