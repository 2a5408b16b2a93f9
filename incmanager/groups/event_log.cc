#include "incmanager/groups/event_log.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "incmanager/text.h"

namespace epic::manager {
namespace {

std::string Printable(const std::string& from) {
  std::string text = Shortened(from, EventLog::kMaxTextBytes);
  std::ranges::replace_if(
      text, [](char c) { return static_cast<uint8_t>(c) < 0x20 || c == 0x7f; }, '?');
  return text;
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
    changes.events.push_back(ending != endings_.end() ? ending->second
                                                      : events_[number - events_.front().number]);
  }
  return changes;
}

void EventLog::Resume(const std::vector<Event>& events) {
  // Neighbours' numbers at the end are events; what is before a gap has stayed as an ending.
  size_t first = events.size();
  while (first > 0 && (first == events.size() || events[first - 1].number + 1 == events[first].number)) --first;
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
  while (events_.size() > kKept) DropOldest();
}

Event& EventLog::Put(Nanos now, const std::string& line) {
  const size_t colon = line.find(": ");
  Event event{.number = next_, .at = now};
  event.about = Printable(colon == std::string::npos ? "manager" : line.substr(0, colon));
  event.text = Printable(colon == std::string::npos ? line : line.substr(colon + 2));
  const auto [newest, is_new] = newest_of_.try_emplace(event.about, event.number);
  if (!is_new) {
    Event& before = events_[newest->second - events_.front().number];
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
  size_t skip = 0;
  if (query.last != 0) {
    const auto all = static_cast<size_t>(
        std::ranges::count_if(endings_, [&](const auto& ending) { return is_asked_for(ending.second); }) +
        std::ranges::count_if(events_, is_asked_for));
    skip = all - std::min<size_t>(all, query.last);
  }
  *more = false;
  std::vector<Event> found;
  // False if the page is full.
  const auto take = [&](const Event& event) {
    if (!is_asked_for(event)) return true;
    if (skip > 0) return --skip, true;
    if (found.size() == kPage) return *more = true, false;
    found.push_back(event);
    return true;
  };
  for (const auto& [number, event] : endings_) {
    if (!take(event)) return found;
  }
  for (const Event& event : events_) {
    if (!take(event)) break;
  }
  return found;
}

}  // namespace epic::manager
