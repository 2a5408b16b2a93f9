// Where ports come from: the kernel's network interfaces (io/kernel_ports.h), or devices of another kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "io/frame_port.h"
#include "io/interface.h"
#include "io/packet_filter.h"

namespace epic::io {

struct PortRequest {
  std::string name;
  size_t ring_bytes = 0;            // of what is received
  bool single_frames = false;       // no super-frames
  std::optional<FrameShard> shard;  // only its frames; none: all
};

// Ports go by their names. One thread at a time.
class PortSource {
 public:
  virtual ~PortSource() = default;
  PortSource(const PortSource&) = delete;
  PortSource& operator=(const PortSource&) = delete;

  // Whether the port is one of these.
  virtual bool Has(const std::string& name) const = 0;
  // What is set wrongly, and what cures it; empty if nothing is.
  virtual std::string Wrong(const std::string& name) = 0;
  // NOT_FOUND, UNAVAILABLE (not now, but later it may be), PERMISSION_DENIED, INVALID_ARGUMENT or INTERNAL,
  // with the port's name. The source outlives the port.
  virtual StatusOr<std::unique_ptr<FramePort>> Open(const PortRequest& request) = 0;
  // What the port is now; it exists if Open has a chance.
  virtual InterfaceState State(const std::string& name) = 0;
  // As ReadTimesDown and ReadRateMbps.
  virtual std::optional<uint32_t> TimesDown(const std::string& name) = 0;
  virtual uint32_t RateMbps(const std::string& name) = 0;
  // What its frames may be, for people.
  virtual std::string Describe(const std::string& name, bool single_frames) = 0;

 protected:
  PortSource() = default;
};

}  // namespace epic::io
