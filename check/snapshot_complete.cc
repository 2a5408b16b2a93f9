// Every field of queue pairs and hosts that check/snapshot_fields.h saves, by name; those of switches it
// binds where it saves them. A structured binding does not compile when its type has another number of
// fields: who adds one says in snapshot_fields.h how it is saved, or finds that it need not be, and names it
// here.
//
// What is not saved never changes after set-up (configurations, places in memory), or is a counter or an
// identification number, or is of no use to what is explored (inline data, RDMA Reads and Writes, datagrams;
// but where switches read and write hosts' memory: check/snapshot_initiated.h).
#include "check/snapshot.h"

namespace epic {

// In the order of declaration.
void Snapshot::EveryField(const roce::QueuePair& qp) {
  // Not saved: config, window, read_window, attr, counters; waited, as nobody tells it.
  [[maybe_unused]] const auto& [config, window, read_window, state, attr, tx, rx, rate, completions, counters,
                                waited] = qp;
  {
    // Not saved: inline_bytes, waited_at, and what is of Reads, which these hosts do not send.
    [[maybe_unused]] const auto& [sends, inline_bytes, posts, cur, una, nxt, max, posted, message_limit,
                                  since_ack_req, reads_in_flight, reads_awaited, reads_asked, reads_late,
                                  started_retry, stuck, retries_left, rnr_retries_left, excused, waited_at,
                                  timer_at, rnr_until] = tx;
    // Not saved: fence, is_inline, done, inline_at, remote_address, rkey, invalidate_rkey, compare_add, swap,
    // bind.
    [[maybe_unused]] const auto& [wr_id, opcode, signaled, solicited, fence, is_inline, requested, done,
                                  length, inline_at, first, packets, number, remote_address, rkey, imm, sges,
                                  invalidate_rkey, compare_add, swap, bind] = sends[0];
    // Not saved: more.
    [[maybe_unused]] const auto& [count, sge, more] = sges;
    [[maybe_unused]] const auto& [address, bytes, lkey] = sge.front();
  }
  {
    // Not saved: reads.
    [[maybe_unused]] const auto& [recvs, responses, reads, epsn, ack_psn, ack_msn, msn, nak_sent,
                                  refused_with, in, acks_held, ack_at, cnp_due, cnp_allowed_at] = rx;
    // Not saved: write.
    [[maybe_unused]] const auto& [message, filled, write] = in;
    [[maybe_unused]] const auto& [wr_id, sges] = recvs[0];
    // Not saved, as kind is kAeth: first, last, rkey, remaining, address, original.
    [[maybe_unused]] const auto& [kind, syndrome, psn, response_msn, first, last, rkey, remaining, address,
                                  original] = responses[0];
  }
  {
    [[maybe_unused]] const auto& [active, rate_bps, target_bps, alpha, time_rounds, byte_rounds, bytes,
                                  alpha_at, increase_at, next_send_at] = rate;
  }
  // Not saved: over_ipv6, has_invalidated, invalidated_rkey, src_qpn.
  [[maybe_unused]] const auto& [wr_id, status, opcode, has_imm, solicited, has_invalidated, over_ipv6, imm,
                                bytes, invalidated_rkey, src_qpn] = completions[0];
}

void Snapshot::EveryField(const sim::Host& host) {
  // Not saved: rank, ack_delay, wake, group; post_to_peer, of hosts that have connections with others, which
  // those here have not; gone, as none is killed here.
  [[maybe_unused]] const auto& [rank, ack_delay, wake, qp, group, group_calls, post_to_peer, calls,
                                unfinished, wants_poll, stopped, life, gone] = host;
  {
    // Not saved: finished_at; by_hosts and blocks, as those here do not end by hosts, nor are in blocks.
    [[maybe_unused]] const auto& [state, outcome, reply, finished_at, by_hosts, blocks, sent, received] =
        calls.front();
  }
  const RankCalls& rank_calls = group_calls.core_;
  // Not saved: bounce_bytes, inline_bytes, own_memory, slot_bytes, rank, world_size; scale and saturation, of
  // quantised calls, which those here are not.
  [[maybe_unused]] const auto& [bounce_bytes, inline_bytes, own_memory, slot_bytes, own_rank, world_size,
                                scale, saturation, memory, core, outstanding, first_call, ended, posted] =
      rank_calls;
  {
    // The buffers, send and recv, are the node's.
    [[maybe_unused]] const auto& [header, send, recv, send_bytes, recv_bytes, way, part_stride, pulled] =
        outstanding.front();
    [[maybe_unused]] const auto& [ended_call, is_request] = ended.front();
  }
  // Not saved: config.
  [[maybe_unused]] const auto& [config, send_window, granted_window, ops, first_op, ended_ops, next_index,
                                recv_posted, send_posted, recv_done, send_done, failure, failure_reply,
                                finished] = core;
  {
    [[maybe_unused]] const auto& [header, layout, first_index, keeps_data, busy] = ops.front();
    [[maybe_unused]] const auto& [direction, message, op, place] = recv_posted;
    [[maybe_unused]] const auto& [part, message_of_part] = place;
  }
  [[maybe_unused]] const auto& [op, outcome, reply] = finished.front();
}

}  // namespace epic
