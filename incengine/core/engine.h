// The switch's collective engine as a sans-IO core: packets and time in, effects out. It holds every group's
// context and the arena, finds the endpoint of a packet (LookupTable) and hands it to the group's mode.
//
// State is values: copying an Engine is a snapshot. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/snapshot.h"
#include "base/status.h"
#include "incengine/state/arena.h"
#include "incengine/state/block.h"
#include "incengine/state/config.h"
#include "incengine/state/context.h"
#include "incengine/state/effects.h"
#include "incengine/state/pool.h"

namespace epic::engine {

struct Env;

// What a group that finds no room would take of the arena, and what there is. Bytes.
struct Shortage {
  size_t needed = 0;
  size_t left = 0;
  size_t all = 0;
};

class Engine {
 public:
  // address is the switch's endpoint address; arena_bytes bounds all payload and degree buffers together.
  Engine(Ipv4 address, size_t port_count, size_t arena_bytes);

  // Takes a region of the arena for buffers that groups share (docs/PROTOCOL-MODE-V.md). Once, before any
  // group is installed: so the region lies at the bottom of the arena, and never moves. INVALID_ARGUMENT (has
  // the bytes needed), FAILED_PRECONDITION (a pool or a group is there).
  Status MakePool(const PoolConfig& config);

  // Adds a group. INVALID_ARGUMENT (names the field), ALREADY_EXISTS (id or QPN in use), UNIMPLEMENTED (mode)
  // or RESOURCE_EXHAUSTED (bytes needed and left); nothing changes on error. Returns the arena bytes that it
  // takes: of its own, or those of its block. A block is made with its first owner, and goes with the last.
  // shortage, if given, gets the numbers of RESOURCE_EXHAUSTED and is left alone otherwise.
  StatusOr<size_t> Install(const GroupConfig& config, Shortage* shortage = nullptr);

  // Removes a group; one that is not there (or of another generation) is left alone without an error.
  void Remove(uint64_t group_id, uint32_t generation);

  // Stops a group: its packets are dropped as kGroupFailed until it is removed.
  void Fail(uint64_t group_id, uint32_t generation);

  // OK, or UNAVAILABLE when the leg to the group's fallback server has ended, and the group has failed by it:
  // the message has the server's address, and why. NOT_FOUND: no such group.
  Status LegStatus(uint64_t group_id) const;

  // A RoCE packet that came in by a port, its ICRC verified: to this switch's address, or one that it Bears.
  // Packets to other addresses are not for the engine.
  void OnPacket(Nanos now, PortId port, const roce::Packet& packet, Effects& effects);

  // Whether a packet to another address is one of this switch's endpoints' all the same: its destination QPN
  // is the endpoint's, its destination address the one that the endpoint bears, and its source address the
  // remote endpoint's. (By which port it came in OnPacket asks.)
  bool Bears(const roce::Packet& packet) const;
  // Whether there are such endpoints. Without, no packet to another address need be looked at.
  bool bears_any() const { return bearing_groups_ > 0; }

  // A timer that SetTimer asked for. One that belongs to a removed group does nothing.
  void OnTimer(Nanos now, TimerId id, Effects& effects);

  // Whether this engine has the mode.
  static bool Realises(Mode mode);
  // And whether it can have groups in it: those whose payloads lie in a pool need one.
  bool Offers(Mode mode) const {
    return Realises(mode) && !FindMode(mode)->hidden && (pool_.has_value() || !IsInPool(mode));
  }

  Ipv4 address() const { return address_; }
  const Arena& arena() const { return arena_; }
  // `before` is called whenever regions of the arena are about to be moved, from within any other call:
  // whoever has kept payloads of packets sent, which may lie there, in place of copies, lets go of them.
  void BeforeMoves(std::function<void()> before) { before_moves_ = std::move(before); }
  // Aborts if something does not hold that always does, of groups by themselves (core/invariants.h) or of
  // what they share: QPNs, memory, blocks and the pool. Looks at all groups.
  void CheckInvariants() const;

  // By group id.
  const std::map<uint64_t, Context>& groups() const { return groups_; }
  // By their ids.
  const std::map<uint64_t, Block>& blocks() const { return blocks_; }
  const std::optional<Pool>& pool() const { return pool_; }

 private:
  friend struct epic::Snapshot;
  struct EndpointRef {
    uint64_t group_id;
    EndpointId endpoint;
  };

  // A region of so many bytes; if only the gaps are in the way, others are moved.
  std::optional<size_t> Allocate(size_t bytes);
  void Compact();
  Status InstallInBlock(Context& ctx, Shortage* shortage);
  // A block that nobody holds becomes as large as its owners want, if there is room.
  void Resize(Block& block);
  void LeaveBlock(Context& ctx);
  // Whether a group with payloads in a pool finds one here, with buffers that are large enough.
  Status CheckPool(const GroupConfig& config) const;
  Env MakeEnv(Nanos now, Context& ctx, Effects& effects);
  Block* BlockOf(const Context& ctx) {
    return ctx.config.block == 0 ? nullptr : &blocks_.at(ctx.config.block);
  }

  Ipv4 address_;
  size_t port_count_;
  Arena arena_;
  std::function<void()> before_moves_;
  std::map<uint64_t, Context> groups_;
  std::map<uint64_t, Block> blocks_;
  std::optional<Pool> pool_;
  std::unordered_map<uint32_t, EndpointRef> by_qpn_;
  size_t bearing_groups_ = 0;  // installed, in modes whose switches bear hosts' addresses
};

}  // namespace epic::engine
