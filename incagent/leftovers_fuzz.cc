// The manager's answer to a registration, and what an engine says of itself: the agent's pause stays within
// its bounds, and it removes only groups that the engine had and the manager does not keep.
#include <algorithm>
#include <string>

#include "base/check.h"
#include "incagent/leftovers.h"
#include "tests/fuzz/message_testing.h"

namespace epic::agent {
namespace {

const fuzz::Words kWords = {"leaf1", "job", ""};

void Run(const uint8_t* data, size_t size) {
  proto::EngineInfo engine_before;
  proto::RegisterReply answer;
  proto::DumpReply dump_after;
  answer.set_heartbeat_ms(1000);
  for (uint64_t id = 1; id <= 4; ++id) {
    engine_before.add_group_ids(id);
    if (id % 2 == 0) answer.add_keep_group_ids(id);
    proto::GroupConfig* config = dump_after.add_groups()->mutable_config();
    config->set_group_id(id);
    config->set_generation(1);
    config->set_name("job");
  }
  FuzzInput in(data, size);
  const auto engine = fuzz::Received(in, kWords, engine_before);
  const auto reply = fuzz::Received(in, kWords, answer);
  const auto dump = fuzz::Received(in, kWords, dump_after);
  if (!engine || !reply || !dump) return;

  const auto interval = HeartbeatInterval(*reply);
  EPIC_CHECK(interval >= kMinHeartbeat && interval <= kMaxHeartbeat);
  const auto has = [](const auto& ids, uint64_t id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  const auto leftovers = Leftovers(*engine, *reply, *dump);
  EPIC_CHECK(leftovers.empty() || HasLeftovers(*engine, *reply));
  for (const proto::GroupConfig* group : leftovers) {
    EPIC_CHECK(has(engine->group_ids(), group->group_id()));
    EPIC_CHECK(!has(reply->keep_group_ids(), group->group_id()));
  }
}

}  // namespace
}  // namespace epic::agent

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  epic::agent::Run(data, size);
  return 0;
}
