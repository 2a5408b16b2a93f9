// The fields of the protocol cores' states, each named once for saving and restoring (check/archive.h).
//
// A restored core is the one that was saved, but for what cannot influence what it does: counters, the fields
// that never change after set-up (which must be those of the core restored into), identification numbers of
// IP packets, when a finished call finished, and the bytes of buffers that no live slot or message covers
// (these are zero).
#pragma once

#include <functional>
#include <span>
#include <type_traits>
#include <vector>

#include "check/archive.h"
#include "check/multicast_host.h"
#include "check/path_host.h"
#include "check/server.h"
#include "commlib/core/group_calls.h"
#include "incengine/core/engine.h"
#include "incengine/modes/table.h"
#include "sim/host.h"

namespace epic {

struct Snapshot {
  template <typename A, typename T>
  using Of = std::conditional_t<A::kReads, T, const T>;

  // Of a group's context and its slots or rings. The engine must have the group, in any state.
  template <typename A>
  static void Engine(A& a, Of<A, engine::Engine>& engine, uint64_t group_id);

  // Of who has each block. Groups' contexts follow it: slots in a block are those of the group that has it.
  template <typename A>
  static void Blocks(A& a, Of<A, engine::Engine>& engine);

  // Of the pool, for an engine that has one. Groups' contexts follow it.
  template <typename A>
  static void Pool(A& a, Of<A, engine::Engine>& engine);
  // What another group's index does to the number-th sum that may lose its place.
  static void Evict(engine::Engine& engine, uint32_t number, Nanos now, engine::Effects& effects);

  // Of a fallback server.
  template <typename A>
  static void Server(A& a, Of<A, check::Server>& server);

  // Of a host and what its calls have received. `buffers` has every call's buffers in the program's order:
  // calls that a restored host has made get theirs from it.
  struct Buffers {
    std::vector<uint8_t> send;
    std::vector<uint8_t> recv;
  };
  template <typename A>
  static void Host(A& a, Of<A, sim::Host>& host, Of<A, std::vector<Buffers>>& buffers);

  // The same of a host whose calls go between the hosts.
  template <typename A>
  static void Path(A& a, Of<A, check::PathHost>& host, Of<A, std::vector<Buffers>>& buffers);

  // The same of one whose calls go by multicast.
  template <typename A>
  static void Multicast(A& a, Of<A, check::MulticastHost>& host, Of<A, std::vector<Buffers>>& buffers);
  // As if none of its receives for datagrams had been used: what they are numbered makes no difference, as
  // all of them are posted between two steps.
  static void Renumber(check::MulticastHost& host);

  // Packets that the queue pair has had acknowledged and has received, each in order.
  static int64_t Acknowledged(const roce::QueuePair& qp) { return qp.tx_.una; }
  static int64_t Received(const roce::QueuePair& qp) { return qp.rx_.epsn.DistanceFrom(qp.attr_.rq_psn); }
  // Of a call that has not ended, as what has been answered changes it.
  static const ControlHeader& HeaderOf(const GroupCalls& group, CallNumber call) {
    return group.At(call).header;
  }

  // Child c of the group becomes child becomes[c]; payloads in slots are relabelled by `data`. Only of modes
  // whose children are alike.
  static void Relabel(engine::Engine& engine, uint64_t group_id, std::span<const size_t> becomes,
                      const std::function<void(std::span<uint8_t>)>& data);
  // What a host holds in its bounce buffers is relabelled.
  static void Relabel(sim::Host& host, const std::function<void(std::span<uint8_t>)>& data) {
    Bounced(host.core_.core_, data);
  }

 private:
  // Never called: they do not compile when a field has been added (check/snapshot_complete.cc).
  static void EveryField(const roce::QueuePair& qp);
  static void EveryField(const sim::Host& host);

  // Longer ago than this is for ever, for every limit that a core keeps.
  static constexpr Nanos kLongAgo = kSecond;
  // Of a time that nothing depends on.
  static constexpr Nanos kNoMatter = 0;
  // Waits stop growing before this many doublings (incengine/modules/env.h and prompt.cc).
  static constexpr uint32_t kMostBackoff = 16;

  template <typename A, typename Container, typename Item>
  static void Sequence(A& a, Container& items, const Item& item) {
    const size_t size = a.Size(items.size());
    if constexpr (A::kReads) items.resize(size);
    for (auto& each : items) item(each);
  }
  template <typename A, typename T, typename Item>
  static void Queue(A& a, roce::Ring<T>& ring, const Item& item) {
    ring.clear();
    for (size_t left = a.Size(0); left > 0; --left) {
      ring.push_back(T{});
      item(ring.back());
    }
  }
  template <typename A, typename T, typename Item>
  static void Queue(A& a, const roce::Ring<T>& ring, const Item& item) {
    a.Size(ring.size());
    for (size_t i = 0; i < ring.size(); ++i) item(ring[i]);
  }
  template <typename A, typename Optional, typename Item>
  static void Maybe(A& a, Optional& value, const Item& item) {
    const bool has = a.Size(value.has_value() ? 1 : 0) != 0;
    if constexpr (A::kReads) {
      value.reset();
      if (has) value.emplace();
    }
    if (has) item(*value);
  }

