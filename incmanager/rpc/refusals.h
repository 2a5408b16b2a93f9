// Refusals that have been told: who is refused tries again each second, and is told of once.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/types.h"

namespace epic::manager {

class Refusals {
 public:
  // So many are remembered, each until it has not come for this time.
  static constexpr size_t kMost = 256;
  static constexpr Nanos kRemembered = 60 * kSecond;

  // Whether this is not remembered, and so is to be told. `who`: whose refusal it is.
  bool IsNew(Nanos now, const std::string& who, const std::string& line) {
    std::erase_if(heard_, [now](const auto& refusal) { return now - refusal.second > kRemembered; });
    const auto heard = heard_.insert_or_assign({who, line}, now);
    if (heard_.size() > kMost) {
      const auto oldest = std::ranges::min_element(heard_, {}, [&](const auto& refusal) {
        return refusal.first == heard.first->first ? now + 1 : refusal.second;
      });
      heard_.erase(oldest);
    }
    return heard.second;
  }
  // Who is not refused any more: the next refusal is news.
  void Forget(const std::string& who) {
    std::erase_if(heard_, [&who](const auto& refusal) { return refusal.first.first == who; });
  }

 private:
  std::map<std::pair<std::string, std::string>, Nanos> heard_;  // by who and line, when last
};

}  // namespace epic::manager
