// The network as it is: what a file states of it, and what the switches report. Pure: reports come in; a
// topology whose nodes and links keep their places, and a list of what has changed, come out
// (docs/PROTOCOL.md, "The live graph").
//
//   stated      by a file: always there, up while both ends have a carrier
//   found       a link between switches when both ends, both registered, name each other; a host where its
//   LLDP
//               or its ARP is heard, at a port without a switch
//
// Without discovery only what is stated counts, and reports are of its carriers alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "incmanager/engine_report.h"
#include "incmanager/topology.h"

namespace epic::manager {

// Of links that were found: nobody says their delay, and not all interfaces their rate.
struct LinkDefaults {
  double rate_gbps = 10;
  double delay_us = 20;  // one way
};

struct GraphEvent {
  std::string text;      // one sentence; names the culprits
  bool warning = false;  // somebody should look at it
};

class Graph {
 public:
  static constexpr size_t kMaxNodes = manager::kMaxNodes;
  // Of these hosts take no more than leave so many for switches; and at one port no more are known, with
  // those that were heard there last and are silent now.
  static constexpr size_t kForSwitches = 1024;
  static constexpr size_t kMaxHostsAtPort = 64;
  // What reports say is taken in no more often, however many of them say something new.
  static constexpr Nanos kUpdateEvery = 100 * kMillisecond;
  // Who calls itself a switch and has not registered by then is told of.
  static constexpr Nanos kStrangerAfter = 10 * kSecond;
  // A switch says hello within a second of when its port comes up.
  static constexpr Nanos kEdgeAfter = 3 * kSecond;
  // Who is heard elsewhere than where the file has it, and not there, has so long to answer there.
  static constexpr Nanos kDoubtFor = 3 * kSecond;

  // stated: of a file, or an empty one of which only `discovery` is set.
  explicit Graph(Topology stated, const LinkDefaults& defaults = {});

  const Topology& topology() const { return topology_; }
  bool discovers() const { return topology_.discovery; }
  // Counts up whenever ways may lead elsewhere than before.
  uint64_t version() const { return version_; }
  // Neither end of the link is reported without a carrier; a host's counts as having one.
  bool HasCarriers(LinkEnd end) const;
  // How often reports have been taken in.
  uint64_t updates() const { return updates_; }

  // A switch registers. With discovery it is taken in, if it is not known; without, nothing happens. lives:
  // one of this name is heard at present, which only the same switch may replace. Errors: ALREADY_EXISTS
  // naming both who have a name, an address or a MAC; PERMISSION_DENIED naming the line of the file that
  // forbids it; RESOURCE_EXHAUSTED; INVALID_ARGUMENT (the name).
  Status Admit(const EngineReport& engine, bool lives);
  // What a registered switch says of its ports. Follow takes it in.
  void OnReport(Nanos now, NodeId node, const EngineReport& engine);
  // To be called after reports, and about ten times a second.
  void Follow(Nanos now);
  // Whether its engine runs, as far as one knows.
  void SetPasses(NodeId node, bool passes);
  // A host of which only the address is known gets the name that its ranks give, if it is nobody's yet.
  void NameHost(NodeId node, const std::string& name);

  // Ports of a switch at which hosts may be that nobody has heard yet: with a carrier for kEdgeAfter, and in
  // that time no switch was heard there. What is flooded goes there, too.
  const std::set<std::string>& EdgePorts(NodeId node) const;

  // Hosts whose place is not known, or in doubt: switches are to be asked for them (HostSearch), until they
  // are not among these any more.
  std::set<NodeId> Sought() const;
  // They have been asked, and nobody has answered.
  void OnNotFound(NodeId host) { sought_.erase(host); }
  // Something speaks against the host's place: switches are to be asked for it, unless it is heard there.
  void Seek(NodeId host);
  // Whether the host is heard at the port where it is known to be.
  bool IsHeardThere(NodeId host) const;
  // Whether what comes in by a port of a switch comes from another switch, as far as one knows or hears.
  bool LeadsToSwitch(NodeId node, const std::string& port) const;

  // Sentences on what contradicts the file, or what others say, as of now.
  const std::set<std::string>& complaints() const { return complaints_; }

  // What has happened since the last call.
  std::vector<GraphEvent> TakeEvents();

 private:
  // A port of a switch, by its index in the last report.
  using Port = std::pair<NodeId, uint32_t>;
  // A host, as it is heard at a port.
  struct Sighting {
    Port at;
    Ipv4 ip{};
    std::string name;
    // How good the address is: a daemon's of ours, which means that interface; one that it has spoken with;
    // or one at which it says that it is managed.
    enum class Source : uint8_t { kDaemon, kArp, kManaged } source = Source::kArp;
  };
  struct Stranger {
    Nanos since = 0;
    bool told = false;
  };

