// Included by check/snapshot.h only: the fields of a pool, of groups that share it and of their servers,
// bound by name as those of switches are in check/snapshot_fields.h. A field more does not compile until it
// is named here, and saved or NotSaved.
#pragma once

#include <algorithm>
#include <bit>

#include "check/snapshot.h"
#include "incengine/modes/pooled.h"

namespace epic {

// Bytes that are zero unless something lies there, as who saves them says.
template <typename A>
void Snapshot::Filled(A& a, bool filled,
                      std::span<std::conditional_t<A::kReads, uint8_t, const uint8_t>> bytes) {
  filled = a.Size(filled ? 1 : 0) != 0;
  if constexpr (A::kReads) std::ranges::fill(bytes, uint8_t{0});
  if (filled) a.Blob(bytes);
}

// A sum is to come into the buffer: what is there now is of no use.
inline bool Snapshot::IsAwaited(const engine::PooledState& state, uint32_t buffer) {
  return std::ranges::find(state.fetching, buffer, &engine::Fetch::buffer) != state.fetching.end();
}
inline bool Snapshot::IsAwaited(const engine::Engine& engine, uint32_t buffer) {
  return std::ranges::any_of(engine.groups_,
                             [buffer](const auto& group) { return IsAwaited(*group.second.pooled, buffer); });
}

// Groups' contexts follow it.
template <typename A>
void Snapshot::Pool(A& a, Of<A, engine::Engine>& engine) {
  auto& pool = *engine.pool_;
  auto& [config, at, places, buffers, spare, free, in_use, results, hand, attempts, groups, servers] = pool;
  NotSaved(at, spare, free, in_use, results);  // they follow from the others
  a.Numbers(hand);
  if (config.policy == engine::PoolPolicy::kCoin) {
    a.Numbers(attempts);
  } else if constexpr (A::kReads) {
    attempts = 0;
  }
  for (auto& place : places) {
    auto& [group, index, priority, since, buffer] = place;
    a.Numbers(group, index, priority, buffer);
    a.Past(since, kNoMatter);  // places have no age here
  }
  for (size_t b = 0; b < buffers.size(); ++b) {
    auto& [use, group, place] = buffers[b];
    a.Numbers(use, group, place);
    const auto bytes = engine.arena_.At(at + b * config.buffer_bytes, config.buffer_bytes);
    const bool used = use != engine::Pool::Use::kSpare;
    Filled(a, used && !IsAwaited(engine, static_cast<uint32_t>(b)), bytes);
  }
  for (auto& [address, server] : servers) {
    auto& [owners, leaving, waiting] = server;
    NotSaved(owners, leaving);
    Sequence(a, waiting, [&a](auto& group) { a.Numbers(group); });
  }
  if constexpr (A::kReads) Recount(pool);
}

// What follows from who has which place and buffer.
inline void Snapshot::Recount(engine::Pool& pool) {
  using Use = engine::Pool::Use;
  pool.spare_.clear();
  pool.free_.clear();
  pool.in_use_ = pool.results_ = 0;
  for (auto& [id, group] : pool.groups_) {
    auto& [server, leaving, results, counters] = group;
    pool.servers_.at(server).leaving = 0;
    leaving = results = 0;
    counters = {};
  }
  for (uint32_t p = 0; p < pool.places_.size(); ++p) {
    if (pool.places_[p].buffer != engine::kNoBuffer) {
      ++pool.in_use_;
    } else if (pool.config_.addressing == engine::PoolAddressing::kAny) {
      pool.free_.push_back(p);
    }
  }
  for (uint32_t b = 0; b < pool.buffers_.size(); ++b) {
    const auto& buffer = pool.buffers_[b];
    if (buffer.use == Use::kSpare) pool.spare_.push_back(b);
    if (buffer.use == Use::kLeaving) pool.CountLeaving(buffer.group);
    if (buffer.use != Use::kResult) continue;
    ++pool.groups_.at(buffer.group).results;
    ++pool.results_;
  }
}

inline void Snapshot::Evict(engine::Engine& engine, uint32_t number, Nanos now, engine::Effects& effects) {
  const engine::Pool::Evicted evicted = engine.pool_->Summing().at(number);
  engine::Env env = engine.MakeEnv(now, engine.groups_.at(evicted.group), effects);
  engine::TakeAway(evicted, env);
}

// Of a leg's queue pair: what QueuePair leaves out.
template <typename A>
void Snapshot::Inlined(A& a, Of<A, roce::QueuePair>& qp) {
  auto& sends = qp.tx_.sends;
  for (size_t i = 0; i < sends.size(); ++i) {
    auto& entry = sends[i];
    a.Numbers(entry.is_inline);
    if (!entry.is_inline) continue;
    if constexpr (A::kReads) {
      const size_t capacity = sends.capacity();
      const size_t place = (sends.back_place() + capacity - (sends.size() - 1 - i)) % capacity;
      entry.inline_at = static_cast<uint32_t>(place * qp.config_.max_inline_bytes);
    }
    a.Blob(std::span(qp.tx_.inline_bytes).subspan(entry.inline_at, entry.length));
  }
}

template <typename A>
void Snapshot::Pooled(A& a, Of<A, engine::Engine>& engine, Of<A, engine::Context>& ctx) {
  auto& [qp, pool_at, buffer_bytes, own_at, own_taken, opened_end, freed_end, held, whole, fetching, poll,
         end, let_go, counters] = *ctx.pooled;
  NotSaved(pool_at);
  check::Regions buffers;
  buffers.Add({static_cast<const uint8_t*>(nullptr), engine.pool_->buffers() * buffer_bytes});
  const size_t own_bytes = OwnBufferBytes(ctx.config.path_mtu);
  buffers.Add({std::bit_cast<const uint8_t*>(engine::kOwnAddress), own_bytes});
  QueuePair(a, qp, buffers);
  Inlined(a, qp);
  a.Numbers(own_taken, opened_end, freed_end, poll, end, let_go);
  const auto own = engine.arena_.At(ctx.arena_offset + own_at, own_bytes);
  Filled(a, own_taken && !IsAwaited(*ctx.pooled, engine::kOwnBuffer), own);
  for (auto* indices : {&held, &whole}) Sequence(a, *indices, [&a](auto& index) { a.Numbers(index); });
  Sequence(a, fetching, [&a](auto& fetch) {
    auto& [index, buffer] = fetch;
    a.Numbers(index, buffer);
  });
  if constexpr (A::kReads) counters = {};
}

template <typename A>
void Snapshot::Server(A& a, Of<A, check::Server>& server) {
  auto& [qp, sums, sent, memory] = server;
  check::Regions regions;
  regions.Add(memory);
  QueuePair(a, qp, regions);
  // Which of its places a sum lies in makes no difference but to those that are under way.
  const size_t slots = check::Server::kSlots - 1;
  size_t turn = sent % slots;
  a.Numbers(turn);
  if constexpr (A::kReads) {
    sent = turn;
    std::ranges::fill(memory, uint8_t{0});
  }
  a.Blob(std::span(memory).first(check::Server::kSlotBytes));  // of a message of which not all has come
  for (size_t i = 0; i < qp.tx_.sends.size(); ++i) {
    const roce::Sge& sge = qp.tx_.sends[i].sges.sge[0];
    a.Blob(std::span(memory).subspan(sge.address - std::bit_cast<uint64_t>(memory.data()), sge.length));
  }
  auto& [group, calls, parts, fetched] = sums;
  NotSaved(group, fetched);  // nothing stays there between two steps
  Sequence(a, calls, [&a](auto& call) {
    auto& [open, layout] = call;
    Header(a, open.header);
    a.Numbers(open.control_index);
    Layout(a, layout);
  });
  const size_t count = a.Size(parts.size());
  if constexpr (A::kReads) {
    parts.clear();
    for (size_t i = 0; i < count; ++i) {
      Index index = 0;
      a.Numbers(index);
      auto& [whole, bytes] = parts[index];
      a.Numbers(whole);
      bytes.resize(a.Size(0));
      a.Blob(bytes);
    }
  } else {
    for (const auto& [index, sum] : parts) {
      a.Numbers(index, sum.whole);
      a.Size(sum.bytes.size());
      a.Blob(sum.bytes);
    }
  }
}

}  // namespace epic
