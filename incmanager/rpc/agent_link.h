// The manager's line to one switch's agent: calls are carried out one after the other, so that an Install can
// never overtake a Remove. One thread waits for the answers of all agents, so that a dead one holds up nobody
// else, and a thousand switches take no thousand threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "incmanager/groups/install_answer.h"
#include "proto/switch.pb.h"

namespace epic::manager {

// Waits for the answers of all agents.
class AgentThread {
 public:
  AgentThread();
  // All links must have gone.
  ~AgentThread();
  AgentThread(const AgentThread&) = delete;
  AgentThread& operator=(const AgentThread&) = delete;

 private:
  friend class AgentLink;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

class AgentLink {
 public:
  // How a call ended; runs on the agents' thread.
  using Done = std::function<void(const Status&)>;

  // switch_name: for messages. thread outlives this. manager: what calls that change something bear; without
  // a cluster nothing.
  AgentLink(std::string switch_name, AgentThread* thread, proto::Fence manager = {});
  // Not on the agents' thread. Waits for the calls under way (at most kCallTimeoutS); calls that wait are dropped and their Done does
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
  void KeepForwarding(uint64_t hash, Done done);

  // Does not wait for calls in the queue, nor they for this. done runs on the agents' thread or on the
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
  template <typename Request>
  void Sign(Request* request) const;
  void AskForwarding(proto::SetForwardingRequest request, Done done);

  class Impl;
  const proto::Fence manager_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace epic::manager
