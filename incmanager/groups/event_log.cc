#include "incmanager/groups/event_log.h"

#include <algorithm>
#include <cstdint>

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

void EventLog::Add(Nanos now, const std::string& line) {
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
      return;
    }
    newest->second = event.number;
  }
  events_.push_back(std::move(event));
  ++next_;
  if (events_.size() <= kKept) return;
  const auto oldest = newest_of_.find(events_.front().about);
  if (oldest->second == events_.front().number) newest_of_.erase(oldest);
  events_.pop_front();
}

std::vector<Event> EventLog::Find(const EventQuery& query, bool* more) const {
  const auto is_asked_for = [&query](const Event& event) {
    return event.number > query.after && (query.about.empty() || event.about == query.about);
  };
  size_t skip = 0;
  if (query.last != 0) {
    const auto all = static_cast<size_t>(std::ranges::count_if(events_, is_asked_for));
    skip = all - std::min<size_t>(all, query.last);
  }
  *more = false;
  std::vector<Event> found;
  for (const Event& event : events_) {
    if (!is_asked_for(event)) continue;
    if (skip > 0) {
      --skip;
    } else if (found.size() == kPage) {
      *more = true;
      break;
    } else {
      found.push_back(event);
    }
  }
  return found;
}

}  // namespace epic::manager
