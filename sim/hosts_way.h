// How the ranks of a group are connected with each other, where their calls go between the hosts.
#pragma once

#include <optional>

#include "base/types.h"
#include "commlib/core/host_path.h"
#include "protocol/abilities.h"
#include "sim/choices.h"
#include "sim/scenario.h"
#include "sim/world.h"

namespace epic::sim {

struct HostsWay {
  // Rank and size are filled in, and so are chunks of a path MTU where datagrams have none.
  // agrees_by_exchange: all calls go between the hosts.
  HostPathConfig path;
  // Of the switches, if not: what they lack goes between the hosts.
  Abilities abilities = Abilities::All();
  Nanos tell_ns = 1;        // longest time of a message from rank to rank through the manager
  Nanos completion_ns = 0;  // as PeerConfig's
};

// That of a group of a scenario: empty if its calls go by the network.
std::optional<HostsWay> ChooseWay(const Scenario& scenario, const WorldConfig& config, Choices& choices);

}  // namespace epic::sim
