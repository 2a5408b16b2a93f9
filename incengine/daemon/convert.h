// Between the messages of proto/switch.proto and the engine's values. Errors are INVALID_ARGUMENT and name
// the field.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
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
std::string MacBytes(const roce::MacAddress& mac);

}  // namespace epic::daemon