  // Fields that need not be saved, for those who read.
  template <typename... T>
  static void NotSaved(const T&...) {}

  template <typename A>
  static void Header(A& a, Of<A, ControlHeader>& h) {
    auto& [collective, op, type, invocation, count, root, parts, flags, turn, window, called, last, priority,
           status, field, culprit] = h;
    a.Numbers(collective, op, type, invocation, count, root, parts, flags, turn, window, called, last,
              priority, status, field, culprit);
  }
  template <typename A>
  static void Layout(A& a, Of<A, DataLayout>& l) {
    auto& [parts, part_packets, part_bytes, control_packets, inlined_bytes, turn_packets] = l;
    a.Numbers(parts, part_packets, part_bytes, control_packets, inlined_bytes, turn_packets);
  }
  template <typename A>
  static void Direction(A& a, Of<A, engine::Direction>& d);
  template <typename A>
  static void Endpoint(A& a, Of<A, engine::Endpoint>& e);
  template <typename A>
  static void Slots(A& a, Of<A, engine::Engine>& engine, const engine::Context& ctx, const Pipe& pipe);
  template <typename A>
  static void Pooled(A& a, Of<A, engine::Engine>& engine, Of<A, engine::Context>& ctx);
  template <typename A>
  static void Inlined(A& a, Of<A, roce::QueuePair>& qp);
  template <typename A>
  static void RemoteAccess(A& a, Of<A, roce::QueuePair>& qp);
  template <typename A>
  static void Pulled(A& a, Of<A, PulledBuffers>& buffers);
  template <typename A>
  static void Reads(A& a, Of<A, engine::TerminatedState>& state,
                    std::span<std::conditional_t<A::kReads, uint8_t, const uint8_t>> memory,
                    uint32_t path_mtu);
  static int64_t CameOfRead(const roce::QueuePair& qp);
  static void Recount(engine::Pool& pool);
  template <typename A>
  static void Filled(A& a, bool filled,
                     std::span<std::conditional_t<A::kReads, uint8_t, const uint8_t>> bytes);
  static bool IsAwaited(const engine::PooledState& state, uint32_t buffer);
  static bool IsAwaited(const engine::Engine& engine, uint32_t buffer);
  template <typename A>
  static void Rings(A& a, Of<A, engine::Engine>& engine, Of<A, engine::Context>& ctx);
  template <typename A>
  static void Messages(A& a, Of<A, engine::MessageRing>& ring);
  template <typename A>
  static void Place(A& a, Of<A, engine::StreamPlace>& place);
  template <typename A>
  static void QueuePair(A& a, Of<A, roce::QueuePair>& qp, const check::Regions& memory);
  template <typename A>
  static void Sges(A& a, Of<A, roce::SgeList>& sges, const check::Regions& memory);
  template <typename A>
  static void Rate(A& a, Of<A, roce::RateController>& rate);
  template <typename A>
  static void Core(A& a, Of<A, RankCore>& core);
  template <typename A, typename Pointer>
  static void Buffer(A& a, Pointer& buffer, const check::Regions& memory);
  template <typename A>
  static void Calls(A& a, Of<A, RankCalls>& calls, const check::Regions& memory);
  template <typename A>
  static void Group(A& a, Of<A, GroupCalls>& group, Of<A, std::vector<Buffers>>& buffers,
                    const check::Regions& memory);
  template <typename A>
  static void HostsCall(A& a, Of<A, HostCall>& call, Of<A, std::vector<Buffers>>& buffers);
  template <typename A>
  static void Exchange(A& a, Of<A, HostExchange>& exchange, Of<A, std::vector<Buffers>>& buffers);
  template <typename A>
  static void Ring(A& a, Of<A, HostRing>& ring, Of<A, std::vector<Buffers>>& buffers);
  template <typename A>
  static void Chunks(A& a, Of<A, ChunkMap>& map);
  template <typename A>
  static void Multicast(A& a, Of<A, HostMulticast>& multicast, Of<A, std::vector<Buffers>>& buffers);
  template <typename A>
  static void Connection(A& a, Of<A, HostPath::Connection>& connection);
  template <typename A>
  static void HostsPath(A& a, Of<A, HostPath>& path, Of<A, std::vector<Buffers>>& buffers);
  template <typename A>
  static void Ended(A& a, Of<A, Finished>& ended);
  template <typename C, typename Action>
  static void Bounced(C& calls, const Action& action);
};

}  // namespace epic

#include "check/snapshot_fields.h"     // IWYU pragma: keep
#include "check/snapshot_initiated.h"  // IWYU pragma: keep
#include "check/snapshot_path.h"       // IWYU pragma: keep
#include "check/snapshot_pool.h"       // IWYU pragma: keep
