// Hosts whose daemon (inchost) has registered them, and the sessions of their ranks (EPIC paper,
// section 3.3.1). Sans-IO: what daemons say and time come in. What follows from a daemon's silence is in host_doubts.h.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace epic::manager {

// Of a daemon's stream: another one each time that it connects.
using HostId = uint64_t;
// Silent for longer, a daemon is away, and its host is asked whether it lives (host_doubts.h).
inline constexpr Nanos kHostSilentAfter = 4 * kSecond;
// The same of one with groups' fallback servers: with the asking they are lost within 5 s of its end.
inline constexpr Nanos kLenderSilentAfter = 2 * kSecond;

// A RoCE port with an IPv4 GID; see HostPort in proto/manager.proto.
struct HostPort {
  std::string ifname;
  std::string device;
  uint32_t port = 0;  // of the device
  Ipv4 ip{};
  std::array<uint8_t, 6> mac{};
  uint32_t rate_mbps = 0;  // 0: unknown
  uint32_t max_path_mtu = 0;
};

// A life of a group, whose fallback server is meant.
struct ServedGroup {
  uint64_t id = 0;
  uint32_t generation = 0;
  bool operator==(const ServedGroup&) const = default;
};

// Memory that a host lends; see FallbackOffer in proto/manager.proto.
struct FallbackOffer {
  uint64_t bytes = 0;
  Ipv4 ip{};  // of one of the host's ports
  bool port_is_up = true;  // it is among the ports that the host says, which are those that are up
  std::vector<ServedGroup> served;
};

struct HostInfo {
  std::string name;
  std::vector<HostPort> ports;
  std::string version;
  std::optional<FallbackOffer> fallback;  // none: it lends nothing
};

class HostTable {
 public:
  // A session as its daemon numbers it.
  struct RankSession {
    HostId host = 0;
    uint64_t number = 0;
  };
  struct Entry {
    HostInfo info;
    Nanos last_heard = 0;
    bool silent = false;      // it was told by Silent, and has not been heard since
    Nanos returns_until = 0;  // it was silent: a session that ends by then has broken for that, maybe
    std::map<uint64_t, uint64_t> sessions;  // number -> session of the manager
  };

  // A daemon says who its host is, or what has changed. Hosts of one name are told apart by their addresses.
  // Errors: INVALID_ARGUMENT (no name, another one than before), ALREADY_EXISTS (an address is that of
  // another host with a daemon, or the name is and one of both has no address; names both). After an error
  // what it said before holds.
  Status Register(Nanos now, HostId host, const HostInfo& info);
  // True if it was silent.
  bool OnHeard(Nanos now, HostId host);
  // Ranks have seen their daemon stand still, and broken their sessions for that, maybe: they may come back.
  bool MayReturn(Nanos now, HostId host) const;
  static constexpr Nanos kHeardToBreakIn = 2 * kSecond;
  // "h0"; "h0 (10.0.0.1)" while there are several of this name. Of a host that is registered.
  std::string NameOf(HostId host) const;
  bool IsRegistered(HostId host) const { return hosts_.contains(host); }

  // The manager's session for the daemon's number; nothing if there is none.
  std::optional<uint64_t> FindSession(HostId host, uint64_t number) const;
  void AddSession(HostId host, uint64_t number, uint64_t session);
  // The daemon whose rank has this session; nothing if the rank has a stream of its own.
  std::optional<RankSession> HostOf(uint64_t session) const;
  void RemoveSession(uint64_t session);

  // The daemon's stream has ended. Returns the sessions of its ranks, which go with it.
  std::vector<uint64_t> Remove(HostId host);
  // Who has not been heard for longer than kHostSilentAfter, or if it serves than kLenderSilentAfter, and was
  // not among these since it was heard last.
  std::vector<HostId> Silent(Nanos now, const std::function<bool(HostId)>& serves = nullptr);

  const std::map<HostId, Entry>& hosts() const { return hosts_; }

 private:
  std::map<HostId, Entry> hosts_;
  std::map<uint64_t, RankSession> ranks_;  // by session of the manager
};

}  // namespace epic::manager
