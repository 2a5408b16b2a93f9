// The manager's line to one switch's agent: calls are carried out one after the other on a thread of its own,
// so that a dead agent holds up nobody else, and an Install can never overtake a Remove.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "incmanager/groups/install_answer.h"
#include "proto/switch.pb.h"

namespace epic::manager {

class AgentLink {
 public:
  // How a call ended; runs on the link's thread.
  using Done = std::function<void(const Status&)>;

  // switch_name: for messages.
  explicit AgentLink(std::string switch_name);
  // Waits for the calls under way (at most kCallTimeoutS); calls that wait are dropped and their Done does
  // not run.
  ~AgentLink();
  AgentLink(const AgentLink&) = delete;
  AgentLink& operator=(const AgentLink&) = delete;

  static constexpr int kCallTimeoutS = 5;
  static constexpr int kProbeTimeoutS = 1;

  // Where the agent serves, "IP:PORT"; before this all calls end with UNAVAILABLE.
  void SetAddress(const std::string& address);

  void Install(const proto::GroupConfig& config, std::function<void(const InstallAnswer&)> done);
  void Remove(uint64_t group_id, uint32_t generation, Done done);
  void Fail(uint64_t group_id, uint32_t generation, Done done);
  void SetForwarding(const proto::ForwardingTable& table, Done done);

  // Does not wait for calls in the queue, nor they for this. done runs on a thread of gRPC or on the
  // caller's.
  void Probe(const proto::ProbeRequest& request,
             std::function<void(const StatusOr<proto::ProbeReply>&)> done);

  // As Probe.
  void Locate(const proto::LocateRequest& request,
              std::function<void(const StatusOr<proto::LocateReply>&)> done);

  // As Probe, but for its time.
  void AskDump(const proto::DumpRequest& page, std::function<void(const StatusOr<proto::DumpReply>&)> done);

  // Blocks the caller; does not wait for calls in the queue.
  StatusOr<proto::DumpReply> Dump(const proto::DumpRequest& page);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace epic::manager
