// Asks a switch for an echo (UDP, RFC 862), by the host's own network stack: a second witness for the manager
// when a switch's agent is silent (docs/PROTOCOL-CONTROL.md, section 7.1). An ordinary socket, without any
// privilege. Nothing here waits: what became of the last requests is said when the next one is asked for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/types.h"
#include "protocol/echo_history.h"

namespace epic::internal {

class EchoProbe {
 public:
  // own: the address of the RoCE port, from which requests are sent.
  explicit EchoProbe(Ipv4 own) : own_(own) {}
  ~EchoProbe();
  EchoProbe(const EchoProbe&) = delete;
  EchoProbe& operator=(const EchoProbe&) = delete;

  // Of the requests before this one to the same address: whether there was one, and the newest whose echo has
  // come, as EchoHistory counts.
  struct Answer {
    bool asked = false;
    uint32_t answered = 0;
  };
  // Sends the next request. One that cannot be sent is one without an echo. port: 7, but in tests.
  Answer Ask(Ipv4 to, uint16_t port = 7);

 private:
  static constexpr size_t kMaxTargets = 8;  // of a rank: its host's switch, in practice

  struct Target {
    Ipv4 ip{};
    uint16_t port = 0;
    EchoHistory requests;  // none: free
  };
  bool Open();
  void ReadEchoes();

  const Ipv4 own_;
  int fd_ = -1;
  uint32_t next_number_ = 1;
  std::array<Target, kMaxTargets> targets_{};
};

}  // namespace epic::internal
