// Dumps of groups at switches, shared by all who ask for them at about the same time: at a deadline all ranks
// of a group ask at once.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "proto/switch.pb.h"

namespace epic::manager {

// How long switches are waited for on behalf of who has so much time left, or none: the rest is for the
// answer's way, and for a machine that is busy.
inline std::chrono::nanoseconds PatienceOf(std::chrono::nanoseconds left, std::chrono::seconds most) {
  return std::clamp<std::chrono::nanoseconds>(left / 4 * 3, std::chrono::nanoseconds(0), most);
}

// Thread-safe. An answer may come after this object is gone.
class SharedDumps {
 public:
  using Answer = std::function<void(const StatusOr<proto::DumpReply>&)>;
  // Asks a switch, by its name, for a group. Calls the answer once, on any thread, also at once.
  using Ask = std::function<void(const std::string& switch_name, Answer answer)>;

  // For whom recent ones will do an answer is good for so long.
  static constexpr Nanos kGoodFor = 200 * kMillisecond;

  // now: the time, for how old an answer is.
  explicit SharedDumps(std::function<Nanos()> now) : now_(std::move(now)) {}

  // The group's dumps by these switches, by name. A switch is asked unless a question to it is under way, or
  // `recent` ones will do and its last answer is still good. Blocks until all have answered, or `until`: then
  // without the others, and without those that have answered by an error.
  std::map<std::string, proto::DumpReply> Of(uint64_t group_id, const std::vector<std::string>& switches,
                                             bool recent, const Ask& ask,
                                             std::chrono::steady_clock::time_point until);

 private:
  struct Question {
    bool answered = false;
    Nanos at = 0;  // when it was
    StatusOr<proto::DumpReply> reply = proto::DumpReply();
  };
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
  };

  const std::function<Nanos()> now_;
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();  // its mutex guards the questions
  // By group and switch: under way, or answered lately.
  std::map<std::pair<uint64_t, std::string>, std::shared_ptr<Question>> questions_;
};

}  // namespace epic::manager
