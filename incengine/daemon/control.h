// What the control plane can do to a switch, or one shard of it, in terms of proto/switch.proto but without
// RPC. On the loop's thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/stable_hash.h"
#include "incengine/core/switch.h"
#include "incengine/daemon/convert.h"
#include "incengine/daemon/fence.h"
#include "incengine/daemon/ports.h"
#include "incengine/daemon/trace.h"
#include "proto/switch.pb.h"

namespace epic::daemon {

struct Identity {
  std::string name;
  std::string version;
  uint64_t boot_id = 0;  // random at each start
};

class SwitchControl {
 public:
  using PortReader = std::function<std::vector<PortState>()>;

  // Has Switch::Probe's frame sent.
  using ProbeSender = std::function<engine::ProbeAnswer(const engine::ProbeTarget&)>;
  // Has Switch::Locate's frames sent.
  using LocateSender = std::function<bool(Ipv4)>;

  // sw and trace (which may be none) outlive this. read_ports tells the state of the ports, in their order;
  // without send_probe probes are refused, and without send_locate nobody is located.
  SwitchControl(Identity identity, PortNames ports, engine::Switch& sw, PortReader read_ports,
                Trace* trace = nullptr, ProbeSender send_probe = nullptr, LocateSender send_locate = nullptr);

  // Errors are those of switch.proto; a refusal of Install is a reply if the request takes it.
  proto::EngineInfo Describe() const;
  proto::DumpReply Dump(const proto::DumpRequest& page = {}) const;
  StatusOr<proto::InstallReply> Install(const proto::InstallRequest& request);
  StatusOr<proto::RemoveReply> Remove(const proto::RemoveRequest& request);
  StatusOr<proto::FailReply> Fail(const proto::FailRequest& request);
  StatusOr<proto::SetForwardingReply> SetForwarding(const proto::SetForwardingRequest& request);
  StatusOr<proto::ProbeReply> Probe(const proto::ProbeRequest& request);
  StatusOr<proto::LocateReply> Locate(const proto::LocateRequest& request);
  // Whether a group of this id is installed.
  bool Has(uint64_t group_id) const;
  ContextUse Use() const;

 private:
  // The group; none if it is not there, or is of another generation.
  const engine::Context* Find(uint64_t group_id, uint32_t generation) const;
  // Returns the bytes that the group takes; errors as Engine::Install.
  StatusOr<size_t> InstallGroup(const proto::GroupConfig& group, engine::Shortage* shortage);
  proto::GroupDump DumpGroup(const engine::Context& group) const;
  void DumpCounters(proto::DumpReply* reply) const;

  Identity identity_;
  PortNames ports_;
  engine::Switch& switch_;
  PortReader read_ports_;
  Trace* trace_;
  ProbeSender send_probe_;
  LocateSender send_locate_;
  engine::ContextCounters removed_;  // sums over the groups that have been removed
  uint64_t forwarding_hash_ = StableHash({});  // of the table's message; without one, of nothing
};

}  // namespace epic::daemon
