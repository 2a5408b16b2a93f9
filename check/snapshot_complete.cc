// Every field of the types that check/snapshot_fields.h saves, by name. A structured binding does not compile
// when its type has another number of fields: who adds one says in snapshot_fields.h how it is saved, or
// finds that it need not be, and names it here.
//
// What is not saved never changes after set-up (configurations, places in memory), or is a counter or an
// identification number, or is of no use to what is explored (inline data, RDMA Reads and Writes, datagrams).
#include "check/snapshot.h"

namespace epic {

// In the order of declaration.
void Snapshot::EveryField(const engine::Context& context, const engine::Slot& slot,
                          const engine::TerminatedState& mode_i, const engine::Message& message) {
  // Not saved: config, arena_offset, arena_bytes, ranks, child_of_rank, counters.
  [[maybe_unused]] const auto& [config, state, invocations, control, arena_offset, arena_bytes, children,
                                parent, ranks, child_of_rank, results_end, up_sent, acked_end, up_acked_end,
                                max_up_epsn, asked_from, asked_at, handed_down_at, uplink_at, uplink_backoff,
                                timer_at, counters, terminated] = context;
  {
    // Not saved: config, udp_src_port, ip_id, counters.
    [[maybe_unused]] const auto& [endpoint_config, udp_src_port, ip_id, in, out, nak_sent, up_epsn, up_told,
                                  deferred, down_acked_end, want, prompt_at, prompt_backoff,
                                  accepted_since_ack, ack_due, ack_sent, resend_at, resend_backoff, repeating,
                                  heard_at, repeat_ack_at, rnr_allowed_at, rnr_backoff, endpoint_counters] =
        parent;
    [[maybe_unused]] const auto& [from, to] = want;
    [[maybe_unused]] const auto& [segments, message_packets, next_index, next_wire, next_msn,
                                  next_invocation] = in;
    [[maybe_unused]] const auto& [invocation, is_control, first_index, length, wire_base, msn_base,
                                  part_packets, part_messages] = segments.front();
  }
  {
    [[maybe_unused]] const auto& [number, header, control_index, layout] = invocations.front();
    [[maybe_unused]] const auto& [collective, op, type, invocation, count, root, parts, flags, status, field,
                                  culprit] = header;
    [[maybe_unused]] const auto& [layout_parts, part_packets, part_bytes, control_packets, inlined_bytes] =
        layout;
  }
  { [[maybe_unused]] const auto& [invocation, arrived, ack_req, header] = control.front(); }
  { [[maybe_unused]] const auto& [index, arrived, ack_req] = slot; }
  {
    [[maybe_unused]] const auto& [mode_i_children, mode_i_parent, sums, up, next_child, sum_at, sum_loaded,
                                  failure, up_failed, down, down_failed] = mode_i;
    [[maybe_unused]] const auto& [qp, received, receiving_at, packets_received, told, poll] = *mode_i_parent;
    // Not saved: base, capacity.
    [[maybe_unused]] const auto& [base, capacity, messages, first, left_packets_end, tail] = sums;
    [[maybe_unused]] const auto& [invocation, at_control, header, layout, part, in_part, control_index] = up;
  }
  [[maybe_unused]] const auto& [at, bytes, is_control, imm, holders, packets_end, index] = message;
}

void Snapshot::EveryField(const roce::QueuePair& qp) {
  // Not saved: config, window, attr, counters.
  [[maybe_unused]] const auto& [config, window, state, attr, tx, rx, rate, completions, counters] = qp;
  {
    // Not saved: inline_bytes, reads_in_flight.
    [[maybe_unused]] const auto& [sends, inline_bytes, posts, cur, una, nxt, max, posted, message_limit,
                                  since_ack_req, reads_in_flight, started_retry, stuck, retries_left,
                                  rnr_retries_left, timer_at, rnr_until] = tx;
    // Not saved: inline_at, is_inline.
    [[maybe_unused]] const auto& [wr, first, packets, number, length, inline_at, is_inline, requested] =
        sends[0];
    // Not saved: fence, inline_bytes, remote_address, rkey, ud.
    [[maybe_unused]] const auto& [wr_id, opcode, signaled, solicited, fence, sges, data, imm, remote_address,
                                  rkey, ud] = wr;
    [[maybe_unused]] const auto& [count, sge] = sges;
    [[maybe_unused]] const auto& [address, bytes, lkey] = sge.front();
  }
  {
    // Not saved: reads, write.
    [[maybe_unused]] const auto& [recvs, responses, reads, epsn, ack_psn, ack_msn, msn, nak_sent,
                                  refused_with, message, filled, write, acks_held, ack_at, cnp_due,
                                  cnp_allowed_at] = rx;
    [[maybe_unused]] const auto& [wr_id, sges] = recvs[0];
    // Not saved, as is_read is false: first, last, rkey, remaining, address.
    [[maybe_unused]] const auto& [is_read, syndrome, psn, response_msn, first, last, rkey, remaining,
                                  address] = responses[0];
  }
  {
    [[maybe_unused]] const auto& [active, rate_bps, target_bps, alpha, time_rounds, byte_rounds, bytes,
                                  alpha_at, increase_at, next_send_at] = rate;
  }
  // Not saved: src_ip, src_qpn.
  [[maybe_unused]] const auto& [wr_id, status, opcode, has_imm, solicited, imm, bytes, src_ip, src_qpn] =
      completions[0];
}

void Snapshot::EveryField(const sim::Host& host) {
  // Not saved: rank, ack_delay, wake; acks, of hosts that share them, which those here do not.
  [[maybe_unused]] const auto& [rank, ack_delay, wake, acks, qp, rank_calls, calls, unfinished, wants_poll,
                                stopped, life] = host;
  {
    // Not saved: finished_at.
    [[maybe_unused]] const auto& [state, outcome, reply, finished_at] = calls.front();
  }
  // Not saved: bounce_bytes, inline_bytes, slot_bytes, rank, world_size.
  [[maybe_unused]] const auto& [bounce_bytes, inline_bytes, slot_bytes, own_rank, world_size, memory, core,
                                outstanding, first_call, ended, posted] = rank_calls;
  {
    // The buffers, send and recv, are the node's.
    [[maybe_unused]] const auto& [header, send, recv, send_bytes, recv_bytes, way] = outstanding.front();
  }
  // Not saved: config.
  [[maybe_unused]] const auto& [config, send_window, ops, first_op, ended_ops, next_index, recv_posted,
                                send_posted, recv_done, send_done, failure, failure_reply, finished] = core;
  {
    [[maybe_unused]] const auto& [header, layout, first_index, keeps_data] = ops.front();
    [[maybe_unused]] const auto& [direction, message, op, part, in_part] = recv_posted;
  }
  [[maybe_unused]] const auto& [op, outcome, reply] = finished.front();
}

}  // namespace epic
