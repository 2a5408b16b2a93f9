// A host's hellos: LLDP by which switches know who is at their port (docs/PROTOCOL-CONTROL.md, section 12).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "proto/manager.pb.h"

namespace epic::host {

// What a host says of itself by one of its ports, to this group address; see roce::Lldp. The switch forgets
// it when it has not heard it for three seconds.
std::vector<uint8_t> HelloOf(const proto::HostInfo& info, const proto::HostPort& port, bool second_address);

// Says hello by network devices, each by a socket that is kept while the device is there. Not thread-safe.
class Hellos {
 public:
  Hellos() = default;
  ~Hellos();
  Hellos(const Hellos&) = delete;
  Hellos& operator=(const Hellos&) = delete;

  // By all devices, with the first address of each. To be called once a second. Returns why it cannot be said
  // by one of them, as "vec0: Operation not permitted"; empty if it was.
  std::string Say(const proto::HostInfo& info);

 private:
  std::map<std::string, int> sockets_;  // by device
};

}  // namespace epic::host
