// One shard of the switch: a thread of the data path with all that is its own (loop, core, ports, trace), so
// that shards share nothing. Shard 0 is the switch for everything but RoCE packets to the switch's own
// address; those are shared out by their queue pairs (io/packet_filter.h), and with them the groups.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/status.h"
#include "incengine/core/switch.h"
#include "incengine/daemon/control.h"
#include "incengine/daemon/options.h"
#include "incengine/daemon/ports.h"
#include "incengine/daemon/sharded_control.h"
#include "incengine/daemon/trace.h"
#include "io/event_loop.h"

namespace epic::daemon {

// The options of one of options.cores shards: its part of the arena, its trace, and that only shard 0 learns,
// floods and says hello.
Options OptionsOfShard(const Options& options, uint32_t number);

class Shard {
 public:
  // Opens its ports, as Ports::Open, and its trace.
  static StatusOr<std::unique_ptr<Shard>> Open(const Options& options, const Identity& identity,
                                               uint32_t number);
  // Ends the thread.
  ~Shard();
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  // To be called back, on its thread, when its ports or their neighbours have changed. Before Start.
  void OnChange(std::function<void()> call) { ports_->OnChange(std::move(call)); }

  // Begins the thread, "shard 0".
  void Start();

  // For the control plane, while the thread runs.
  ShardedControl::Shard control() { return {&loop_, control_.get()}; }

 private:
  Shard(const Options& options, uint32_t number);
  Status OpenPorts(const Identity& identity);

  const Options options_;
  const uint32_t number_;
  io::EventLoop loop_;
  engine::Switch switch_;
  std::unique_ptr<Trace> trace_;  // if one is asked for
  std::unique_ptr<Ports> ports_;
  std::unique_ptr<SwitchControl> control_;
  std::thread thread_;
};

}  // namespace epic::daemon
