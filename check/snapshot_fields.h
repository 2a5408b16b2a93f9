// Included by check/snapshot.h only: what its functions do.
//
// The fields of a switch's state are bound by name, in the order of declaration, where they are saved. A
// structured binding does not compile when its type has another number of fields: who adds one says here how
// it is saved, or that it need not be (NotSaved). tests/style/fields_test.py finds a name that is only bound.
// Hosts and queue pairs: check/snapshot_complete.cc.
//
// What need not be saved never changes after set-up (configurations, places in memory), or is a counter or an
// identification number.
#pragma once

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "check/snapshot.h"

namespace epic {

template <typename A>
void Snapshot::Direction(A& a, Of<A, engine::Direction>& d) {
  auto& [segments, message_packets, next_index, next_wire, next_msn, next_invocation] = d;
  Sequence(a, segments, [&a](auto& segment) {
    auto& [invocation, first_index, layout, runs, parts, unbroken, end, wire_base, msn_base] = segment;
    a.Numbers(invocation, first_index, parts, unbroken, end, msn_base);
    Layout(a, layout);
    Sequence(a, runs, [&a](auto& run) {
      auto& [first_part, of_run, before] = run;
      a.Numbers(first_part, of_run, before);
    });
    a.Number(wire_base);
  });
  a.Numbers(message_packets, next_index, next_msn, next_invocation);
  a.Number(next_wire);
}

template <typename A>
void Snapshot::Endpoint(A& a, Of<A, engine::Endpoint>& e) {
  auto& [config, udp_src_port, ip_id, in, out, nak_sent, progress, hop, repair, counters] = e;
  auto& [up_epsn, up_told, deferred, down_acked_end, want, prompt_at, prompt_backoff] = progress;
  auto& [accepted_since_ack, ack_due, ack_sent, resend_at, resend_backoff] = hop;
  auto& [repeating, heard_at, repeat_ack_at, rnr_allowed_at, rnr_backoff] = repair;
  NotSaved(config, udp_src_port, ip_id);
  auto& [from, to] = want;
  Direction(a, in);
  Direction(a, out);
  a.Numbers(nak_sent, up_epsn, up_told, deferred, down_acked_end, from, to, accepted_since_ack, ack_due,
            ack_sent, repeating);
  a.Capped(prompt_backoff, kMostBackoff);
  a.Capped(resend_backoff, kMostBackoff);
  a.Capped(rnr_backoff, kMostBackoff);
  a.Deadline(prompt_at);
  a.Deadline(resend_at);
  a.Past(heard_at, kLongAgo);
  a.Deadline(repeat_ack_at);
  a.Deadline(rnr_allowed_at);
  if constexpr (A::kReads) counters = {};
}

template <typename A>
void Snapshot::Slots(A& a, Of<A, engine::Engine>& engine, const engine::Context& ctx, const Pipe& pipe) {
  const auto all = engine.arena_.At(ctx.arena_offset, ctx.arena_bytes);
  for (size_t i = 0; i < ctx.config.slots; ++i) {
    auto* const slot =
        reinterpret_cast<Of<A, engine::Slot>*>(all.data() + pipe.at + i * sizeof(engine::Slot));
    const auto payload = all.subspan(pipe.payloads_at + i * pipe.payload_bytes, pipe.payload_bytes);
    auto& [index, arrived, ack_req, loaded, split, buffer] = *slot;
    a.Numbers(index, arrived, ack_req);
    if (ctx.pooled) {
      a.Numbers(loaded, split, buffer);
    } else if constexpr (A::kReads) {
      loaded = arrived != 0;
      split = false;
      buffer = engine::kNoBuffer;
    }
    if constexpr (A::kReads) std::ranges::fill(payload, uint8_t{0});
    if (index >= 0) a.Blob(payload);
  }
}

template <typename A>
void Snapshot::Messages(A& a, Of<A, engine::MessageRing>& ring) {
  auto& [base, capacity, messages, first, left_packets_end, tail] = ring;
  NotSaved(base, capacity);
  Queue(a, messages, [&a](auto& message) {
    auto& [at, bytes, control, imm, holders, packets_end, index] = message;
    a.Numbers(at, bytes, control, imm, holders, packets_end, index);
  });
  a.Numbers(first, left_packets_end, tail);
}

template <typename A>
void Snapshot::Place(A& a, Of<A, engine::StreamPlace>& place) {
  auto& [invocation, control, header, layout, data, control_index] = place;
  auto& [part, message] = data;
  a.Numbers(invocation, control, part, message, control_index);
  Header(a, header);
  Layout(a, layout);
}

// Mode I. The rings' bytes are those of their messages, of the receive that is being filled, and of the sum.
template <typename A>
void Snapshot::Rings(A& a, Of<A, engine::Engine>& engine, Of<A, engine::Context>& ctx) {
  auto& [children, parent, sums, up, next_child, sum_at, sum_loaded, failure, up_failed, down, down_failed,
         initiated] = *ctx.terminated;
  const auto memory = engine.arena_.At(ctx.arena_offset, ctx.arena_bytes);
  if constexpr (A::kReads) std::ranges::fill(memory, uint8_t{0});
  const auto bytes_of = [&](auto& ring) {
    for (size_t i = 0; i < ring.messages_.size(); ++i) {
      const engine::Message& message = ring.messages_[i];
      a.Blob(memory.subspan(message.at, message.bytes));
    }
  };
  // Their addresses are offsets.
  check::Regions rings;
  rings.Add({static_cast<const uint8_t*>(nullptr), ctx.arena_bytes});
  const auto endpoint = [&](auto& ep) {
    auto& [qp, received, receiving_at, packets_received, told, poll, head_at] = ep;
    a.Past(head_at, kNoMatter);
    QueuePair(a, qp, rings);
    Messages(a, received);
    Maybe(a, receiving_at, [&a](auto& at) { a.Numbers(at); });
    a.Numbers(packets_received, told, poll);
    bytes_of(received);
    if (receiving_at && qp.rx_.in.message != roce::Message::kNone)
      a.Blob(memory.subspan(*receiving_at, qp.rx_.in.filled));
  };
  for (auto& child : children) endpoint(child);
  if (parent) endpoint(*parent);
  if (initiated) Reads(a, *ctx.terminated, memory, ctx.config.path_mtu);
  Messages(a, sums);
  bytes_of(sums);
  Place(a, up);
  Place(a, down);
  a.Numbers(next_child, sum_loaded, up_failed, down_failed);
  Maybe(a, sum_at, [&a](auto& at) { a.Numbers(at); });
  Maybe(a, failure, [&a](auto& header) { Header(a, header); });
  if (sum_at && sum_loaded) a.Blob(memory.subspan(*sum_at, engine::TerminatedMessageBytes(ctx.config)));
}

template <typename A>
void Snapshot::Blocks(A& a, Of<A, engine::Engine>& engine) {
  for (auto& [id, block] : engine.blocks_) {
    auto& [offset, bytes, holder, owners] = block;
    NotSaved(owners);
    Maybe(a, holder, [&a](auto& group) { a.Numbers(group); });
    // What lies there then is nobody's.
    if constexpr (A::kReads) std::ranges::fill(engine.arena_.At(offset, bytes), uint8_t{0xee});
  }
}

template <typename A>
void Snapshot::Engine(A& a, Of<A, engine::Engine>& engine, uint64_t group_id) {
  auto& ctx = engine.groups_.at(group_id);
  auto& [config, state, invocations, control, arena_offset, arena_bytes, hold, children, parent, server,
         ranks, child_of_rank, results_end, up_sent, acked_end, up_acked_end, max_up_epsn, asked_from,
         asked_at, handed_down_at, uplink_at, uplink_backoff, timer_at, counters, terminated, pooled] = ctx;
  NotSaved(config, arena_offset, arena_bytes, server, ranks, child_of_rank);
  auto& [has_memory, asking, granted_end, most_window, most_slots] = hold;
  NotSaved(most_window, most_slots);
  a.Numbers(state, has_memory, asking, granted_end);
  // Those of the config as well, which grants change.
  a.Numbers(ctx.config.window_messages, ctx.config.slots);
  Sequence(a, invocations, [&a](auto& invocation) {
    auto& [number, header, control_index, layout] = invocation;
    a.Numbers(number, control_index);
    Header(a, header);
    Layout(a, layout);
  });
  for (auto& slot : control) {
    auto& [invocation, arrived, ack_req, priority, header, called_at] = slot;
    a.Numbers(invocation, arrived, ack_req, priority);
    a.Past(called_at, kNoMatter);
    Header(a, header);
  }
  for (auto& child : children) Endpoint(a, child);
  if (!ctx.is_root()) Endpoint(a, parent);
  a.Numbers(results_end, up_sent, acked_end, up_acked_end, max_up_epsn, asked_from);
  a.Capped(uplink_backoff, kMostBackoff);
  a.Past(asked_at, kLongAgo);
  a.Past(handed_down_at, kLongAgo);
  a.Deadline(uplink_at);
  a.Deadline(timer_at);
  if constexpr (A::kReads) counters = {};
  if (terminated) Rings(a, engine, ctx);
  if (pooled) Pooled(a, engine, ctx);
  if (!has_memory) return;
  if constexpr (A::kReads) {
    if (config.block != 0) arena_offset = engine.blocks_.at(config.block).offset;
  }
  const ContextMemory memory = engine::MemoryOf(config);
  // A mode that lays its memory out by itself has it saved by itself, as Rings does.
  EPIC_CHECK(terminated || !memory.pipes().empty());
  for (const Pipe& pipe : memory.pipes()) Slots(a, engine, ctx, pipe);
}

template <typename A>
void Snapshot::Sges(A& a, Of<A, roce::SgeList>& sges, const check::Regions& memory) {
  a.Numbers(sges.count);
  for (size_t i = 0; i < sges.count; ++i) {
    a.Address(sges.sge[i].address, memory);
    a.Numbers(sges.sge[i].length, sges.sge[i].lkey);
  }
}

template <typename A>
void Snapshot::Rate(A& a, Of<A, roce::RateController>& rate) {
  a.Numbers(rate.active_);
  if (!rate.active_) return;
  a.Numbers(rate.rate_bps_, rate.target_bps_, rate.alpha_, rate.time_rounds_, rate.byte_rounds_, rate.bytes_);
  a.Time(rate.alpha_at_);
  a.Time(rate.increase_at_);
  a.Time(rate.next_send_at_);
}

template <typename A>
void Snapshot::QueuePair(A& a, Of<A, roce::QueuePair>& qp, const check::Regions& memory) {
  auto& tx = qp.tx_;
  auto& rx = qp.rx_;
  a.Numbers(qp.state_);
  Queue(a, tx.sends, [&](auto& entry) {
    a.Numbers(entry.wr_id, entry.opcode, entry.signaled, entry.solicited, entry.imm);
    Sges(a, entry.sges, memory);
    a.Numbers(entry.first, entry.packets, entry.number, entry.length, entry.requested);
  });
  a.Numbers(tx.posts, tx.cur, tx.una, tx.nxt, tx.max, tx.posted, tx.message_limit, tx.since_ack_req,
            tx.started_retry, tx.stuck, tx.retries_left, tx.rnr_retries_left, tx.excused);
  a.Deadline(tx.timer_at);
  a.Deadline(tx.rnr_until);
  Queue(a, rx.recvs, [&](auto& wr) {
    a.Numbers(wr.wr_id);
    Sges(a, wr.sges, memory);
  });
  Queue(a, rx.responses, [&a](auto& response) {
    a.Numbers(response.syndrome, response.msn);
    a.Number(response.psn);
  });
  a.Number(rx.epsn);
  a.Number(rx.ack_psn);
  a.Numbers(rx.ack_msn, rx.msn, rx.nak_sent, rx.refused_with, rx.in.message, rx.acks_held, rx.cnp_due);
  // Between messages it says how long the last one was, and nobody asks.
  if constexpr (A::kReads) rx.in.filled = 0;
  if (rx.in.message != roce::Message::kNone) a.Numbers(rx.in.filled);
  a.Deadline(rx.ack_at);
  a.Deadline(rx.cnp_allowed_at);
  Rate(a, qp.rate_);
  Queue(a, qp.completions_,
        [&a](auto& c) { a.Numbers(c.wr_id, c.status, c.opcode, c.has_imm, c.solicited, c.imm, c.bytes); });
  if constexpr (A::kReads) qp.counters_ = {};
}

template <typename A>
void Snapshot::Core(A& a, Of<A, RankCore>& core) {
  Sequence(a, core.ops_, [&a](auto& op) {
    Header(a, op.header);
    Layout(a, op.layout);
    a.Numbers(op.first_index, op.keeps_data, op.busy);
  });
  a.Numbers(core.send_window_, core.granted_window_, core.first_op_, core.ended_ops_, core.next_index_);
  for (auto* cursor : {&core.recv_posted_, &core.send_posted_, &core.recv_done_, &core.send_done_})
    a.Numbers(cursor->direction, cursor->message, cursor->op, cursor->place.part, cursor->place.message);
  Maybe(a, core.failure_, [&a](auto& outcome) { a.Numbers(outcome); });
  Header(a, core.failure_reply_);
  Sequence(a, core.finished_, [&a](auto& finished) {
    a.Numbers(finished.op, finished.outcome);
    Header(a, finished.reply);
  });
}

// A place in the callers' buffers, or none.
template <typename A, typename Pointer>
void Snapshot::Buffer(A& a, Pointer& buffer, const check::Regions& memory) {
  const bool is_there = a.Size(buffer != nullptr ? 1 : 0) != 0;
  uint64_t address = is_there ? std::bit_cast<uint64_t>(buffer) : 0;
  if (is_there) a.Address(address, memory);
  if constexpr (A::kReads) buffer = std::bit_cast<Pointer>(address);
}

// Control slots, and of the bounce buffers those of open calls.
template <typename A>
void Snapshot::Calls(A& a, Of<A, RankCalls>& calls, const check::Regions& memory) {
  Core(a, calls.core_);
  a.Numbers(calls.first_call_, calls.posted_);
  OpId op = calls.first_call_;
  Sequence(a, calls.calls_, [&](auto& call) {
    a.Numbers(call.way, call.part_stride);
    if (calls.core_.config_.pulled) Pulled(a, call.pulled);
    Buffer(a, call.send, memory);
    Buffer(a, call.recv, memory);
    if constexpr (A::kReads) {
      const uint64_t part_stride = call.part_stride;
      const PulledBuffers pulled = call.pulled;
      call = calls.MakeCall(calls.core_.OpAt(op).header, call.send, call.recv, call.way);
      call.part_stride = part_stride;
      call.pulled = pulled;
    }
    ++op;
  });
  Sequence(a, calls.ended_, [&a](auto& ended) {
    a.Numbers(ended.finished.op, ended.finished.outcome, ended.is_request);
    Header(a, ended.finished.reply);
  });
  const auto own = std::span(calls.memory_);
  if constexpr (A::kReads) std::ranges::fill(own, uint8_t{0});
  constexpr size_t kSlots = 2 * kMaxOpenInvocations;
  for (size_t slot = 0; slot < kSlots; ++slot) a.Blob(own.subspan(slot * kControlBytes, kControlBytes));
  if (calls.core_.config_.pulled) a.Blob(own.last(kMaxOpenInvocations * RankCalls::kDoorbellBytes));
  Bounced(calls, [&](auto bytes) { a.Blob(bytes); });
}

// The bounce buffers of the open calls that use one, inlined ones among them.
template <typename C, typename Action>
void Snapshot::Bounced(C& calls, const Action& action) {
  const size_t open = std::min<size_t>(calls.calls_.size(), kMaxOpenInvocations);
  for (size_t i = 0; i < open; ++i) {
    const auto& call = calls.calls_[i];
    if (call.way == Way::kDirect) continue;
    const auto slot = static_cast<size_t>(ControlSlot(calls.first_call_ + static_cast<OpId>(i)));
    action(std::span(calls.memory_)
               .subspan(2 * kMaxOpenInvocations * kControlBytes + slot * calls.slot_bytes_,
                        calls.BounceBytes(call)));
  }
}

// A call that is to go between the hosts waits for connections that nobody makes, and all behind it wait for
// that: so the path between the hosts is one that has been given these calls.
template <typename A>
void Snapshot::Group(A& a, Of<A, GroupCalls>& group, Of<A, std::vector<Buffers>>& buffers,
                     const check::Regions& memory) {
  auto& [config, core, hosts_config, hosts, calls, first, begun, next, held_from, open, is_asking,
         invocations, started, first_op, hosts_calls, first_hosts_op, wants_connections, is_drained, acks,
         windows, granted, busy] = group;
  NotSaved(config, hosts_config, held_from, first_hosts_op, wants_connections, acks, windows);
  const bool was_used = !hosts_calls.empty();
  Sequence(a, hosts_calls, [&a](auto& call) { a.Numbers(call); });
  a.Numbers(first, begun, next, open, is_asking, started, first_op, is_drained, granted, busy);
  const auto kept = static_cast<size_t>(next - first);
  if constexpr (A::kReads) calls.assign(std::bit_ceil(std::max(calls.size(), kept)), {});
  for (CallNumber number = first; number < next; ++number) {
    auto& [header, send, recv, most, slices, ended, blocks, rkey, way, pulled, outcome, is_done] =
        group.At(number);
    NotSaved(blocks);
    Header(a, header);
    if (config.network.pulled) Pulled(a, pulled);
    a.Numbers(most, slices, ended, rkey, way, outcome, is_done);
    if constexpr (A::kReads) {
      Buffers& own = buffers[static_cast<size_t>(number)];
      send = own.send.data();
      recv = own.recv.data();
    }
  }
  Sequence(a, invocations, [&a](auto& invocation) {
    auto& [call, hosts_op, slice, kind] = invocation;
    a.Numbers(call, hosts_op, slice, kind);
  });
  if constexpr (A::kReads) {
    if (was_used || !hosts_calls.empty()) hosts.emplace(hosts_config);
    for (size_t slice = 0; slice < hosts_calls.size(); ++slice) {
      ControlHeader header = GroupCalls::HeaderOf(group.At(hosts_calls[slice]), slice);
      header.flags &= ~kByHostsFlag;
      hosts->Post({.header = header});
    }
  }
  Calls(a, core, memory);
}

template <typename A>
void Snapshot::Host(A& a, Of<A, sim::Host>& host, Of<A, std::vector<Buffers>>& buffers) {
  check::Regions memory;
  memory.Add(host.core_.core_.memory_);
  for (auto& buffer : buffers) {
    memory.Add(buffer.send);
    memory.Add(buffer.recv);
  }
  QueuePair(a, host.qp_, memory);
  if (host.group_.network.pulled) RemoteAccess(a, host.qp_);
  Group(a, host.core_, buffers, memory);
  a.Numbers(host.unfinished_, host.wants_poll_, host.stopped_, host.life_);
  size_t number = 0;
  Sequence(a, host.calls_, [&](auto& call) {
    a.Numbers(call.state, call.outcome);
    Header(a, call.reply);
    if constexpr (A::kReads) {
      call.sent = buffers[number].send;
      call.received = buffers[number].recv;
    }
    a.Blob(buffers[number++].recv);
  });
}

}  // namespace epic