  bool IsForbidden(const std::string& node, const std::string& port, uint32_t* line) const;
  const PortState& StateOf(const Port& port) const { return reports_.at(port.first)[port.second]; }
  std::string NameOf(const Port& port) const;
  // With its line in the file, if it has one.
  std::string WhoIs(const Node& node) const;
  bool IsUp(NodeId node, const std::string& port) const;
  double RateOf(NodeId node, const std::string& port) const;
  // That of the slower interface; nothing if the rate of neither is known.
  std::optional<double> RateBetween(NodeId a, const std::string& a_port, NodeId b,
                                    const std::string& b_port) const;
  void SetRate(LinkEnd end);
  void Tell(std::string text, bool warning = false);
  // Of what stands as long as it is not said by an update: told once.
  void Complain(const std::string& text);

  // What is heard: graph_find.cc.
  void ReadClaims();
  std::optional<Port> ReadClaim(const Port& at, const Neighbour& neighbour);
  void CheckStated(const Port& at, const Port& heard);
  void FindLinks();
  void SetLink(const Port& a, const Port& b);
  void FindHosts();
  void SeeHost(const Port& at, const Neighbour& neighbour);
  void PlaceHost(const Mac& mac, const std::vector<Sighting>& seen);
  std::optional<NodeId> HostFor(const Mac& mac, const Sighting& seen);
  static Sighting SightingOf(const Port& at, const Neighbour& neighbour);
  bool HasRoom(const Sighting& seen);
  std::optional<NodeId> NewHost(const Mac& mac, const Sighting& seen);
  void Attach(NodeId host, const Port& at);
  const Hop* StatedAt(const Port& port) const;
  std::string StatedBy(const Hop& hop) const;

  // Where hosts of the file are: graph_places.cc.
  bool MayHaveHosts(const Port& at) const;
  const Node* StatedHostAt(const Port& at) const;
  std::string Elsewhere(NodeId host, const Port& at) const;
  void SeekAt(NodeId node, const std::vector<PortState>& before);
  void FollowPlace(NodeId host, const std::vector<Port>& heard);
  void FollowPlaces();

  void FindEdges(NodeId node);
  void Update();
  void MakeIndex();
  // A host's link of before it moved.
  bool IsFormer(LinkEnd end) const;
  // Another link is at the port.
  bool IsTakenByAnother(LinkEnd end) const;
  // The engine does not report the port any more: no table may lead there.
  bool IsWithoutPort(LinkEnd end) const;
  LinkState StateNow(LinkEnd end) const;
  void SetState(LinkEnd end, LinkState state);
  void SetUnheard(LinkEnd end);
  void SetStates();
  LinkEnd MakeLink(NodeId a, const std::string& a_port, NodeId b, const std::string& b_port);
  std::string HostName(const std::string& told, Ipv4 ip) const;

  Topology topology_;
  const LinkDefaults defaults_;
  uint64_t version_ = 1;
  uint64_t updates_ = 0;
  Nanos now_ = 0;
  std::map<NodeId, std::vector<PortState>> reports_;            // of switches that have registered
  std::map<NodeId, std::map<std::string, Nanos>> quiet_since_;  // ports at which no switch is heard
  std::map<NodeId, std::set<std::string>> edges_;
  std::vector<GraphEvent> events_;
  std::set<std::string> complaints_;  // that stand
  // Switches that are heard and have not registered, and since when.
  std::map<std::pair<Port, std::string>, Stranger> strangers_;
  bool outdated_ = false;  // reports have come that the graph does not have yet
  Nanos updated_at_ = -kUpdateEvery;
  // Of the update under way, or the last one.
  std::set<std::string> raised_;
  // Hosts of the file that are heard elsewhere only, and since when.
  struct Doubt {
    Nanos since = 0;
    Port at;
    bool told = false;
  };
  std::map<NodeId, Doubt> doubts_;
  std::set<NodeId> sought_;  // that nobody has heard yet, of those whose ports have come up; and Seek's
  struct Index {
    std::map<std::string, NodeId> switches;
    std::map<Ipv4, NodeId> switches_by_address;
    std::map<Mac, NodeId> switches_by_mac;
    std::map<Ipv4, NodeId> hosts_by_address;
    std::map<Mac, NodeId> hosts_by_mac;
  };
  Index index_;
  std::map<Port, Port> claims_;  // which switch's port is heard where, if that is one
  std::set<Port> no_hosts_;      // ports whose neighbours count as no hosts
  std::set<LinkEnd> present_;    // links that are found, by both ends
  std::map<Mac, std::vector<Sighting>> sightings_;
};

}  // namespace epic::manager
