// The events of a simulated run as NDJSON, one object per line; docs/HACKING.md names the fields.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "protocol/control.h"
#include "sim/world.h"

namespace epic::sim {

// "deliver", "lose", "repeat", "delay", "corrupt", "cut", "linger", "hold", "flip".
const char* Name(Fate fate);

// Takes each line, without a newline.
using TraceSink = std::function<void(std::string_view)>;

// Lines for one world, at its time.
class Trace {
 public:
  // An empty sink: nothing is written, nor formatted.
  explicit Trace(TraceSink sink) : sink_(std::move(sink)) {}
  bool on() const { return static_cast<bool>(sink_); }

  void Run(std::string_view replay_line);
  void Sent(const World& world, const LinkPacket& packet, Fate fate);
  void Arrived(const World& world, const LinkPacket& packet, bool heard);
  void Started(Nanos now, int group, int rank, int call, const ControlHeader& header);
  void Ended(Nanos now, int group, int rank, int call, std::string_view how);
  void Stopped(Nanos now, int host, Nanos until);
  // A switch's engine, or a host; and that it is back, without what it had.
  void Crashed(const World& world, int node, Nanos until);
  void Restarted(const World& world, int node);
  // The manager has given the group up ("switch_lost", "rank_lost"), and told a rank.
  void GroupFailed(Nanos now, int group, std::string_view why);
  void Aborted(Nanos now, int group, int rank, std::string_view why);
  // In the place of another one.
  void GroupMade(Nanos now, int group, int instead_of, int qpns);
  void FaultsOff(Nanos now);
  void Verdict(Nanos now, std::string_view verdict);

 private:
  void Packet(const World& world, std::string_view event, const LinkPacket& packet, std::string_view fate);

  TraceSink sink_;
};

}  // namespace epic::sim
