// Writes down what crosses the boundary of the engine's core, in order, for docs/TRACE.md's checker and for
// people: groups, packets in, timers, packets out. One JSON object per line. A debugging option: it costs a
// parse and a line per packet. On the loop's thread.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "incengine/core/switch.h"

namespace epic::daemon {

class Trace {
 public:
  // Begins the file anew. INVALID_ARGUMENT if it cannot be written. After limit_bytes the trace is cut, and
  // its last line says so. sw is the switch that is traced.
  static StatusOr<std::unique_ptr<Trace>> Open(const std::string& path, uint64_t limit_bytes,
                                               const std::string& name, const engine::SwitchConfig& sw);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // Before the switch is given a frame, or a timer.
  void OnFrame(Nanos now, PortId port, std::span<const uint8_t> frame);
  void OnTimer(Nanos now, engine::TimerId id);
  // A frame that the switch sends; what it only forwards is left out.
  void OnSend(PortId port, std::span<const uint8_t> frame);

  // After the engine has done so.
  void OnInstall(Nanos now, const engine::GroupConfig& config);
  void OnRemove(Nanos now, uint64_t group_id, uint32_t generation);
  void OnFail(Nanos now, uint64_t group_id, uint32_t generation);

  // Hands what has been written to the kernel. A failure is logged, and ends the trace.
  void Flush();

 private:
  Trace(std::FILE* file, std::string path, uint64_t limit_bytes, const engine::SwitchConfig& sw);
  void Line(Nanos now, const std::string& line);
  void Packet(Nanos now, const char* event, PortId port, const roce::Packet& packet);
  // Whether `local` is this switch's address, or one that an end of a group bears to `remote`, whose `qpn` is
  // this one.
  bool IsOurs(Ipv4 local, Ipv4 remote, Qpn engine::EndpointConfig::*qpn, Qpn of_packet) const;

  std::FILE* file_;  // none after a failure
  std::string path_;
  uint64_t limit_;
  uint64_t written_ = 0;
  bool cut_ = false;
  engine::SwitchConfig switch_;
  std::map<uint64_t, std::vector<engine::EndpointConfig>> bearing_;  // by group, ends that bear an address
  std::string buffer_;
  Nanos now_ = 0;
  std::optional<engine::TimerId> timer_;  // has fired, and nothing has been sent for it yet
};

}  // namespace epic::daemon
