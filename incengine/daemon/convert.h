// Between the messages of proto/switch.proto and the engine's values. Errors are INVALID_ARGUMENT and name
// the field.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "incengine/core/engine.h"
#include "incengine/core/forwarding.h"
#include "incengine/core/neighbours.h"
#include "incengine/core/probe.h"
#include "incengine/core/refused.h"
#include "incengine/state/config.h"
#include "proto/switch.pb.h"

namespace epic::daemon {

// The switch's ports by name; the place in the list is the PortId.
using PortNames = std::vector<std::string>;

StatusOr<engine::GroupConfig> FromProto(const proto::GroupConfig& message, const PortNames& ports);
StatusOr<engine::ForwardingTable> FromProto(const proto::ForwardingTable& message, const PortNames& ports);
StatusOr<engine::ProbeTarget> FromProto(const proto::ProbeRequest& message, const PortNames& ports);

proto::EndpointConfig ToProto(const engine::EndpointConfig& config, const PortNames& ports);
proto::GroupConfig ToProto(const engine::GroupConfig& config, const PortNames& ports);
proto::ForwardingTable ToProto(const engine::ForwardingTable& table, const PortNames& ports);
proto::Neighbour ToProto(const engine::Neighbour& neighbour);
proto::RefusedEndpoint ToProto(const engine::RefusedEndpoint& endpoint, const PortNames& ports);
// How an Install that is refused is answered: by a reply with the refusal if the request takes that, else by
// the status; by the status also where it is no refusal (UNAVAILABLE). shortage: of RESOURCE_EXHAUSTED.
StatusOr<proto::InstallReply> Refused(const proto::InstallRequest& request, const Status& status,
                                      const engine::Shortage& shortage = {});
std::string MacBytes(const roce::MacAddress& mac);

// The pool of a switch, or of one shard of it.
proto::Pool ToProto(const engine::Pool& pool);
// Of a group of this engine: why its leg has ended; nothing if it has none, or has not.
std::optional<proto::LegFailure> LegFailureOf(const engine::Engine& engine, const engine::Context& group);

}  // namespace epic::daemon
